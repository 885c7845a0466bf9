"""Periodic jobs: fired when they are due, once, whoever watches."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast.base import now_us
from holdfast.catalog import Failure
from holdfast.policy.cron import CronInvalid
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Jobs, Periodic, QueueSettings, Worker
from holdfast.worker.periodic import KEPT_S, SILENT_S, VOUCH_S

MINUTE_US = 60_000_000


def fired(store: Store) -> list[dict[str, Any]]:
    return Jobs(store).list(count=1_000)


def entries(store: Store) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in Periodic(store, Jobs(store)).list()}


def declared(store: Store, **other: Any) -> Periodic:
    """A process that declares one entry."""
    periodic = Periodic(store, Jobs(store))
    periodic.declare(**{"name": "tick", "schedule": "@hourly", "kind": "tick", "payload": 1, **other})
    return periodic


def polling(store: Store, *, every_s: float, kind: str = "poll") -> Periodic:
    """A process that has started."""
    periodic = declared(store, name="poll", schedule=None, every_s=every_s, kind=kind)
    periodic.save()
    return periodic


def to_the_minute(time: VirtualTime) -> None:
    """A millisecond past the full minute, so that no rounding decides."""
    time.advance((MINUTE_US - now_us() % MINUTE_US) / 1_000_000 + 0.001)


def test_an_entry_fires_when_it_is_due_and_not_before(virtual_store: Store) -> None:
    with instant() as time:
        to_the_minute(time)
        periodic = Periodic(virtual_store, Jobs(virtual_store))
        periodic.declare("report", "* * * * *", kind="report.make", payload={"day": 1}, queue="reports")
        assert periodic.fire_due() == 0
        time.advance(59)
        assert periodic.fire_due() == 0
        time.advance(1)
        assert periodic.fire_due() == 1
        assert periodic.fire_due() == 0
        (job,) = fired(virtual_store)
        assert (job["kind"], job["queue"]) == ("report.make", "reports")
        assert Jobs(virtual_store).show(job["id"])["payload"] == '{"day":1}'
        time.advance(60)
        assert periodic.fire_due() == 1
    assert len(fired(virtual_store)) == 2


def test_an_interval_fires_at_its_multiples(virtual_store: Store) -> None:
    with instant() as time:
        to_the_minute(time)
        periodic = Periodic(virtual_store, Jobs(virtual_store))
        periodic.declare("poll", every_s=20, kind="poll")
        counts = []
        periodic.save()
        for _ in range(12):
            time.advance(5)
            counts.append(periodic.fire_due())
    assert counts == [0, 0, 0, 1] * 3


def test_firings_missed_in_an_outage_are_made_up_for_by_one(virtual_store: Store) -> None:
    with instant() as time:
        to_the_minute(time)
        periodic = Periodic(virtual_store, Jobs(virtual_store))
        periodic.declare("report", "* * * * *", kind="report.make")
        periodic.save()
        time.advance(3 * 3_600 + 30)
        assert periodic.fire_due() == 1
        assert periodic.fire_due() == 0
        assert periodic.next_due_s() == pytest.approx(30, abs=0.01)
        time.advance(30)
        assert periodic.fire_due() == 1


def test_ten_processes_fire_once(store: Store, database_url: str) -> None:
    stores = [store, *(Store.open(database_url) for _ in range(9))]
    clocks = [Periodic(one, Jobs(one)) for one in stores]
    for clock in clocks:
        for name in ("a", "b", "c"):
            clock.declare(name, "0 0 29 2 *", kind=name)
    clocks[0].save()
    with store.database.script(["UPDATE holdfast_periodic SET due_us = 1"]):
        pass
    start = threading.Barrier(10)
    counts: list[int] = []

    def fire(clock: Periodic) -> None:
        start.wait()
        counts.append(clock.fire_due())

    threads = [threading.Thread(target=fire, args=(clock,)) for clock in clocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for clock in clocks:
        clock.jobs.close()
    for opened in stores[1:]:
        opened.close()
    assert len(counts) == 10
    assert sum(counts) == 3
    assert sorted(job["kind"] for job in fired(store)) == ["a", "b", "c"]


def test_what_two_processes_declare_is_one_entry_that_either_fires(virtual_store: Store) -> None:
    with instant() as time:
        clocks = [polling(virtual_store, every_s=10) for _ in range(2)]
        for firing in (0, 1, 0):
            time.advance(10)
            assert clocks[firing].fire_due() == 1
            assert clocks[1 - firing].fire_due() == 0
        assert list(entries(virtual_store)) == ["poll"]


@pytest.mark.parametrize(
    "other",
    [{"name": "other"}, {"queue": "other"}, {"kind": "other"}, {"kind": "other", "schedule": "@hourly", "payload": 2}],
    ids=["by name", "by queue", "by kind", "by all but the name"],
)
def test_services_that_know_nothing_of_each_other_both_keep_firing(virtual_store: Store, other: dict[str, Any]) -> None:
    with instant() as time:
        to_the_minute(time)
        services = [declared(virtual_store), declared(virtual_store, **other)]
        for service in (*services, services[0]):  # the first one starts again, too
            service.save()
        for _ in range(3):
            time.advance(3_600)
            assert [service.fire_due() for service in services] == [1, 1]
            assert [service.fire_due() for service in services] == [0, 0]
    assert len(fired(virtual_store)) == 6


def test_a_schedule_that_was_removed_from_the_code_stops_with_its_last_process(virtual_store: Store) -> None:
    with instant() as time:
        polling(virtual_store, every_s=10, kind="removed")
        still = polling(virtual_store, every_s=10)
        time.advance(10)
        assert still.fire_due() == 1
        assert [job["kind"] for job in fired(virtual_store)] == ["poll"]
        assert Periodic(virtual_store, Jobs(virtual_store)).fire_due() == 0
        assert Periodic(virtual_store, Jobs(virtual_store)).next_due_s() is None


def test_an_entry_is_forgotten_when_nobody_has_declared_it_for_a_week(virtual_store: Store) -> None:
    with instant() as time:
        polling(virtual_store, every_s=10, kind="removed")
        still = polling(virtual_store, every_s=10)
        time.advance(KEPT_S - 1)
        still.fire_due()
        assert [one["kind"] for one in still.list()] == ["poll", "removed"]
        time.advance(VOUCH_S)
        still.fire_due()
        assert [one["kind"] for one in still.list()] == ["poll"]


def test_a_service_that_was_away_makes_up_for_one_firing_also_where_another_went_on(virtual_store: Store) -> None:
    with instant() as time:
        polling(virtual_store, every_s=3_600, kind="away")
        other = polling(virtual_store, every_s=3_600)
        for _ in range(30):
            time.advance(3_600)
            other.fire_due()
        back = polling(virtual_store, every_s=3_600, kind="away")
        assert (back.fire_due(), back.fire_due()) == (1, 0)


def test_an_entry_that_was_lost_is_declared_anew_by_those_that_still_run(virtual_store: Store) -> None:
    with instant() as time:
        poll = polling(virtual_store, every_s=10)
        with virtual_store.database.script(["DELETE FROM holdfast_periodic"]):
            pass
        time.advance(VOUCH_S)
        assert poll.fire_due() == 0
        time.advance(10)
        assert poll.fire_due() == 1


def test_in_a_rollout_the_newest_process_has_the_word_and_when_it_is_gone_the_others_again(
    virtual_store: Store,
) -> None:
    def schedule() -> str:
        return str(entries(virtual_store)["poll"]["schedule"])

    with instant() as time:
        old = polling(virtual_store, every_s=3_600)
        new = polling(virtual_store, every_s=7_200)
        for _ in range(int(2 * SILENT_S / VOUCH_S)):
            time.advance(VOUCH_S)
            old.fire_due()
            new.fire_due()
            assert schedule() == "@every 7200.0"
        # The new one is stopped: what it said is in force a while longer, and then no more.
        for _ in range(int(SILENT_S / VOUCH_S) - 1):
            time.advance(VOUCH_S)
            old.fire_due()
            assert schedule() == "@every 7200.0"
        time.advance(VOUCH_S)
        old.fire_due()
        assert schedule() == "@every 3600.0"


def test_two_workers_of_different_services_both_keep_firing(store: Store) -> None:
    workers = []
    for name in ("a", "b"):
        handlers = Handlers()
        handlers.serve(QueueSettings(name))
        handlers.handle(name)(lambda job: None)
        handlers.enqueue_by_clock("tick", every_s=1, kind=name, queue=name)
        workers.append(Worker(store, handlers))
    jobs = Jobs(store)
    try:
        for worker in workers:
            worker.start()
        wait_until(lambda: len(jobs.list(kind="b")) > 1, within_s=40, what="firings of the second")
        before = len(jobs.list(kind="a"))
        wait_until(lambda: len(jobs.list(kind="a")) > before, within_s=40, what="another firing of the first")
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join(30)
        jobs.close()
    # Each was fired once at each second.
    for kind in ("a", "b"):
        keys = [jobs.show(job["id"])["dedupe_key"] for job in jobs.list(kind=kind)]
        assert len(keys) == len(set(keys))


def test_a_restart_keeps_the_next_firing_and_a_new_schedule_begins_anew(virtual_store: Store) -> None:
    with instant() as time:
        to_the_minute(time)

        def declare(schedule: str, payload: str) -> dict[str, Any]:
            declared(virtual_store, name="report", schedule=schedule, payload=payload).save()
            return entries(virtual_store)["report"]

        before = declare("@every 600", "one")
        time.advance(700)
        again = declare("@every 600", "two")
        assert (again["due_us"], again["payload"]) == (before["due_us"], '"two"')
        changed = declare("@every 60", "two")
        assert now_us() < changed["due_us"] <= now_us() + MINUTE_US


def test_a_schedule_that_only_a_newer_version_reads_is_left_to_it(virtual_store: Store) -> None:
    with instant() as time:
        periodic = Periodic(virtual_store, Jobs(virtual_store))
        periodic.declare("poll", every_s=10, kind="poll")
        periodic.save()
        statement = "UPDATE holdfast_periodic SET schedule = '@fortnightly'"
        with virtual_store.database.script([statement]):
            pass
        time.advance(10)
        assert periodic.fire_due() == 0
        assert periodic.next_due_s() == 0


def test_the_job_and_the_moved_time_are_one_transaction(virtual_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with instant() as time:
        jobs = Jobs(virtual_store)
        periodic = Periodic(virtual_store, jobs)
        periodic.declare("poll", every_s=10, kind="poll")
        periodic.save()
        time.advance(10)
        due_us = entries(virtual_store)["poll"]["due_us"]

        def crash(*args: Any, **keywords: Any) -> None:
            raise RuntimeError("killed")

        with monkeypatch.context() as broken:
            broken.setattr(jobs, "enqueue", crash)
            with pytest.raises(RuntimeError, match="killed"):
                periodic.fire_due()
        assert entries(virtual_store)["poll"]["due_us"] == due_us
        assert periodic.fire_due() == 1


def test_nothing_is_ever_due_where_nothing_is_declared(store: Store) -> None:
    assert Periodic(store, Jobs(store)).next_due_s() is None


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"schedule": "61 * * * *"}, CronInvalid, "minute: '61'"),
        ({"every_s": 0.0}, CronInvalid, "every_s: 0.0"),
        ({}, CronInvalid, "either a schedule or every_s"),
        ({"schedule": "@daily", "every_s": 5.0}, CronInvalid, "either a schedule or every_s"),
        ({"schedule": "@daily", "name": ""}, Failure, "name is text of 1 to 120"),
        ({"schedule": "@daily", "name": "n" * 121}, Failure, "name is text of 1 to 120"),
        ({"schedule": "@daily", "queue": ""}, Failure, "queue is text of 1 to"),
        ({"schedule": "@daily", "kind": ""}, Failure, "kind is text of 1 to"),
        ({"schedule": "@daily", "payload": "x" * 300_000}, Failure, "JOB_PAYLOAD_TOO_LARGE"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(given: dict[str, Any], error: type, message: str) -> None:
    store = Store.open("sqlite://")
    with pytest.raises(error, match=message):
        Periodic(store, Jobs(store)).declare(**{"name": "n", "kind": "k", **given})
    store.close()


def test_the_longest_names_still_fire(virtual_store: Store) -> None:
    with instant() as time:
        periodic = Periodic(virtual_store, Jobs(virtual_store))
        periodic.declare("n" * 120, every_s=10, kind="k" * 200)
        periodic.save()
        time.advance(10)
        assert periodic.fire_due() == 1
