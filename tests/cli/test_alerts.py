"""`holdfast alerts` on both engines: the rules and how they stand, a look at this moment, and the exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.store import Store
from holdfast.watch import names
from holdfast.watch.alerts import Alerts
from holdfast.watch.flush import Flusher
from holdfast.watch.meter import Meter
from holdfast.watch.promql_rules import rule_file
from holdfast.watch.rules_builtin import RULES
from holdfast.watch.series import StoreSeries


def show_dead(store: Store, count: float) -> None:
    meter = Meter()
    meter.set(names.WEBHOOK_DEAD, value=count)
    assert Flusher(store, meter).flush()


def test_the_list_shows_every_rule_and_which_fire(hand: Any, store: Store) -> None:
    show_dead(store, 60)
    Alerts(store, StoreSeries(store)).turn()
    found = {one["rule"]: one for one in hand.documents("alerts", "list")}
    assert set(found) == {rule.name for rule in RULES}
    firing = found["webhook_dead_letters_warning"]
    assert (firing["state"], firing["severity"], firing["threshold"], firing["value"]) == ("firing", "warning", 50, 60)
    assert firing["fired_at"].endswith("Z")
    assert firing["condition"] == "above 50"
    assert found["webhook_success_rate_critical"]["state"] == "inactive"
    head, *rows = hand.answer("alerts", "list").splitlines()
    assert head.split() == ["RULE", "CAUSE", "SEVERITY", "STATE", "SINCE", "WHEN"]
    assert len(rows) == len(RULES)


def test_a_check_prints_the_numbers_tells_nobody_and_says_by_its_exit_code(hand: Any, store: Store) -> None:
    assert hand("alerts", "check").exit_code == 0
    show_dead(store, 60)
    ended = hand("alerts", "check")
    assert ended.exit_code == 6
    assert "1 over the threshold." in ended.stderr
    (row,) = [line for line in ended.stdout.splitlines() if line.startswith("webhook_dead_letters_warning")]
    assert row.split()[:3] == ["webhook_dead_letters_warning", "warning", "60"]
    lines = [json.loads(line) for line in hand("alerts", "check", "--json").stdout.splitlines()]
    assert [one["rule"] for one in lines if one["exceeded"]] == ["webhook_dead_letters_warning"]
    assert {one["state"] for one in hand.documents("alerts", "list")} == {"inactive"}


def test_a_policy_file_changes_what_is_checked_and_listed(quick: Any, tmp_path: Path) -> None:
    policy = tmp_path / "alerts.toml"
    policy.write_text("[alerts.webhook_dead_letters_warning]\nthreshold = 500\n[alerts.queue_stuck]\nenabled = false\n")
    found = {one["rule"]: one for one in quick.documents("alerts", "list", "--policy", str(policy))}
    assert found["webhook_dead_letters_warning"]["threshold"] == 500
    assert found["queue_stuck"]["state"] == "off"


def test_a_wrong_policy_file_is_refused_with_its_key(quick: Any, tmp_path: Path) -> None:
    policy = tmp_path / "alerts.toml"
    policy.write_text("[alerts.nope]\n")
    ended = quick("alerts", "list", "--policy", str(policy))
    assert ended.exit_code == 2
    assert "alerts.toml: alerts.nope: there is no such rule" in ended.stderr


def test_prometheus_gets_the_same_rules_without_a_database(hand_on: Any, tmp_path: Path) -> None:
    nowhere = hand_on(f"sqlite:///{tmp_path / 'not-there.db'}")
    assert nowhere.answer("alerts", "export", "--format", "prometheus") == rule_file(RULES)
    assert not (tmp_path / "not-there.db").exists()


def test_prometheus_gets_the_thresholds_of_the_policy_file(quick: Any, tmp_path: Path) -> None:
    policy = tmp_path / "alerts.toml"
    policy.write_text("[alerts.high_error_rate]\nthreshold = 0.2\n")
    written = quick.answer("alerts", "export", "--format", "prometheus", "--policy", str(policy))
    assert "> 0.2" in written
    assert "More than 20 % of requests" in written


def test_grafana_gets_a_dashboard(quick: Any) -> None:
    made = json.loads(quick.answer("alerts", "export", "--format", "grafana"))
    assert made["title"] == "Holdfast"
    assert {"Success rate", "Dead letters", "Waiting jobs"} <= {panel["title"] for panel in made["panels"]}


def test_an_unknown_format_is_refused(quick: Any) -> None:
    ended = quick("alerts", "export", "--format", "nagios")
    assert ended.exit_code == 2
