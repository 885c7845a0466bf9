"""Enqueue: what is asked for is what is stored, in its order, once; what cannot be meant is refused by name."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast.base import Limits, Secret, SecretLeak, World, replaced
from holdfast.catalog import Failure, enriched
from holdfast.catalog.core import CONSTRAINT_VIOLATED, NETWORK_TIMEOUT
from holdfast.store import Store, Tx
from holdfast.testing import instant
from holdfast.worker import Job, Jobs, NewJob, ledger
from holdfast.worker.settlement import failed

WORKER = "w-1"


def claim(store: Store, count: int = 100, queue: str = "default") -> list[Job]:
    return store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker=WORKER, count=count))


def refused(jobs: Jobs, **asked: Any) -> Failure:
    with pytest.raises(Failure) as told:
        jobs.enqueue(asked.pop("kind", "k"), **asked)
    assert jobs.list() == []
    return told.value


# -- what is stored --------------------------------------------------------------------------------------------------


def test_a_job_is_stored_as_it_was_asked_for(store: Store, jobs: Jobs) -> None:
    made = jobs.enqueue(
        "invoice.send", {"n": 1}, queue="mail", priority=-5, attempts=7, timeout_s=1.5, tenant="acme", dedupe_key="d"
    )
    shown = jobs.show(made.id)
    expected = {
        "kind": "invoice.send",
        "payload": '{"n":1}',
        "queue": "mail",
        "priority": -5,
        "attempts_max": 7,
        "timeout_us": 1_500_000,
        "tenant": "acme",
        "dedupe_key": "d",
        "state": "queued",
        "lane": "ready",
        "attempt_count": 0,
        "token": 0,
        "result": None,
        "error_code": None,
    }
    assert {name: shown[name] for name in expected} == expected
    assert [event["verb"] for event in jobs.history(made.id)] == ["enqueued"]


PAYLOADS = [
    None,
    0,
    -1.5,
    True,
    "",
    "ünï–çødé 🙂",
    "quotes \" and ' and `",
    "back\\slash \\n \\u0041 {}",
    "line\nbreak\ttab\r",
    "NUL \0 in the middle",
    [],
    {},
    {"nested": [{"deep": [1, [2, [3]]]}], "ключ": "значение", 'k"e\\y': None},
    [2**53, -(2**63), 10**40, 1e300],
]


def test_every_payload_comes_back_as_it_was(store: Store, jobs: Jobs) -> None:
    """Alone, in company, in bulk and with a key: four ways into the table."""
    jobs.enqueue_many([NewJob(kind=str(number), payload=payload) for number, payload in enumerate(PAYLOADS)])
    for number, payload in enumerate(PAYLOADS):
        jobs.enqueue(str(number), payload)
        jobs.enqueue(str(number), payload, dedupe_key=f"d-{number}")
    store.atomic(
        lambda tx: [jobs.enqueue(str(number), payload, tx=tx) for number, payload in enumerate(PAYLOADS)] and None
    )
    claimed = claim(store)
    assert len(claimed) == 4 * len(PAYLOADS)
    for job in claimed:
        assert job.payload == PAYLOADS[int(job.kind)]
        assert type(job.payload) is type(PAYLOADS[int(job.kind)])


def test_the_trace_of_the_caller_goes_with_the_job(store: Store, jobs: Jobs) -> None:
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    jobs.enqueue("without")
    with enriched(trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="00f067aa0ba902b7", trace_flags="01"):
        jobs.enqueue("with")
    traces = {job.kind: job.trace for job in claim(store)}
    assert traces["without"] is None
    assert traces["with"] is not None
    assert traces["with"].split("-")[1] == traceparent.split("-")[1]


# -- the order -------------------------------------------------------------------------------------------------------


def test_lower_priority_numbers_go_first_and_equals_in_the_order_they_came(store: Store, jobs: Jobs) -> None:
    for kind, priority in [("c1", 5), ("b1", 0), ("a1", -5), ("c2", 5), ("b2", 0), ("a2", -5)]:
        jobs.enqueue(kind, priority=priority)
    assert [job.kind for job in claim(store)] == ["a1", "a2", "b1", "b2", "c1", "c2"]


def test_bulk_keeps_its_order(store: Store, jobs: Jobs) -> None:
    jobs.enqueue_many([NewJob(kind=str(number)) for number in range(50)])
    jobs.enqueue("last")
    assert [job.kind for job in claim(store)] == [*map(str, range(50)), "last"]


# -- later -------------------------------------------------------------------------------------------------------------


def due_after(virtual_store: Store, **asked: Any) -> float:
    """For how many seconds the job cannot be claimed."""
    jobs = Jobs(virtual_store)
    made = jobs.enqueue("k", **asked)
    shown = jobs.show(made.id)
    assert shown["lane"] == ("waiting" if shown["due_us"] > shown["created_us"] else "ready")
    return float(shown["due_us"] - shown["created_us"]) / 1_000_000


def test_a_delay_counts_from_now(virtual_store: Store) -> None:
    with instant():
        assert due_after(virtual_store, delay_s=0) == 0
        assert due_after(virtual_store, delay_s=90.5) == 90.5


def test_a_due_time_may_stand_in_any_time_zone(virtual_store: Store) -> None:
    with instant() as time, replaced(World(wall_us=lambda: 1_000_000_000 + int(time.passed_s * 1_000_000))):
        moment = datetime.fromtimestamp(1_000 + 60, UTC)
        assert due_after(virtual_store, due=moment) == 60
        assert due_after(virtual_store, due=moment.astimezone(timezone(timedelta(hours=5, minutes=30)))) == 60
        assert due_after(virtual_store, due=moment - timedelta(days=1)) == 0


def test_a_job_is_not_claimed_before_it_is_due(virtual_store: Store) -> None:
    with instant() as time:
        Jobs(virtual_store).enqueue("k", delay_s=60)
        promote = lambda: virtual_store.atomic(lambda tx: tx.rows("job.promote", count=9))  # noqa: E731
        time.advance(59.9)
        assert promote() == []
        assert claim(virtual_store) == []
        time.advance(0.2)
        assert promote() == [("default",)]
        assert len(claim(virtual_store)) == 1


# -- twins -----------------------------------------------------------------------------------------------------------


def test_a_twin_in_progress_or_complete_is_returned_and_a_failed_one_is_not(store: Store, jobs: Jobs) -> None:
    first = jobs.enqueue("k", 1, dedupe_key="d")
    assert first.created
    assert jobs.enqueue("k", 2, dedupe_key="d") == type(first)(first.id, created=False)
    (job,) = claim(store)
    assert jobs.enqueue("other kind", 3, dedupe_key="d").id == first.id
    store.atomic(lambda tx: ledger.settle(tx, WORKER, (), [failed(job, NETWORK_TIMEOUT(), None, 1, blamed=True)]))
    assert jobs.enqueue("k", dedupe_key="d").id == first.id, "between attempts it is in progress"
    store.atomic(lambda tx: tx._execute("UPDATE holdfast_job SET lane = 'ready'", {}))
    (job,) = claim(store)
    store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, '"done"', 1)]))
    assert jobs.enqueue("k", dedupe_key="d").id == first.id
    assert jobs.wait(first.id, 0) == "done"
    assert len(jobs.list()) == 1
    assert [event["verb"] for event in jobs.history(first.id)].count("enqueued") == 1

    second = jobs.enqueue("k", dedupe_key="e")
    (job,) = claim(store)
    store.atomic(lambda tx: ledger.settle(tx, WORKER, (), [failed(job, CONSTRAINT_VIOLATED(), None, 1, blamed=True)]))
    third = jobs.enqueue("k", dedupe_key="e")
    assert third.created
    assert third.id != second.id


def test_a_uniqueness_window_keeps_twins_out_until_it_is_over(virtual_store: Store) -> None:
    with instant() as time:
        jobs = Jobs(virtual_store)
        first = jobs.enqueue("k", dedupe_key="d", unique_s=60)
        time.advance(59)
        assert jobs.enqueue("k", dedupe_key="d", unique_s=60).id == first.id
        time.advance(2)
        second = jobs.enqueue("k", dedupe_key="d", unique_s=60)
        assert second.created
        assert {job["id"] for job in jobs.list()} == {first.id, second.id}


def test_twins_are_of_one_queue_and_one_tenant(jobs: Jobs) -> None:
    made = [
        jobs.enqueue("k", dedupe_key="d", queue=queue, tenant=tenant) for queue in ("a", "b") for tenant in ("x", "y")
    ]
    assert all(one.created for one in made)
    assert len({one.id for one in made}) == 4


def test_twins_in_one_bulk_are_one_job(jobs: Jobs) -> None:
    news = [NewJob(kind="k", dedupe_key="d"), NewJob(kind="k"), NewJob(kind="k", dedupe_key="d"), NewJob(kind="k")]
    made = jobs.enqueue_many(news)
    assert [one.created for one in made] == [True, True, False, True]
    assert made[0].id == made[2].id
    assert len(jobs.list()) == 3


def test_twins_that_come_at_once_are_one_job(store: Store, jobs: Jobs) -> None:
    import threading

    together, made = threading.Barrier(8), []

    def ask() -> None:
        together.wait(30)
        made.append(jobs.enqueue("k", dedupe_key="d"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.created for one in made) == [False] * 7 + [True]
    assert len({one.id for one in made}) == 1


# -- many at once ------------------------------------------------------------------------------------------------------


def test_bulk_happens_whole_or_not_at_all(jobs: Jobs) -> None:
    with pytest.raises(Failure):
        jobs.enqueue_many([NewJob(kind="good"), NewJob(kind="")])
    assert jobs.list() == []
    assert jobs.enqueue_many([]) == []


def test_a_bulk_beyond_the_limit_is_refused_with_the_limit(jobs: Jobs) -> None:
    with replaced(World(limits=Limits(enqueue_batch_max=3))):
        assert len(jobs.enqueue_many([NewJob(kind="k")] * 3)) == 3
        with pytest.raises(Failure) as told:
            jobs.enqueue_many([NewJob(kind="k")] * 4)
    assert told.value.code == "BAD_REQUEST"
    assert "4 jobs" in told.value.message
    assert "3" in told.value.message
    assert len(jobs.list()) == 3


def test_inside_a_transaction_nothing_is_there_until_it_commits(store: Store, jobs: Jobs) -> None:
    seen: list[int] = []

    def phase(tx: Tx) -> None:
        jobs.enqueue("k", tx=tx)
        jobs.enqueue("k", dedupe_key="d", tx=tx)
        seen.append(len(jobs.list()))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.atomic(phase)
    assert seen == [0]
    assert jobs.list() == []


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", ""),
        ("kind", "k" * 201),
        ("kind", "a\0b"),
        ("kind", "half \ud800"),
        ("kind", 7),
        ("queue", ""),
        ("queue", "a\0b"),
        ("tenant", "t" * 201),
        ("tenant", "a\0b"),
        ("dedupe_key", ""),
        ("dedupe_key", "d" * 201),
        ("dedupe_key", "a\0b"),
        ("priority", 32_768),
        ("priority", -32_769),
        ("priority", 1.5),
        ("attempts", 0),
        ("attempts", 101),
        ("attempts", 1.5),
        ("delay_s", -1),
        ("delay_s", float("nan")),
        ("delay_s", float("inf")),
        ("timeout_s", -1),
        ("unique_s", float("nan")),
        ("payload", {1, object()}),
        ("payload", float("nan")),
        ("payload", "half \ud800"),
        ("payload", b"bytes"),
        ("due", "2030-01-01T00:00:00Z"),
        ("due", datetime(2030, 1, 1)),  # noqa: DTZ001 - without a time zone on purpose
    ],
)
def test_what_cannot_be_meant_is_a_bad_request_that_names_the_field(field: str, value: Any) -> None:
    store = Store.open("sqlite://")
    store.migrate()
    told = refused(Jobs(store), **{field: value})
    assert told.code == "BAD_REQUEST"
    assert field in told.message
    store.close()


def test_a_due_time_and_a_delay_contradict_each_other(jobs: Jobs) -> None:
    assert "due" in refused(jobs, due=datetime(2030, 1, 1, tzinfo=UTC), delay_s=5).message


def test_names_that_postgresql_cannot_store_never_reach_it(jobs: Jobs) -> None:
    for field in ("kind", "queue", "tenant", "dedupe_key"):
        assert refused(jobs, **{field: "a\0b"}).code == "BAD_REQUEST"


def test_a_payload_beyond_the_cap_is_refused_with_both_sizes(jobs: Jobs) -> None:
    with replaced(World(limits=Limits(payload_bytes_max=100))):
        jobs.enqueue("k", "x" * 98)
        with pytest.raises(Failure) as told:
            jobs.enqueue("k", "ü" * 50)
    assert (told.value.code, told.value.status) == ("JOB_PAYLOAD_TOO_LARGE", 413)
    assert "102 bytes" in told.value.message
    assert "100" in told.value.message
    assert len(jobs.list()) == 1


def test_a_payload_that_holds_itself_is_refused(jobs: Jobs) -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert refused(jobs, payload=loop).code == "BAD_REQUEST"


def test_a_secret_does_not_get_into_a_payload(jobs: Jobs) -> None:
    with pytest.raises(SecretLeak):
        jobs.enqueue("k", {"token": Secret("s")})
    assert jobs.list() == []


def test_a_page_of_jobs_is_filtered_and_bounded(jobs: Jobs) -> None:
    made = jobs.enqueue_many(
        [NewJob(kind=kind, queue=queue) for kind in ("a", "b") for queue in ("x", "y") for _ in range(3)]
    )
    newest_first = [one.id for one in reversed(made)]
    assert [job["id"] for job in jobs.list()] == newest_first
    page = jobs.list(count=5)
    assert [job["id"] for job in page] == newest_first[:5]
    assert [job["id"] for job in jobs.list(count=5, before=page[-1]["id"])] == newest_first[5:10]
    assert {(job["kind"], job["queue"]) for job in jobs.list(kind="a", queue="x")} == {("a", "x")}
    assert jobs.list(state="failed") == []
    assert json.loads(jobs.show(made[0].id)["payload"]) is None
