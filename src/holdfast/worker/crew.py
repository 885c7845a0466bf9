"""The crew of one queue: jobs that wait in this process, and the threads and tasks that do them.

At most `concurrency` run at once, whether their handlers block or are coroutines; they begin in the order in which
they were claimed. What is done gathers until the pump takes it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.base import monotonic_s
from holdfast.base.frames import frame_of
from holdfast.worker.attempt import Outcome, attempt, attempt_async, overdue, time_limit_s
from holdfast.worker.handlers import Handler, Handlers, QueueSettings
from holdfast.worker.job import Held, Job

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

THREAD_IDLE_S = 10.0
CANCEL_S = 5.0
"""Maximum time that a coroutine may take to end after it was cancelled for its time limit."""
LEFT_BEHIND_MIN = 10
LEFT_BEHIND_SHARE = 2
"""Number of threads left behind, for each job that may run at once, at which the queue rests."""


def left_behind_max(concurrency: int) -> int:
    """Number of threads left behind at which a crew starts no further jobs."""
    return max(LEFT_BEHIND_MIN, LEFT_BEHIND_SHARE * concurrency)


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
        # By token too: a job that ran out of time may be here again while its old thread still runs.
        self._running: dict[Held, tuple[Job, float, int]] = {}
        self._tasks: set[Task[None]] = set()
        self._threads = 0
        self._idle = 0
        self._abandoned = 0
        self._left_behind_max = left_behind_max(settings.concurrency)
        self._closed = False

    @property
    def load(self) -> int:
        """How many jobs this process holds of the queue."""
        return len(self._waiting) + len(self._running)

    @property
    def backlog(self) -> int:
        """How many jobs are held and have not been started."""
        return len(self._waiting)

    @property
    def starved(self) -> bool:
        """Whether hands are free and nothing is there for them."""
        return not self._waiting and len(self._running) < self.settings.concurrency

    @property
    def left_behind(self) -> int:
        """How many threads run a handler that was settled without them."""
        return self._abandoned

    @property
    def stuck(self) -> bool:
        """Whether so many handlers never returned that nothing more is begun here, until some do."""
        return self._abandoned >= self._left_behind_max

    def jobs(self) -> list[Job]:
        """Every job that is held."""
        with self._change:
            return [*self._waiting, *(job for job, _, _ in self._running.values())]

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
        for job in self.jobs():
            job.cancelled = job.cancelled or job.id in job_ids

    def abandon_overdue(self) -> None:
        """Settle handlers that ran out of time: threads, which are replaced, and coroutines deaf to their cancel."""
        now_s = monotonic_s()
        with self._change:
            for job, started_s, thread in list(self._running.values()):
                handler = self._handlers.get(job.kind)
                limit_s = None if handler is None else time_limit_s(handler, job)
                if handler is None or limit_s is None:
                    continue
                # The loop itself cancels a coroutine at its limit, and settles it unless it goes on all the same.
                if now_s - started_s > limit_s + (CANCEL_S if handler.asynchronous else 0.0):
                    self._abandoned += 1
                    stack = None if handler.asynchronous else frame_of(thread)
                    self._settle(job, overdue(handler, job, limit_s, started_s, stopped_at=stack))
            self._call_hands()

    def close(self) -> None:
        """Start nothing more; threads end when they are done."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def _call_hands(self) -> None:
        """Begin what can begin: coroutines at once, and as many hands as the others need; the lock is held."""
        if self.stuck:
            return
        self._begin_coroutines()
        room = self.settings.concurrency - len(self._running)
        wanted = sum(not self._is_coroutine(job) for job in islice(self._waiting, max(0, room)))
        if wanted <= 0:
            return
        if self._idle:
            self._change.notify(wanted)
        for _ in range(min(wanted - self._idle, self.settings.concurrency + self._abandoned - self._threads)):
            self._threads += 1
            threading.Thread(target=self._work, name=f"holdfast-{self.settings.name}", daemon=True).start()

    def _is_coroutine(self, job: Job) -> bool:
        handler = self._handlers.get(job.kind)
        return handler is not None and handler.asynchronous

    def _begin_coroutines(self) -> None:
        """Hand the coroutines that are first in line to the loop; the lock is held."""
        begun = []
        while self._may_begin() and self._is_coroutine(self._waiting[0]):
            begun.append(self._begin())
        if begun:
            self._loop().call_soon_threadsafe(self._run_on_loop, begun)

    def _may_begin(self) -> bool:
        room = len(self._running) < self.settings.concurrency
        return bool(self._waiting) and room and not (self._closed or self.stuck)

    def _begin(self) -> Job:
        job = self._waiting.popleft()
        self._running[job.held_as] = (job, monotonic_s(), threading.get_ident())
        return job

    def _work(self) -> None:
        job = self._next()
        while job is not None:
            job = self._next((job, attempt(self._handlers.get(job.kind), job)))

    def _next(self, ended: tuple[Job, Outcome] | None = None) -> Job | None:
        """The next job for a thread that has ended one, or None when this thread is no longer needed."""
        with self._change:
            if ended is not None:
                self._end(*ended)
            while not self._closed:
                self._begin_coroutines()
                if self._may_begin():
                    return self._begin()
                self._idle += 1
                woken = self._change.wait(THREAD_IDLE_S)
                self._idle -= 1
                if not woken and not self._waiting:
                    break
            self._threads -= 1
            return None

    def _run_on_loop(self, jobs: list[Job]) -> None:
        import asyncio

        for job in jobs:
            handler = self._handlers.get(job.kind)
            assert handler is not None
            task = asyncio.get_running_loop().create_task(self._run(handler, job))
            # The loop itself holds its tasks only weakly.
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, handler: Handler, job: Job) -> None:
        outcome = await attempt_async(handler, job)
        with self._change:
            self._end(job, outcome)
            # No thread of ours looks for the next job when a coroutine ends.
            self._call_hands()

    def _end(self, job: Job, outcome: Outcome) -> None:
        """An attempt ended; the lock is held."""
        if job.held_as in self._running:
            self._settle(job, outcome)
        else:
            # The job ran out of time and was settled without this thread, which is one too many now.
            self._abandoned -= 1

    def _settle(self, job: Job, outcome: Outcome) -> None:
        # First told, then let go: there is no moment in which nobody knows of the job.
        self._done(job, outcome)
        del self._running[job.held_as]
