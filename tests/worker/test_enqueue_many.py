"""Enqueueing many at once: as a stream of rows in one call, and by coroutines that share a commit."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.worker import Jobs, NewJob, Queues
from holdfast.worker.enqueueing import Batch


@pytest.mark.parametrize("text", ["a\tb", "a\\nb", "back\\slash", "\\N", "\\.", "quote\"'", "line\nfeed\r", "ünï😀"])
def test_a_large_batch_keeps_every_character(store: Store, text: str) -> None:
    jobs = Jobs(store)
    made = jobs.enqueue_many([NewJob(kind=text, payload={"text": text}, tenant=text, queue=f"q{text}")] * 310)
    for one in (made[0], made[-1]):
        shown = jobs.show(one.id)
        assert (shown["kind"], shown["tenant"], shown["queue"]) == (text, text, f"q{text}")
        assert json.loads(shown["payload"]) == {"text": text}


def test_a_large_batch_keeps_delays_priorities_and_limits(store: Store) -> None:
    jobs = Jobs(store)
    new = NewJob(kind="work", delay_s=60, priority=-7, attempts=4, timeout_s=2.5)
    shown = jobs.show(jobs.enqueue_many([new] * 310)[-1].id)
    assert (shown["lane"], shown["priority"], shown["attempts_max"]) == ("waiting", -7, 4)
    assert (shown["timeout_us"], shown["due_us"] - shown["created_us"]) == (2_500_000, 60_000_000)


def test_in_a_large_batch_each_job_keeps_what_is_its_own(store: Store) -> None:
    jobs = Jobs(store)
    new = [
        NewJob(
            kind=f"k{number % 3}",
            payload=f"\\{number}",
            queue=f"q{number % 2}",
            tenant=f"t{number % 5}",
            priority=number % 7,
            delay_s=number % 4,
            attempts=number % 2 + 1,
            timeout_s=number % 11 + 1,
        )
        for number in range(320)
    ]
    for asked, made in zip(new, jobs.enqueue_many(new), strict=True):
        shown = jobs.show(made.id)
        names = (shown["kind"], shown["queue"], shown["tenant"])
        assert names == (asked.kind, asked.queue, asked.tenant)
        assert (json.loads(shown["payload"]), shown["priority"]) == (asked.payload, asked.priority)
        assert shown["due_us"] - shown["created_us"] == asked.delay_s * 1_000_000
        assert (shown["attempts_max"], shown["timeout_us"]) == (asked.attempts, (asked.timeout_s or 0) * 1_000_000)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (NewJob(kind="k", priority=1), NewJob(kind="k", priority=True)),
        (NewJob(kind="k", priority=1), NewJob(kind="k", priority=1.0)),  # type: ignore[arg-type]
        (NewJob(kind="k", attempts=1), NewJob(kind="k", attempts=True)),
        (NewJob(kind="k"), NewJob(kind=["k"])),  # type: ignore[arg-type]
        (NewJob(kind="k"), NewJob(kind="k", queue="q" * 201)),
        (NewJob(kind="k"), NewJob(kind="k", delay_s=-1)),
        (NewJob(kind="k"), NewJob(kind="k", unique_s=-1)),
    ],
)
def test_in_a_large_batch_what_looks_like_the_others_is_still_checked(
    store: Store, right: NewJob, wrong: NewJob
) -> None:
    jobs = Jobs(store)
    with pytest.raises(Failure) as refused:
        jobs.enqueue_many([*[right] * 310, wrong])
    assert refused.value.code == "BAD_REQUEST"
    assert jobs.list() == []
    assert {queue.name for queue in Queues(store).status()} <= {"default"}


def test_a_large_batch_that_is_repeated_after_a_lost_reply_doubles_nothing(store: Store) -> None:
    batch = Batch([NewJob(kind="work")] * 310)
    for _ in range(2):
        store.atomic(batch.enqueue)
    assert len(Jobs(store).list(count=400)) == 310


def test_one_bad_job_in_a_large_batch_keeps_all_of_it_out(store: Store) -> None:
    jobs = Jobs(store)
    with pytest.raises(Failure) as refused:
        jobs.enqueue_many([*[NewJob(kind="work")] * 310, NewJob(kind="work", payload=object())])
    assert refused.value.code == "BAD_REQUEST"
    assert jobs.list() == []
    assert len(jobs.enqueue_many([NewJob(kind="work")] * 310)) == 310


async def test_a_hundred_coroutines_share_few_commits_and_lose_nothing(store: Store) -> None:
    jobs = Jobs(store)
    # From the first one on the queue is known: nobody is held up on the way to the others.
    first = await jobs.enqueue_async("work")
    made = await asyncio.gather(*(jobs.enqueue_async("work", {"n": number}) for number in range(100)))
    kept = {job["id"] for job in jobs.list(count=200)} - {first.id}
    assert {one.id for one in made} == kept
    assert len(kept) == 100
    created = {jobs.show(one.id)["created_us"] for one in made}
    assert len(created) < 20, "most of them were committed together"


async def test_a_coroutine_is_told_of_its_own_mistake_at_once(store: Store) -> None:
    with pytest.raises(Failure) as refused:
        await Jobs(store).enqueue_async("")
    assert refused.value.code == "BAD_REQUEST"
    assert Jobs(store).list() == []


async def test_a_coroutine_with_a_dedupe_key_gets_the_twin(store: Store) -> None:
    jobs = Jobs(store)
    first = await jobs.enqueue_async("work", dedupe_key="one")
    second = await jobs.enqueue_async("work", dedupe_key="one")
    assert (second.id, second.created) == (first.id, False)
