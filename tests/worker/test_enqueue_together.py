"""Threads that enqueue at the same time share commits."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs

CALLERS = 100
PATIENCE_S = 30.0


def test_a_hundred_enqueuers_need_fewer_commits_than_they_are(store: Store, jobs: Jobs) -> None:
    flushes: list[int] = []
    insert = jobs._combiner._flush

    def counted(rows: Sequence[tuple[object, ...]]) -> Sequence[str]:
        flushes.append(len(rows))
        if len(flushes) == 1:
            # However quick the database is: the others have come before the first one is done.
            others = jobs._combiner._pending
            wait_until(lambda: len(others) == CALLERS - 1, within_s=PATIENCE_S, what="the others wait")
        return insert(rows)

    jobs._combiner._flush = counted
    made: list[str] = []
    start = threading.Barrier(CALLERS)

    def ask(number: int) -> None:
        start.wait(PATIENCE_S)
        made.append(jobs.enqueue("k", number).id)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert flushes == [1, CALLERS - 1]
    stored = jobs.list(count=1_000)
    assert {job["id"] for job in stored} == set(made)
    assert len(stored) == CALLERS
