"""Dead letters: found, grouped, revived once and only once, discarded."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.base import Limits, World, now_us, replaced
from holdfast.catalog import Failure
from holdfast.catalog.core import CONSTRAINT_VIOLATED, NETWORK_TIMEOUT
from holdfast.store import Store
from holdfast.testing import instant
from holdfast.worker import dead as dead_module
from holdfast.worker import ledger
from holdfast.worker.dead import DeadFilter, DeadLetters, Progress
from holdfast.worker.job import NewJob
from holdfast.worker.jobs import Jobs
from holdfast.worker.settlement import failed

WORKER = "w1"


def kill(store: Store, queue: str = "default", failure: Callable[[], Failure] = NETWORK_TIMEOUT) -> list[str]:
    """Let every ready job of the queue fail for the last time."""
    jobs = store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker=WORKER, count=10_000))
    settlements = [failed(job, failure(), None, 5, blamed=True) for job in jobs]
    store.atomic(lambda tx: ledger.settle(tx, WORKER, (), settlements))
    return [job.id for job in jobs]


def die(store: Store, **asked: Any) -> str:
    """One dead letter."""
    failure = asked.pop("failure", NETWORK_TIMEOUT)
    queue = asked.pop("queue", "default")
    made = Jobs(store).enqueue(asked.pop("kind", "mail"), queue=queue, attempts=1, **asked)
    assert kill(store, queue, failure) == [made.id]
    return made.id


def die_many(store: Store, count: int) -> set[str]:
    made = Jobs(store).enqueue_many([NewJob(kind="mail", attempts=1) for _ in range(count)])
    kill(store)
    return {one.id for one in made}


def ids(dead: DeadLetters, chosen: DeadFilter) -> list[str]:
    return [letter["id"] for letter in dead.list(chosen).letters]


def verbs(store: Store, job_id: str) -> list[str]:
    return [event["verb"] for event in DeadLetters(store).history(job_id)]


def test_letters_are_listed_a_page_at_a_time_newest_first(virtual_store: Store) -> None:
    with instant() as time:
        made = []
        for _ in range(5):
            made.append(die(virtual_store))
            time.advance(1)
        dead = DeadLetters(virtual_store)
        seen, before = [], None
        while True:
            page = dead.list(count=2, before=before)
            seen += [letter["id"] for letter in page.letters]
            before = page.next
            if before is None:
                break
    assert seen == made[::-1]
    assert page.letters[0]["error_code"] == "NETWORK_TIMEOUT"


def test_letters_that_died_in_the_same_moment_are_neither_skipped_nor_shown_twice(virtual_store: Store) -> None:
    with instant():
        made = die_many(virtual_store, 7)
        dead = DeadLetters(virtual_store)
        first = dead.list(count=4)
        second = dead.list(count=4, before=first.next)
    assert [len(first.letters), len(second.letters), second.next] == [4, 3, None]
    assert {letter["id"] for page in (first, second) for letter in page.letters} == made


@pytest.mark.parametrize("before", ["", "x", "1", "1.", ".id", "-1.id", f"{2**63}.id", "²." + "id"])
def test_a_page_that_nobody_gave_is_refused(store: Store, before: str) -> None:
    with pytest.raises(Failure, match="before is not what a page gave") as caught:
        DeadLetters(store).list(before=before)
    assert caught.value.code == "BAD_REQUEST"


def test_each_filter_chooses_what_it_names(virtual_store: Store) -> None:
    with instant() as time:
        start_us = now_us()
        plain = die(virtual_store)
        time.advance(10)
        queued = die(virtual_store, queue="other")
        kind = die(virtual_store, kind="fax")
        tenant = die(virtual_store, tenant="acme")
        time.advance(10)
        code = die(virtual_store, failure=lambda: CONSTRAINT_VIOLATED("The Printer is at 100 % of its_limit."))
        dead = DeadLetters(virtual_store)
        moment = datetime.fromtimestamp((start_us + 10_000_000) / 1_000_000, UTC)
        fingerprint = dead.show(code)["fingerprint"]
        cases = [
            (DeadFilter(), {plain, queued, kind, tenant, code}),
            (DeadFilter(queue="other"), {queued}),
            (DeadFilter(kind="fax"), {kind}),
            (DeadFilter(tenant="acme"), {tenant}),
            (DeadFilter(code="CONSTRAINT_VIOLATED"), {code}),
            (DeadFilter(fingerprint=fingerprint), {code}),
            (DeadFilter(text="printer"), {code}),
            (DeadFilter(text="100 %"), {code}),
            (DeadFilter(text="its-limit"), set()),
            (DeadFilter(text="PRINTER%LIMIT"), set()),
            (DeadFilter(since=moment), {queued, kind, tenant, code}),
            (DeadFilter(until=moment), {plain}),
            (DeadFilter(since=moment, code="CONSTRAINT_VIOLATED"), {code}),
            (DeadFilter(queue="other", kind="fax"), set()),
        ]
        for chosen, expected in cases:
            assert set(ids(dead, chosen)) == expected, chosen
            assert dead.count(chosen) == len(expected), chosen
            assert sum(group["count"] for group in dead.groups(chosen)) == len(expected), chosen


def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    with pytest.raises(Failure, match="since names no time zone"):
        DeadLetters(store).count(DeadFilter(since=datetime(2024, 1, 1)))  # noqa: DTZ001 - that is the point


def test_letters_that_differ_only_in_numbers_and_names_are_one_group(virtual_store: Store) -> None:
    def refused(number: int) -> Failure:
        failure = CONSTRAINT_VIOLATED()
        failure.__cause__ = OSError(f"order {number} of 'user-{number}' was refused")
        return failure

    with instant() as time:
        start_us = now_us()
        made = []
        for number in range(3):
            made.append(die(virtual_store, failure=lambda number=number: refused(number)))
            time.advance(60)
        alone = die(virtual_store, kind="fax", failure=lambda: refused(9))
        groups = DeadLetters(virtual_store).groups()
    assert [(group["kind"], group["count"], group["example_id"]) for group in groups] == [
        ("mail", 3, made[-1]),
        ("fax", 1, alone),
    ]
    assert groups[0]["code"] == "CONSTRAINT_VIOLATED"
    assert "order 2" in groups[0]["technical"]
    assert groups[0]["first_seen_us"] == start_us
    assert groups[0]["last_seen_us"] == start_us + 120_000_000


def test_the_whole_history_is_shown_however_long(store: Store) -> None:
    job_id = die(store)
    dead = DeadLetters(store)
    for _ in range(3):
        dead.revive(job_id)
        kill(store)
    with replaced(World(limits=Limits(page_rows_max=2))):
        assert verbs(store, job_id) == ["enqueued", *(["claimed", "failed", "revived"] * 3), "claimed", "failed"]
    assert dead.show(job_id)["manual_retry_count"] == 3


def test_a_revived_job_starts_anew(store: Store) -> None:
    made = Jobs(store).enqueue("mail", {"to": "x"}, attempts=1, priority=7)
    kill(store)
    DeadLetters(store).revive(made.id, reason="the server is back")
    job = Jobs(store).show(made.id)
    assert (job["state"], job["attempt_count"], job["manual_retry_count"]) == ("queued", 0, 1)
    assert (job["error_code"], job["code_counts"], job["failed_us"]) == (None, None, None)
    assert job["priority"] == 7
    event = list(DeadLetters(store).history(made.id))[-1]
    assert (event["verb"], event["reason"], event["code"]) == ("revived", "the server is back", "NETWORK_TIMEOUT")
    (again,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker=WORKER, count=9))
    assert (again.id, again.attempt, again.payload) == (made.id, 1, {"to": "x"})


@pytest.mark.parametrize(
    ("verb", "code", "status"),
    [("revive", "JOB_NOT_DEAD", 409), ("discard", "JOB_NOT_DEAD", 409), ("show", "JOB_NOT_FOUND", 404)],
)
def test_what_is_not_dead_is_left_alone(store: Store, verb: str, code: str, status: int) -> None:
    made = Jobs(store).enqueue("mail")
    dead = DeadLetters(store)
    with pytest.raises(Failure, match="job is queued") as caught:
        getattr(dead, verb)(made.id)
    assert (caught.value.code, caught.value.status, caught.value.retryable) == (code, status, False)
    with pytest.raises(Failure, match="There is no such job"):
        getattr(dead, verb)("none")
    assert verbs(store, made.id) == ["enqueued"]


def test_a_letter_whose_key_a_newer_twin_holds_is_not_revived(store: Store) -> None:
    old = die(store, dedupe_key="order-1")
    twin = Jobs(store).enqueue("mail", dedupe_key="order-1")
    dead = DeadLetters(store)
    with pytest.raises(Failure) as caught:
        dead.revive(old)
    assert caught.value.code == "JOB_TWIN_EXISTS"
    assert caught.value.details == {"job_id": old, "twin_id": twin.id}
    assert dead.revive_all(DeadFilter()) == Progress(total=1, done=0, refused=1)
    assert dead.show(old)["state"] == "failed"


def test_a_key_of_another_tenant_or_queue_is_no_twin(store: Store) -> None:
    old = die(store, dedupe_key="order-1")
    Jobs(store).enqueue("mail", dedupe_key="order-1", tenant="acme")
    Jobs(store).enqueue("mail", dedupe_key="order-1", queue="other")
    DeadLetters(store).revive(old)
    assert Jobs(store).enqueue("mail", dedupe_key="order-1").id == old


def test_a_twin_whose_window_is_over_keeps_nobody_out(virtual_store: Store) -> None:
    with instant() as time:
        old = die(virtual_store, dedupe_key="order-1")
        Jobs(virtual_store).enqueue("mail", dedupe_key="order-1", unique_s=60)
        dead = DeadLetters(virtual_store)
        time.advance(59)
        with pytest.raises(Failure, match="JOB_TWIN_EXISTS"):
            dead.revive(old)
        time.advance(1)
        dead.revive(old)
        assert Jobs(virtual_store).enqueue("mail", dedupe_key="order-1").id == old


def test_a_job_whose_own_window_is_over_does_not_take_its_key_again(virtual_store: Store) -> None:
    with instant() as time:
        old = die(virtual_store, dedupe_key="order-1", unique_s=60)
        time.advance(60)
        DeadLetters(virtual_store).revive(old)
        assert Jobs(virtual_store).enqueue("mail", dedupe_key="order-1").created


def test_of_several_letters_with_one_key_only_the_newest_is_revived(virtual_store: Store) -> None:
    with instant() as time:
        made = []
        for _ in range(3):
            made.append(die(virtual_store, dedupe_key="order-1"))
            time.advance(1)
        dead = DeadLetters(virtual_store)
        assert dead.revive_all(DeadFilter()) == Progress(total=3, done=1, refused=2)
        assert ids(dead, DeadFilter()) == [made[1], made[0]]


def test_the_same_holds_when_they_fall_into_different_batches(
    virtual_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_module, "BATCH", 1)
    test_of_several_letters_with_one_key_only_the_newest_is_revived(virtual_store)


def test_a_twin_that_comes_between_the_look_and_the_move_is_noticed(postgres_dsn: str) -> None:
    # SQLite has one writer at a time: nothing can come between there.
    store = Store.open(postgres_dsn)
    old = die(store, dedupe_key="order-1")
    outcome: list[Failure] = []

    def revive() -> None:
        with pytest.raises(Failure) as caught:
            DeadLetters(store).revive(old)
        outcome.append(caught.value)

    with store.database.connect() as user, store.database.connect() as watcher:  # type: ignore[attr-defined]
        user.autocommit = False
        twin = Jobs(store).enqueue("mail", dedupe_key="order-1", tx=store.join(user))
        reviving = threading.Thread(target=revive)
        reviving.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        while reviving.is_alive() and watcher.execute(waiting).fetchone() == (0,):
            pass
        user.commit()
        reviving.join()
    store.close()
    assert [failure.code for failure in outcome] == ["JOB_TWIN_EXISTS"]
    assert outcome[0].details["twin_id"] == twin.id


def test_all_that_match_are_revived_in_batches_and_progress_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_module, "BATCH", 4)
    made = die_many(store, 10)
    kept = die(store, kind="fax")
    dead = DeadLetters(store)
    chosen = DeadFilter(kind="mail")
    told: list[Progress] = []
    assert dead.count(chosen) == 10
    assert dead.revive_all(chosen, progress=told.append) == Progress(total=10, done=10)
    assert [(step.total, step.done) for step in told] == [(10, 4), (10, 8), (10, 10)]
    assert ids(dead, DeadFilter()) == [kept]
    assert {job["id"] for job in Jobs(store).list(state="queued")} == made
    assert all(verbs(store, job_id).count("revived") == 1 for job_id in made)


def test_jobs_that_fail_again_meanwhile_are_not_revived_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_module, "BATCH", 3)
    made = die_many(store, 10)
    dead = DeadLetters(store)
    assert dead.revive_all(DeadFilter(), progress=lambda _: kill(store) and None) == Progress(total=10, done=10)
    assert set(ids(dead, DeadFilter())) == made
    assert {letter["manual_retry_count"] for letter in dead.list().letters} == {1}


def test_reviving_ends_even_while_the_clock_stands_still(virtual_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_module, "BATCH", 3)
    with instant():
        die_many(virtual_store, 10)
        dead = DeadLetters(virtual_store)
        assert dead.revive_all(DeadFilter(), progress=lambda _: kill(virtual_store) and None).done == 10


def test_what_was_interrupted_is_done_by_calling_it_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_module, "BATCH", 3)
    made = die_many(store, 10)
    dead = DeadLetters(store)

    def crash(step: Progress) -> None:
        if step.done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dead.revive_all(DeadFilter(), progress=crash)
    assert dead.count() == 4
    assert dead.revive_all(DeadFilter()) == Progress(total=4, done=4)
    assert all(verbs(store, job_id).count("revived") == 1 for job_id in made)


@pytest.mark.parametrize(("verb", "event"), [("revive_all", "revived"), ("discard_all", "discarded")])
def test_two_operators_at_once_move_each_letter_once(
    store: Store, database_url: str, monkeypatch: pytest.MonkeyPatch, verb: str, event: str
) -> None:
    monkeypatch.setattr(dead_module, "BATCH", 10)
    made = die_many(store, 200)
    other = Store.open(database_url)
    start = threading.Barrier(4)
    done: list[int] = []

    def operate(here: Store) -> None:
        start.wait()
        done.append(getattr(DeadLetters(here), verb)(DeadFilter()).done)

    threads = [threading.Thread(target=operate, args=(here,)) for here in (store, other, store, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert sum(done) == 200
    assert DeadLetters(store).count() == 0
    assert Counter(verbs(store, job_id)[-1] for job_id in made) == {event: 200}
    assert sum(verbs(store, job_id).count(event) for job_id in made) == 200


def test_a_discarded_letter_is_gone_and_its_history_stays(store: Store) -> None:
    gone, kept = die(store), die(store)
    dead = DeadLetters(store)
    dead.discard(gone, reason="a test")
    assert ids(dead, DeadFilter()) == [kept]
    with pytest.raises(Failure, match="There is no such job"):
        Jobs(store).show(gone)
    last = list(dead.history(gone))[-1]
    assert (last["verb"], last["reason"], last["code"]) == ("discarded", "a test", "NETWORK_TIMEOUT")


def test_all_that_match_are_discarded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_module, "BATCH", 2)
    die_many(store, 5)
    kept = die(store, kind="fax")
    dead = DeadLetters(store)
    assert dead.discard_all(DeadFilter(kind="mail")) == Progress(total=5, done=5)
    assert ids(dead, DeadFilter()) == [kept]


def test_reviving_wakes_the_workers_of_this_process(store: Store) -> None:
    job_id = die(store)
    woken: list[int] = []
    store.on_wake(lambda: woken.append(1))
    DeadLetters(store).revive(job_id)
    assert woken == [1]
