"""Work on many dead letters: in batches, with a row that grows, and resumed where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.catalog.core import DATABASE_ERROR
from holdfast.delivery import Deliveries
from holdfast.operate import Actor, bulk
from holdfast.operate.audit_log import SILENT_US, Entry
from holdfast.operate.bulk import Verb
from holdfast.operate.dead_groups import count_blocked, summary_of
from holdfast.store import Store
from holdfast.worker import DeadFilter, DeadLetters, Jobs
from holdfast.worker.dead import Progress

Audit = Callable[[], list[Entry]]
Dead = Callable[..., list[str]]
MAIL = DeadFilter(queue="mail")


@pytest.mark.parametrize("verb", Verb)
def test_all_that_match_are_moved_and_the_row_says_how_many(
    store: Store, actor: Actor, audit: Audit, dead: Dead, verb: Verb
) -> None:
    dead(7)
    dead(2, queue="other")
    ended = bulk.run(store, bulk.begin(store, verb, MAIL, actor=actor, reason="fixed"))
    assert (ended.total, ended.done, ended.refused, ended.blocked) == (7, 7, 0, 0)
    [row] = audit()
    assert (row.verb, row.subject, row.reason) == (verb.value, "dead: queue=mail", "fixed")
    assert (row.state, row.done, row.total, row.refused) == ("done", 7, 7, 0)
    assert DeadLetters(store).count() == 2


def test_there_is_no_cap_and_each_batch_is_a_transaction(
    store: Store, actor: Actor, audit: Audit, dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.dead.BATCH", 3)
    dead(10)
    grown = []

    def look(_: Progress) -> None:
        grown.append(audit()[0].done)

    bulk.run(store, bulk.begin(store, Verb.REVIVE, MAIL, actor=actor), progress=look)
    assert grown == [3, 6, 9, 10], "the row grows with each batch"


@pytest.mark.parametrize("end", ["disable", "remove"])
def test_deliveries_that_no_endpoint_would_receive_are_left_and_counted(
    store: Store,
    jobs: Jobs,
    actor: Actor,
    audit: Audit,
    deliveries: Deliveries,
    die: Callable[[str], list[str]],
    dead: Dead,
    end: str,
) -> None:
    gone = deliveries.endpoints.add("http://127.0.0.1:9/gone")
    here = deliveries.endpoints.add("http://127.0.0.1:9/here")
    for number in range(3):
        deliveries.publish("order.paid", {"order": number})
    ids = die("webhooks")
    [plain] = dead(1)
    if end == "disable":
        deliveries.endpoints.disable(gone.id, reason="it moved")
    else:
        deliveries.endpoints.remove(gone.id)
    every = DeadFilter()
    counted, blocked = store.atomic(lambda tx: (summary_of(tx, every), count_blocked(tx, every)), write=False)
    assert (counted.count, counted.more, blocked) == (7, False, 3)
    ended = bulk.run(store, bulk.begin(store, Verb.REVIVE, every, actor=actor))
    assert (ended.done, ended.refused, ended.blocked) == (4, 3, 3)
    [row] = audit()
    assert row.result == "3 left: their endpoint is disabled or removed"
    left = DeadLetters(store).list(DeadFilter(endpoint=gone.id)).letters
    assert len(left) == 3
    assert {one["error_code"] for one in left} == {"NOT_FOUND"}, "what they died of stays"
    assert DeadLetters(store).count(DeadFilter(endpoint=here.id)) == 0
    assert {jobs.show(one)["state"] for one in ids} == {"failed", "queued"}
    assert jobs.show(plain)["state"] == "queued"
    bulk.run(store, bulk.begin(store, Verb.DISCARD, DeadFilter(endpoint=gone.id), actor=actor))
    assert DeadLetters(store).count() == 0


def test_letters_whose_work_another_job_does_are_left_and_counted(
    store: Store, jobs: Jobs, actor: Actor, audit: Audit, dead: Dead
) -> None:
    [one] = dead()
    store.atomic(lambda tx: tx._execute(f"UPDATE holdfast_job SET dedupe_key = 'k' WHERE id = '{one}'", {}))
    jobs.enqueue("mail.send", queue="mail", dedupe_key="k")
    ended = bulk.run(store, bulk.begin(store, Verb.REVIVE, DeadFilter(), actor=actor))
    assert (ended.done, ended.refused, ended.blocked) == (0, 1, 0)
    assert [(row.state, row.done, row.refused) for row in audit()] == [("done", 0, 1)]


def test_work_that_was_stopped_is_resumed_and_does_the_rest_once(
    store: Store, jobs: Jobs, actor: Actor, audit: Audit, dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.dead.BATCH", 2)
    ids = dead(6)
    work = bulk.begin(store, Verb.REVIVE, MAIL, actor=actor)
    with pytest.raises(bulk.Stopped):
        bulk.run(store, work, stopping=lambda: True)
    [row] = audit()
    assert (row.state, row.result, row.done, row.total) == ("refused", bulk.STOPPED, 2, 6)
    late = dead(1)
    resumed = bulk.resume(store, work.action.id, actor=actor)
    assert resumed.chosen == MAIL
    ended = bulk.run(store, resumed)
    assert ended.done == 4 + 0 * len(late)
    first, second = audit()
    assert (first.state, first.done) == ("done", 6)
    assert (second.verb, second.subject) == ("resume", f"audit:{work.action.id}")
    assert [jobs.show(one)["manual_retry_count"] for one in ids] == [1] * 6
    assert jobs.show(late[0])["state"] == "failed", "it died after the work began"
    with pytest.raises(Failure, match="ACTION_NOT_RESUMABLE"):
        bulk.resume(store, work.action.id, actor=actor)


def test_only_work_that_stands_still_can_be_taken_over(store: Store, actor: Actor, audit: Audit, dead: Dead) -> None:
    dead(2)
    work = bulk.begin(store, Verb.DISCARD, MAIL, actor=actor)
    with pytest.raises(Failure, match="ACTION_NOT_RESUMABLE"):
        bulk.resume(store, work.action.id, actor=actor)
    store.atomic(lambda tx: tx._execute(f"UPDATE holdfast_audit SET touched_us = touched_us - {SILENT_US + 1}", {}))
    assert audit()[0].state == "interrupted"
    assert bulk.run(store, bulk.resume(store, work.action.id, actor=actor)).done == 2
    with pytest.raises(Failure, match="ACTION_NOT_FOUND"):
        bulk.resume(store, "none", actor=actor)


def test_a_failure_in_the_middle_ends_the_row_with_its_code(
    store: Store, actor: Actor, audit: Audit, dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead(2)

    def broken(*_: Any, **__: Any) -> Any:
        raise DATABASE_ERROR()

    work = bulk.begin(store, Verb.REVIVE, MAIL, actor=actor)
    monkeypatch.setattr("holdfast.operate.bulk.revive_free", broken)
    with pytest.raises(Failure, match="DATABASE_ERROR"):
        bulk.run(store, work)
    assert [(row.state, row.result, row.done) for row in audit()] == [("refused", "DATABASE_ERROR", 0)]
