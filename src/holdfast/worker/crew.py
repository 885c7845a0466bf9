"""The crew of one queue: jobs that wait in this process, and the threads and tasks that do them.

At most `concurrency` run at once, whether their handlers block or are coroutines. What is done gathers until the
pump takes it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast.base import monotonic_s
from holdfast.worker.attempt import Outcome, attempt, attempt_async, overdue, time_limit_s
from holdfast.worker.handlers import Handler, Handlers, QueueSettings
from holdfast.worker.job import Job

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

THREAD_IDLE_S = 10.0


class Crew:
    """Who works for one queue in this process."""

    def __init__(
        self,
        settings: QueueSettings,
        handlers: Handlers,
        done: Callable[[Job, Outcome], None],
        loop: Callable[[], AbstractEventLoop],
    ) -> None:
        self.settings = settings
        self._handlers = handlers
        self._done = done
        self._loop = loop
        self._change = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._running: dict[str, tuple[Job, float]] = {}
        self._threads = 0
        self._idle = 0
        self._abandoned = 0
        self._closed = False

    @property
    def load(self) -> int:
        """How many jobs this process holds of the queue."""
        return len(self._waiting) + len(self._running)

    def jobs(self) -> list[Job]:
        """Every job that is held."""
        with self._change:
            return [*self._waiting, *(job for job, _ in self._running.values())]

    def put(self, jobs: Iterable[Job]) -> None:
        """Take on claimed jobs."""
        with self._change:
            self._waiting.extend(jobs)
            self._call_hands()

    def take_back(self) -> list[Job]:
        """What waits and has not been started; nobody will start it any more."""
        with self._change:
            back = list(self._waiting)
            self._waiting.clear()
            return back

    def cancel(self, job_ids: set[str]) -> None:
        """Tell handlers that somebody asked to stop."""
        with self._change:
            for job in self._waiting:
                job.cancelled = job.cancelled or job.id in job_ids
            for job, _ in self._running.values():
                job.cancelled = job.cancelled or job.id in job_ids

    def abandon_overdue(self) -> None:
        """Settle blocking handlers that ran out of time; their threads are left behind and replaced."""
        now_s = monotonic_s()
        late: list[tuple[Handler, Job, float, float]] = []
        with self._change:
            for job, started_s in list(self._running.values()):
                handler = self._handlers.get(job.kind)
                limit_s = None if handler is None or handler.asynchronous else time_limit_s(handler, job)
                if handler is not None and limit_s is not None and now_s - started_s > limit_s:
                    del self._running[job.id]
                    self._abandoned += 1
                    late.append((handler, job, limit_s, started_s))
            self._call_hands()
        for handler, job, limit_s, started_s in late:
            self._done(job, overdue(handler, job, limit_s, started_s))

    def close(self) -> None:
        """Start nothing more; threads end when they are done."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def _call_hands(self) -> None:
        """Wake or hire as many hands as there is work and room for; the lock is held."""
        room = self.settings.concurrency - len(self._running)
        wanted = min(len(self._waiting), room)
        if wanted <= 0:
            return
        if self._idle:
            self._change.notify(wanted)
        for _ in range(min(wanted - self._idle, self.settings.concurrency + self._abandoned - self._threads)):
            self._threads += 1
            threading.Thread(target=self._work, name=f"holdfast-{self.settings.name}", daemon=True).start()

    def _work(self) -> None:
        while True:
            job = self._next()
            if job is None:
                return
            handler = self._handlers.get(job.kind)
            if handler is not None and handler.asynchronous:
                self._hand_to_loop(handler, job)
            else:
                self._end(job, attempt(handler, job))

    def _next(self) -> Job | None:
        """The next job, or None when this thread is no longer needed."""
        with self._change:
            while True:
                if self._closed:
                    self._threads -= 1
                    return None
                if self._waiting and len(self._running) < self.settings.concurrency:
                    job = self._waiting.popleft()
                    self._running[job.id] = (job, monotonic_s())
                    return job
                self._idle += 1
                woken = self._change.wait(THREAD_IDLE_S)
                self._idle -= 1
                if not woken and not self._waiting:
                    self._threads -= 1
                    return None

    def _hand_to_loop(self, handler: Handler, job: Job) -> None:
        import asyncio

        async def run() -> None:
            self._end(job, await attempt_async(handler, job))

        asyncio.run_coroutine_threadsafe(run(), self._loop())

    def _end(self, job: Job, outcome: Outcome) -> None:
        with self._change:
            if self._running.pop(job.id, None) is None:
                # The job ran out of time and was settled without this thread, which is one too many now.
                self._abandoned -= 1
                return
            if self._waiting and self._idle:
                self._change.notify()
        self._done(job, outcome)
