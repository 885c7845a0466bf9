"""Without prefetch no more jobs are processing than may run at once, and how many that is can change."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from holdfast.lifecycle import Snooze
from holdfast.policy import PolicyInvalid
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Job, Jobs, QueueSettings, Worker

from .conftest import PATIENCE_S

Work = Callable[..., Worker]


class Watched:
    """A handler that looks at each call how many jobs the store has as processing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.most = 0
        self.done = 0

    def __call__(self, job: Job) -> None:
        rows = self._store.atomic(
            lambda tx: tx._execute("SELECT count(*) FROM holdfast_job WHERE state = 'processing'", {}).fetchall(),
            write=False,
        )
        with self._lock:
            self.most = max(self.most, int(rows[0][0]))
            self.done += 1


def test_no_more_are_processing_than_run(store: Store, jobs: Jobs, handlers: Handlers, work: Work) -> None:
    watched = Watched(store)
    handlers.handle("k")(watched)
    for _ in range(150):
        jobs.enqueue("k")
    work(queues=[QueueSettings(concurrency=3, prefetch=False)])
    wait_until(lambda: watched.done == 150, within_s=PATIENCE_S, what="all are done")
    assert 1 <= watched.most <= 3


def test_the_room_is_asked_before_each_claim(store: Store, jobs: Jobs, handlers: Handlers, work: Work) -> None:
    room = 0
    running = threading.Semaphore(0)
    go_on = threading.Event()

    @handlers.handle("k")
    def hold(job: Job) -> None:
        running.release()
        go_on.wait(PATIENCE_S)

    for _ in range(6):
        jobs.enqueue("k")
    asked = threading.Event()

    def told() -> int:
        asked.set()
        return room

    work(queues=[QueueSettings(concurrency=4, prefetch=False, room=told)])
    assert asked.wait(PATIENCE_S)
    assert not running.acquire(blocking=False)
    room = 2
    assert running.acquire(timeout=PATIENCE_S)
    assert running.acquire(timeout=PATIENCE_S)
    asked.clear()
    assert asked.wait(PATIENCE_S)
    assert not running.acquire(blocking=False), "only two have a place"
    room = 9
    assert running.acquire(timeout=PATIENCE_S)
    assert running.acquire(timeout=PATIENCE_S)
    asked.clear()
    assert asked.wait(PATIENCE_S)
    assert not running.acquire(blocking=False), "the concurrency is the most"
    go_on.set()
    assert running.acquire(timeout=PATIENCE_S)
    assert running.acquire(timeout=PATIENCE_S)


def test_room_is_for_queues_without_prefetch() -> None:
    with pytest.raises(PolicyInvalid, match="prefetch=False"):
        QueueSettings("q", room=lambda: 1)


@pytest.mark.parametrize("timed", [True, False])
def test_a_timed_snooze_lets_the_time_of_the_job_go_on(
    store: Store, jobs: Jobs, handlers: Handlers, work: Work, timed: bool
) -> None:
    seen: list[tuple[int, int]] = []

    @handlers.handle("k")
    def put_off(job: Job) -> Snooze | None:
        seen.append((job.attempt, job.claimed_us))
        return Snooze(0.05, "not now", timed=timed) if len(seen) < 3 else None

    job = jobs.enqueue("k")
    work()
    wait_until(lambda: jobs.show(job.id)["state"] == "complete", within_s=PATIENCE_S, what="it is done")
    assert [attempt for attempt, _ in seen] == [1, 1, 1], "no attempt is spent"
    # The database may look at its clock twice for one claim.
    begun = min(range(3), key=lambda at: abs(seen[at][1] - jobs.show(job.id)["started_us"]))
    assert begun == (0 if timed else 2)
