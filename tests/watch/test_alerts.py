"""Alerts on the store, on both engines: one notice for each move, and everything that follows in one transaction."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.base import Secret, bus
from holdfast.catalog.fault import Severity
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.watch import names
from holdfast.watch.alert_ledger import KIND, QUEUE, SUBJECT, AlertLedger, Known
from holdfast.watch.alert_state import QUIET, AlertState, Phase, judge
from holdfast.watch.alerts import Alerts
from holdfast.watch.rules_builtin import RULES
from holdfast.watch.series import StoreSeries
from holdfast.watch.sinks import WebhookSink
from holdfast.watch.sinks_slack import SlackSink
from holdfast.worker import Jobs

from .alert_scene import Process, open_sqlite, stand_at_a_slice

FAILED = {"code": "UPSTREAM_ERROR", "blame": "upstream", "reason": "attempts_used"}

BY_NAME = {rule.name: rule for rule in RULES}
SLACK = SlackSink(name="ops", url=Secret("http://127.0.0.1:9/hook"))
PAGED = WebhookSink(name="oncall", url=Secret("http://127.0.0.1:9/page"), severities=frozenset({Severity.CRITICAL}))


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    store = open_sqlite(tmp_path)
    yield store
    store.close()


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        stand_at_a_slice(virtual)
        yield virtual


@pytest.fixture
def process(time: VirtualTime, virtual_store: Store) -> Process:
    return Process(virtual_store)


@pytest.fixture
def alerts(time: VirtualTime, virtual_store: Store) -> Alerts:
    return Alerts(virtual_store, StoreSeries(virtual_store), sinks=[SLACK, PAGED])


def notices(store: Store) -> list[tuple[str, str, str, str]]:
    """Of every notice that was enqueued: sink, rule, cause, verb."""
    found = []
    for job in Jobs(store).list(queue=QUEUE, count=100):
        whole = Jobs(store).show(job["id"])
        assert whole["kind"] == KIND
        import json

        payload = json.loads(whole["payload"])
        notice = payload["notice"]
        found.append((payload["sink"], notice["rule"], notice["cause"], notice["verb"]))
    return sorted(found)


def journal(store: Store, key: str) -> list[str]:
    return [row["verb"] for row in Jobs(store).history(SUBJECT + key)]


def test_an_alert_fires_once_and_is_resolved_once(
    alerts: Alerts, process: Process, time: VirtualTime, virtual_store: Store
) -> None:
    assert alerts.turn() == []
    process.show(names.WEBHOOK_DEAD, value=101)
    time.advance(15)
    assert {(one.rule.name, one.state.phase) for one in alerts.turn()} == {
        ("webhook_dead_letters_critical", Phase.FIRING),
        ("webhook_dead_letters_warning", Phase.FIRING),
    }
    time.advance(15)
    assert alerts.turn() == []
    process.show(names.WEBHOOK_DEAD, value=60)
    time.advance(15)
    assert [(one.rule.name, one.state.phase) for one in alerts.turn()] == [
        ("webhook_dead_letters_critical", Phase.RESOLVED)
    ]
    critical, warning = "webhook_dead_letters_critical", "webhook_dead_letters_warning"
    assert notices(virtual_store) == [
        ("oncall", critical, "", "fired"),
        ("oncall", critical, "", "resolved"),
        ("ops", critical, "", "fired"),
        ("ops", critical, "", "resolved"),
        ("ops", warning, "", "fired"),
    ]
    assert journal(virtual_store, critical) == ["fired", "resolved"]


def test_a_condition_has_to_last_as_long_as_the_rule_says(sqlite_store: Store, time: VirtualTime) -> None:
    process, alerts = Process(sqlite_store), Alerts(sqlite_store, StoreSeries(sqlite_store))
    fired_after_s = None
    for step in range(60):
        process.tell("delivery.attempted", endpoint="a", outcome="delivered", attempt=1, status=200, times=9)
        process.tell("delivery.attempted", endpoint="a", outcome="retried", attempt=1, status=503, code="X")
        moved = {one.rule.name: one.state.phase for one in alerts.turn()}
        if moved.get("webhook_success_rate_critical") is Phase.FIRING:
            fired_after_s = step * 15
            break
        time.advance(15)
    assert fired_after_s in {300, 315}  # the turn that is 300 s later, or a microsecond short of it


def test_each_cause_is_told_and_resolved_by_itself(
    alerts: Alerts, process: Process, time: VirtualTime, virtual_store: Store
) -> None:
    for link in ("a", "b"):
        process.tell("link.gave_up", link=link, **FAILED, times=21)
    alerts.turn()
    time.advance(200)
    process.tell("link.gave_up", link="b", **FAILED, times=30)
    time.advance(150)
    alerts.turn()
    of_links = [one for one in notices(virtual_store) if one[1] == "external_service_down"]
    assert of_links == [
        ("ops", "external_service_down", "a", "fired"),
        ("ops", "external_service_down", "a", "resolved"),
        ("ops", "external_service_down", "b", "fired"),
    ]


def test_of_several_processes_one_tells(virtual_store: Store, process: Process, time: VirtualTime) -> None:
    process.show(names.WEBHOOK_DEAD, value=60)
    several = [Alerts(virtual_store, StoreSeries(virtual_store), sinks=[SLACK]) for _ in range(4)]
    from contextvars import copy_context

    start = threading.Barrier(len(several))
    moved: list[int] = []

    def turn(one: Alerts) -> None:
        start.wait()
        moved.append(len(one.turn()))

    threads = [threading.Thread(target=copy_context().run, args=(turn, one)) for one in several]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(moved) == [0, 0, 0, 1]
    assert notices(virtual_store) == [("ops", "webhook_dead_letters_warning", "", "fired")]


def test_who_read_an_older_version_changes_and_tells_nothing(virtual_store: Store, time: VirtualTime) -> None:
    rule = BY_NAME["webhook_dead_letters_warning"]
    ledger = AlertLedger(virtual_store, Jobs(virtual_store), [SLACK])
    fired = judge(rule, 60, QUIET, 1_000)
    assert ledger.move(rule, "", Known(), fired)
    assert not ledger.move(rule, "", Known(), fired)
    (known,) = ledger.known().values()
    assert ledger.move(rule, "", known, judge(rule, 10, known.state, 2_000))
    assert not ledger.move(rule, "", known, judge(rule, 10, known.state, 3_000))
    assert [one[3] for one in notices(virtual_store)] == ["fired", "resolved"]
    assert journal(virtual_store, rule.name) == ["fired", "resolved"]


def test_a_move_and_its_notices_come_together_or_not_at_all(virtual_store: Store, time: VirtualTime) -> None:
    class Broken(Jobs):
        def enqueue(self, *args, **kwargs):
            super().enqueue(*args, **kwargs)
            raise RuntimeError("the process died here")

    rule = BY_NAME["webhook_dead_letters_warning"]
    dying = AlertLedger(virtual_store, Broken(virtual_store), [SLACK])
    with pytest.raises(RuntimeError):
        dying.move(rule, "", Known(), judge(rule, 60, QUIET, 1_000))
    assert dying.known() == {}
    assert notices(virtual_store) == []
    assert journal(virtual_store, rule.name) == []


def test_moves_are_told_on_the_bus_after_they_are_committed(
    alerts: Alerts, process: Process, time: VirtualTime, virtual_store: Store
) -> None:
    process.show(names.WEBHOOK_DEAD, value=60)
    with bus.heard() as told:
        alerts.turn()
        process.show(names.WEBHOOK_DEAD, value=0)
        time.advance(15)
        alerts.turn()
    ours = [(verb, facts["rule"], facts["value"]) for verb, facts in told if verb.startswith("alert.")]
    assert ours == [
        ("alert.fired", "webhook_dead_letters_warning", 60),
        ("alert.resolved", "webhook_dead_letters_warning", 0),
    ]


def test_what_fired_is_known_to_a_process_that_starts_later(
    alerts: Alerts, process: Process, time: VirtualTime, virtual_store: Store
) -> None:
    process.show(names.WEBHOOK_DEAD, value=60)
    alerts.turn()
    later = Alerts(virtual_store, StoreSeries(virtual_store), sinks=[SLACK])
    assert later.turn() == []
    firing = [one.rule.name for one in later.standings() if one.state.phase is Phase.FIRING]
    assert firing == ["webhook_dead_letters_warning"]


def test_a_rule_that_is_switched_off_is_resolved(
    alerts: Alerts, process: Process, time: VirtualTime, virtual_store: Store
) -> None:
    from dataclasses import replace

    process.show(names.WEBHOOK_DEAD, value=60)
    alerts.turn()
    time.advance(15)
    rules = [replace(rule, enabled=False) for rule in RULES]
    off = Alerts(virtual_store, StoreSeries(virtual_store), rules=rules, sinks=[SLACK])
    assert [(one.rule.name, one.state.phase) for one in off.turn()] == [
        ("webhook_dead_letters_warning", Phase.RESOLVED)
    ]


def test_standings_show_every_rule_and_change_nothing(alerts: Alerts, process: Process, virtual_store: Store) -> None:
    process.show(names.WEBHOOK_DEAD, value=60)
    found = {one.rule.name: one for one in alerts.standings(read=True)}
    assert set(found) == set(BY_NAME)
    assert found["webhook_dead_letters_warning"].exceeded
    assert found["webhook_dead_letters_warning"].state == QUIET
    assert not found["webhook_dead_letters_critical"].exceeded
    assert notices(virtual_store) == []


def test_only_what_has_long_been_quiet_is_forgotten(virtual_store: Store, time: VirtualTime) -> None:
    from holdfast.base import now_us

    rule = BY_NAME["external_service_down"]
    ledger = AlertLedger(virtual_store, Jobs(virtual_store))
    old = now_us()
    fired = judge(rule, 60, QUIET, old)
    ledger.move(rule, "still firing", Known(), fired)
    ledger.move(rule, "long ago", Known(), AlertState(at_us=old))
    time.advance(1_000)
    ledger.move(rule, "just now", Known(), AlertState(at_us=now_us()))
    assert ledger.prune(older_s=500) == 1
    assert {cause for _, cause in ledger.known()} == {"still firing", "just now"}


def test_a_running_watch_takes_turns_until_it_is_stopped(sqlite_store: Store) -> None:
    process = Process(sqlite_store)
    process.show(names.WEBHOOK_DEAD, value=60)
    told = threading.Event()
    end = bus.listen(lambda verb, facts: told.set() if verb == "alert.fired" else None)
    running, others = Alerts(sqlite_store, StoreSeries(sqlite_store), every_s=1), threading.enumerate()
    running.start()
    try:
        assert told.wait(60)
    finally:
        running.stop()
        end()
    ours = [thread for thread in threading.enumerate() if thread not in others]
    assert not [thread for thread in ours if thread.name == "holdfast-alerts"]


def test_trouble_with_the_numbers_is_told_and_the_next_turn_tries_again(sqlite_store: Store) -> None:
    from holdfast.catalog.core import DATABASE_CONNECTION_ERROR

    class Shaky(StoreSeries):
        turns = 0

        def now_us(self) -> int:
            Shaky.turns += 1
            if Shaky.turns == 1:
                raise DATABASE_CONNECTION_ERROR()
            again.set()
            return super().now_us()

    again = threading.Event()
    running = Alerts(sqlite_store, Shaky(sqlite_store), every_s=1)
    with bus.heard() as told:
        running.start()
        try:
            assert again.wait(60)
        finally:
            running.stop()
    assert ("alert.trouble", {"code": "DATABASE_CONNECTION_ERROR"}) in told


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"rules": [RULES[0], RULES[0]]}, "two rules have the same name"),
        ({"sinks": [SLACK, SLACK]}, "two sinks have the same name"),
        ({"every_s": 0.1}, "every_s is at least 1"),
    ],
)
def test_a_wrong_set_up_is_refused(sqlite_store: Store, given: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Alerts(sqlite_store, StoreSeries(sqlite_store), **given)
