"""A policy file for alerts: what it changes, and what it says when something in it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.base import Secret
from holdfast.catalog.fault import Severity
from holdfast.policy.overlay import OverlayInvalid
from holdfast.watch.rules_builtin import RULES
from holdfast.watch.rules_file import AlertPolicy, load_alerts
from holdfast.watch.rules_measure import window_s
from holdfast.watch.sinks import WebhookSink
from holdfast.watch.sinks_pagerduty import EVENTS_URL, PagerDutySink
from holdfast.watch.sinks_slack import SlackSink

HIDDEN = "https://hooks.example.com/services/T0/B0/very-secret"
ENVIRONMENT = {"SLACK_URL": HIDDEN, "PD_KEY": "r0uting", "HOOK_SECRET": "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}


def load(tmp_path: Path, text: str) -> AlertPolicy:
    file = tmp_path / "alerts.toml"
    file.write_text(text)
    return load_alerts(file, RULES, environment=ENVIRONMENT)


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    policy = load(
        tmp_path,
        """
        [alerts.high_error_rate]
        threshold = 0.02
        for_s = 120
        window_s = 600
        severity = "critical"

        [alerts.webhook_success_rate_critical]
        threshold = 0.9
        per = "endpoint"

        [alerts.queue_stuck]
        enabled = false
        """,
    )
    rules = {rule.name: rule for rule in policy.rules}
    changed = rules["high_error_rate"]
    assert (changed.above, changed.for_s, window_s(changed.what), changed.severity) == (0.02, 120, 600, "critical")
    assert (rules["webhook_success_rate_critical"].below, rules["webhook_success_rate_critical"].per) == (
        0.9,
        "endpoint",
    )
    assert not rules["queue_stuck"].enabled
    named = {"high_error_rate", "webhook_success_rate_critical", "queue_stuck"}
    assert [rule for rule in policy.rules if rule.name not in named] == [r for r in RULES if r.name not in named]


def test_a_file_declares_sinks_and_takes_secrets_from_the_environment(tmp_path: Path) -> None:
    policy = load(
        tmp_path,
        """
        [sinks.ops]
        kind = "slack"
        url_variable = "SLACK_URL"
        severities = ["warning"]

        [sinks.oncall]
        kind = "pagerduty"
        routing_key_variable = "PD_KEY"

        [sinks.own]
        kind = "webhook"
        url = "https://example.com/alerts"
        secret_variable = "HOOK_SECRET"
        """,
    )
    assert policy.rules == RULES
    assert policy.sinks == (
        SlackSink(name="ops", url=Secret(HIDDEN), severities=frozenset({Severity.WARNING})),
        PagerDutySink(name="oncall", routing_key=Secret("r0uting"), url=Secret(EVENTS_URL)),
        WebhookSink(name="own", url=Secret("https://example.com/alerts"), secret=Secret(ENVIRONMENT["HOOK_SECRET"])),
    )
    assert HIDDEN not in repr(policy)
    assert "r0uting" not in repr(policy)


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("[alerts.high_error_rat]\nthreshold = 1", "alerts.high_error_rat", "did you mean high_error_rate?"),
        ("[alerts.high_error_rate]\nthreshold = 5", "alerts.high_error_rate.threshold", "write 5 % as 0.05"),
        ("[alerts.high_error_rate]\nthreshold = -1", "alerts.high_error_rate.threshold", "not a number from 0 on"),
        ("[alerts.high_error_rate]\nthreshold = nan", "alerts.high_error_rate.threshold", "not a number from 0 on"),
        ("[alerts.high_error_rate]\nthreshold = true", "alerts.high_error_rate.threshold", "true is not a number"),
        ("[alerts.high_error_rate]\nthreshhold = 1", "alerts.high_error_rate.threshhold", "the fields are threshold"),
        ("[alerts.high_error_rate]\nfor_s = 1e9", "alerts.high_error_rate.for_s", "is not a number between"),
        ("[alerts.high_error_rate]\nwindow_s = 1", "alerts.high_error_rate.window_s", "between 10 and 86400"),
        ("[alerts.job_failures_spike]\nwindow_s = 3600", "alerts.job_failures_spike.window_s", "between 10 and 1800"),
        ("[alerts.queue_stuck]\nwindow_s = 60", "alerts.queue_stuck.window_s", "has no window"),
        ("[alerts.high_error_rate]\nseverity = 'none'", "alerts.high_error_rate.severity", "warning or critical"),
        ("[alerts.high_error_rate]\nper = 'queue'", "alerts.high_error_rate.per", "write one of endpoint"),
        ("[alerts.external_service_down]\nper = 'link'", "alerts.external_service_down.per", "needs its own label"),
        ("[alerts.high_error_rate]\nenabled = 1", "alerts.high_error_rate.enabled", "write true or false"),
        ("[alerts]\nhigh_error_rate = 3", "alerts.high_error_rate", "is not a table"),
        ("alerts = 3", "alerts", "is not a table"),
        ("[retry_policies.X]", "retry_policies", "only alerts and sinks may stand at the top"),
        ("[sinks.x]", "sinks.x.kind", "write one of slack, pagerduty, webhook"),
        ("[sinks.x]\nkind = 'slack'", "sinks.x.url", "is missing"),
        ("[sinks.x]\nkind = 'slack'\nurl = 'ftp://secret-host/'", "sinks.x.url", "is not an http or https address"),
        ("[sinks.x]\nkind = 'slack'\nurl_variable = 'NOPE'", "sinks.x.url_variable", "that is not set"),
        ("[sinks.x]\nkind = 'slack'\nurl = 'http://a/'\nurl_variable = 'B'", "sinks.x.url_variable", "contradicts url"),
        ("[sinks.x]\nkind = 'slack'\nurl = 'http://a/'\ncolour = 1", "sinks.x.colour", "is not a field of this sink"),
        (
            "[sinks.x]\nkind = 'slack'\nurl = 'http://a/'\nseverities = ['loud']",
            "sinks.x.severities",
            'write ["warning"',
        ),
        ("[sinks.x]\nkind = 'webhook'\nurl = 'http://a/'\nsecret = 'bad-secret'", "sinks.x.secret", "cannot sign"),
    ],
)
def test_a_mistake_names_the_file_the_key_and_the_reason(tmp_path: Path, text: str, key: str, reason: str) -> None:
    with pytest.raises(OverlayInvalid) as refused:
        load(tmp_path, text)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{tmp_path / 'alerts.toml'}: {key}: ")
    assert reason in line
    assert "secret-host" not in line
    assert "bad-secret" not in line


def test_every_mistake_is_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(OverlayInvalid) as refused:
        load(tmp_path, "[alerts.nope]\n[alerts.high_error_rate]\nthreshold = 9\n[sinks.x]\nkind = 'slack'")
    assert len(refused.value.problems) == 3


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OverlayInvalid, match=r"missing\.toml: cannot be read"):
        load_alerts(tmp_path / "missing.toml", RULES)
