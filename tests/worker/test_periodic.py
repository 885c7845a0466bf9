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
from holdfast.worker.jobs import Jobs
from holdfast.worker.periodic import Periodic

MINUTE_US = 60_000_000


def fired(store: Store) -> list[dict[str, Any]]:
    return Jobs(store).list(count=1_000)


def entries(store: Store) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in Periodic(store, Jobs(store)).list()}


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
    with store.database.script(["UPDATE periodic SET due_us = 1"]):
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


def test_any_process_fires_what_another_has_declared(virtual_store: Store) -> None:
    with instant() as time:
        declaring = Periodic(virtual_store, Jobs(virtual_store))
        declaring.declare("poll", every_s=10, kind="poll")
        declaring.save()
        time.advance(10)
        assert Periodic(virtual_store, Jobs(virtual_store)).fire_due() == 1
        assert list(entries(virtual_store)) == ["default:poll"]


def test_what_is_no_longer_declared_disappears(virtual_store: Store) -> None:
    with instant() as time:
        first = Periodic(virtual_store, Jobs(virtual_store))
        first.declare("old", every_s=10, kind="old")
        first.declare("kept", every_s=10, kind="kept")
        first.save()
        second = Periodic(virtual_store, Jobs(virtual_store))
        second.declare("kept", every_s=10, kind="kept")
        second.save()
        time.advance(10)
        assert first.fire_due() == 1
        assert [job["kind"] for job in fired(virtual_store)] == ["kept"]
        Periodic(virtual_store, Jobs(virtual_store)).save()
    assert entries(virtual_store) == {}


def test_services_in_different_groups_leave_each_other_alone(store: Store) -> None:
    for group in ("mail", "mailer"):
        periodic = Periodic(store, Jobs(store), group=group)
        periodic.declare("poll", every_s=10, kind=group)
        periodic.save()
    Periodic(store, Jobs(store), group="mail").save()
    assert list(entries(store)) == ["mailer:poll"]


def test_a_restart_keeps_the_next_firing_and_a_new_schedule_begins_anew(virtual_store: Store) -> None:
    with instant() as time:
        to_the_minute(time)

        def declare(schedule: str, kind: str) -> dict[str, Any]:
            periodic = Periodic(virtual_store, Jobs(virtual_store))
            periodic.declare("report", schedule, kind=kind)
            periodic.save()
            return entries(virtual_store)["default:report"]

        before = declare("@every 600", "one")
        time.advance(700)
        again = declare("@every 600", "two")
        assert (again["due_us"], again["kind"]) == (before["due_us"], "two")
        changed = declare("@every 60", "two")
        assert now_us() < changed["due_us"] <= now_us() + MINUTE_US


def test_a_schedule_that_only_a_newer_version_reads_is_left_to_it(virtual_store: Store) -> None:
    with instant() as time:
        periodic = Periodic(virtual_store, Jobs(virtual_store))
        periodic.declare("poll", every_s=10, kind="poll")
        periodic.save()
        statement = "UPDATE periodic SET schedule = '@fortnightly'"
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
        due_us = entries(virtual_store)["default:poll"]["due_us"]

        def crash(*args: Any, **keywords: Any) -> None:
            raise RuntimeError("killed")

        with monkeypatch.context() as broken:
            broken.setattr(jobs, "enqueue", crash)
            with pytest.raises(RuntimeError, match="killed"):
                periodic.fire_due()
        assert entries(virtual_store)["default:poll"]["due_us"] == due_us
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
        ({"schedule": "@daily", "name": ""}, Failure, "name has 1 to 60"),
        ({"schedule": "@daily", "name": "n" * 61}, Failure, "name has 1 to 60"),
        ({"schedule": "@daily", "queue": ""}, Failure, "queue has 1 to"),
        ({"schedule": "@daily", "kind": ""}, Failure, "kind has 1 to"),
        ({"schedule": "@daily", "payload": "x" * 300_000}, Failure, "JOB_PAYLOAD_TOO_LARGE"),
    ],
)
def test_a_declaration_that_cannot_be_meant_is_refused(given: dict[str, Any], error: type, message: str) -> None:
    store = Store.open("sqlite://")
    with pytest.raises(error, match=message):
        Periodic(store, Jobs(store)).declare(**{"name": "n", "kind": "k", **given})
    store.close()


@pytest.mark.parametrize("group", ["", "a:b", "g" * 61])
def test_a_group_has_a_plain_name(group: str) -> None:
    store = Store.open("sqlite://")
    with pytest.raises(Failure, match="group"):
        Periodic(store, Jobs(store), group=group)
    store.close()


def test_the_longest_names_still_fire(virtual_store: Store) -> None:
    with instant() as time:
        periodic = Periodic(virtual_store, Jobs(virtual_store), group="g" * 60)
        periodic.declare("n" * 60, every_s=10, kind="poll")
        periodic.save()
        time.advance(10)
        assert periodic.fire_due() == 1
