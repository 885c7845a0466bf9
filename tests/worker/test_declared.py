"""What handlers declare: the queues that workers serve, and the jobs that the clock enqueues."""

from __future__ import annotations

import pytest

from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Job, Jobs, QueueSettings, Worker

PATIENCE_S = 30.0


def test_without_any_settings_the_default_queue_is_served() -> None:
    assert Handlers().queues == (QueueSettings(),)


def test_a_queue_has_one_set_of_settings() -> None:
    handlers = Handlers()
    handlers.serve(QueueSettings("mail", breaker=Breaker()))
    with pytest.raises(ValueError, match="mail"):
        handlers.serve(QueueSettings("mail"))
    assert [queue.name for queue in handlers.queues] == ["mail"]


def test_two_schedules_of_one_name_are_refused() -> None:
    handlers = Handlers()
    handlers.enqueue_by_clock("tick", every_s=60, kind="a")
    with pytest.raises(ValueError, match="two schedules have the name 'tick'"):
        handlers.enqueue_by_clock("tick", every_s=60, kind="b")
    assert [one.kind for one in handlers.schedules] == ["a"]


def test_what_the_clock_enqueues_is_done_by_the_worker(store: Store) -> None:
    handlers = Handlers()
    handlers.serve(QueueSettings("clock"))
    handlers.enqueue_by_clock("tick", every_s=1.0, kind="tick", payload=7, queue="clock")
    seen: list[int] = []

    @handlers.handle("tick")
    def tick(job: Job) -> None:
        seen.append(job.payload)

    worker = Worker(store, handlers)
    worker.start()
    try:
        jobs = Jobs(store)
        wait_until(lambda: bool(jobs.list(kind="tick")), within_s=PATIENCE_S, what="the clock has enqueued")
        jobs.wait(jobs.list(kind="tick")[-1]["id"], timeout_s=PATIENCE_S)
    finally:
        worker.stop()
        worker.join(PATIENCE_S)
    assert seen[0] == 7
