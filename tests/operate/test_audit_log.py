"""The audit is read by time, person, door, verb and subject, and old entries go."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest

from holdfast.base import now_us
from holdfast.base.formatting import moment_of
from holdfast.operate import Actor, ActorKind
from holdfast.operate.audit import DONE, new_action, write
from holdfast.operate.audit_log import AuditFilter, entries, entry
from holdfast.operate.retention import KEPT_S
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import Retention
from holdfast.worker.retention import DAY_S

ANN = Actor(ActorKind.CONSOLE, "ann", "10.0.0.7")
BEN = Actor(ActorKind.COMMAND, "ben", "host-1")


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


def put(store: Store, count: int, actor: Actor = ANN, verb: str = "pause", subject: str = "queue:mail") -> list[str]:
    """So many actions; their ids."""
    made = [new_action(actor, verb, subject, None) for _ in range(count)]
    store.atomic(lambda tx: [write(tx, one, state=DONE, result=DONE) for one in made])
    return [one.id for one in made]


def ids(store: Store, wanted: AuditFilter, *, before: str | None = None, count: int = 100) -> list[str]:
    found = store.atomic(lambda tx: entries(tx, wanted, before=before, count=count), write=False)
    return [one.id for one in found]


def test_entries_are_found_by_person_door_verb_subject_and_time(virtual_store: Store, time: VirtualTime) -> None:
    store = virtual_store
    [old] = put(store, 1)
    time.advance(3_600)
    noon = moment_of(now_us())
    [by_ben] = put(store, 1, BEN, "revive", "job:1")
    time.advance(3_600)
    [late] = put(store, 1, ANN, "revive", "job:2")
    assert ids(store, AuditFilter()) == [late, by_ben, old]
    assert ids(store, AuditFilter(who="ben")) == [by_ben]
    assert ids(store, AuditFilter(kind="console")) == [late, old]
    assert ids(store, AuditFilter(verb="revive", who="ann")) == [late]
    assert ids(store, AuditFilter(subject="job:")) == [late, by_ben]
    assert ids(store, AuditFilter(subject="job:1")) == [by_ben]
    assert ids(store, AuditFilter(since=noon)) == [late, by_ben]
    assert ids(store, AuditFilter(until=noon)) == [old]
    assert ids(store, AuditFilter(since=noon, until=noon + timedelta(hours=1))) == [by_ben]
    one = store.atomic(lambda tx: entry(tx, by_ben), write=False)
    assert (one.actor_kind, one.actor, one.address) == ("command", "ben", "host-1")


def test_pages_follow_each_other(virtual_store: Store) -> None:
    made = put(virtual_store, 5)
    first = ids(virtual_store, AuditFilter(), count=2)
    assert [*first, *ids(virtual_store, AuditFilter(), before=first[-1])] == made[::-1]


def test_entries_go_after_a_year_and_younger_ones_stay(virtual_store: Store, time: VirtualTime) -> None:
    put(virtual_store, 3)
    time.advance(KEPT_S - DAY_S)
    assert Retention().prune(virtual_store).others == {}
    young = put(virtual_store, 2)
    time.advance(2 * DAY_S)
    assert Retention(others_s={"audit": None}).prune(virtual_store).others == {}
    assert Retention().prune(virtual_store).others == {"audit": 3}
    assert ids(virtual_store, AuditFilter()) == young[::-1]


def test_a_shorter_time_is_a_setting_and_a_run_is_bounded(virtual_store: Store, time: VirtualTime) -> None:
    put(virtual_store, 5)
    time.advance(DAY_S + 1)
    rule = Retention(others_s={"audit": DAY_S}, batch_rows=2, batches_max=1)
    runs = [rule.prune(virtual_store) for _ in range(4)]
    assert [(run.others.get("audit", 0), run.more) for run in runs] == [(2, True), (2, True), (1, False), (0, False)]


def test_whoever_has_a_console_prunes_the_audit() -> None:
    asked = "import holdfast.console as c; c.console; from holdfast.worker.retention import _others; print(*_others)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60)
    assert "audit" in told.stdout.split()
