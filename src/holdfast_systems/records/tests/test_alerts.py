"""The alert rules: read from their file, brought along by the system, and the switch of providers that follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.catalog import Severity
from holdfast.policy.overlay import OverlayInvalid
from holdfast.store import Store
from holdfast.watch import start
from holdfast.watch.alerts import Alerts
from holdfast.watch.panels import REQUESTS
from holdfast.watch.rules import Action
from holdfast.watch.rules_measure import window_s
from holdfast.watch.series import StoreSeries
from holdfast.watch.switch import Side, Switch
from holdfast_systems.records.alerts import load_rules, read_rules
from holdfast_systems.records.verification import SWITCH

from .live import running


def test_the_rules_are_those_of_the_file() -> None:
    told = {rule.name: rule for rule in load_rules()}
    assert {name: (rule.above, window_s(rule.what), rule.severity, rule.action) for name, rule in told.items()} == {
        "high_error_rate": (0.05, 300.0, Severity.WARNING, None),
        "database_errors": (10.0, 60.0, Severity.CRITICAL, None),
        "external_service_down": (20.0, 300.0, Severity.WARNING, Action.SWITCH_PROVIDER),
    }


@pytest.mark.parametrize(
    "block",
    [
        {"condition": "error_rate > many", "window": "5_minutes", "action": "slack_alert"},
        {"condition": "weather > 5 in 1_minute", "action": "slack_alert"},
        {"condition": "error_rate > 5%", "window": "often", "action": "slack_alert"},
        {"condition": "error_rate > 5%", "window": "5_minutes", "action": "shout"},
        {"condition": "error_rate > 5%", "window": "5_minutes", "action": "slack_alert", "colour": "red"},
    ],
)
def test_a_rule_that_cannot_be_meant_is_named(block: dict[str, str]) -> None:
    with pytest.raises(OverlayInvalid, match=r"alerts\.mine"):
        read_rules("alerts.yml", {"alerts": {"mine": block}})


def test_the_system_brings_its_rules_along(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path) as live:
        assert [rule.name for rule in live.system.rules] == [
            "high_error_rate",
            "database_errors",
            "external_service_down",
        ]


def test_a_provider_that_keeps_failing_is_switched_away_from(store: Store, tmp_path: Path) -> None:
    watching = start(store, flush_s=3_600)
    try:
        with running(store, tmp_path, worker=True, standins=True) as live:
            account = live.account()
            live.http.put("/standins/millionverifier/faults", json={"status": 503}).raise_for_status()
            asked = [account.post("/verifications", {"email": f"p{n}@acme.example"}).json() for n in range(30)]
            for one in asked:
                assert account.settled(f"/verifications/{one['verification_id']}")["provider"] == "zerobounce"
            watching.flush()
            alerts = Alerts(store, StoreSeries(store), rules=live.system.rules)
            alerts.turn()
            assert Switch(store).active(SWITCH) is Side.FALLBACK
    finally:
        watching.stop()


def test_the_metrics_of_the_error_model_are_panels() -> None:
    assert [panel.name for panel in REQUESTS.panels] >= ["error_rate", "errors", "latency", "retry_success"]
