"""What a worker can do: a handler for each kind of job, and the settings of its queues."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from holdfast.base import ArgumentInvalid, Json, is_asynchronous
from holdfast.base.arguments import function, is_a, number, numeric, shown
from holdfast.catalog import Blame, Fault
from holdfast.catalog.classify import DEFAULT_CLASSIFIER, Classifier
from holdfast.guard.parts import check_parts
from holdfast.policy import Breaker, PolicyInvalid, Retry
from holdfast.policy.cron import read_times
from holdfast.worker.job import DEFAULT_QUEUE, Job
from holdfast.worker.settlement import JOB_RETRY

Function = TypeVar("Function", bound=Callable[[Job], Any])

CONCURRENCY_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What is called to do one kind of job; it may block or be a coroutine function."""

    kind: str
    function: Callable[[Job], Any]
    asynchronous: bool
    retry: Retry | None
    timeout_s: float | None
    classifier: Classifier


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """How a worker serves one queue."""

    name: str = DEFAULT_QUEUE
    """Which queue."""
    concurrency: int = 10
    """Maximum number of jobs that run at once in this process."""
    breaker: Breaker | None = None
    """Shared by all processes: while it is open, jobs stay queued and no attempt is spent."""
    breaker_name: str = ""
    """Queues that call the same target may share one breaker; without a name it is the queue's own."""
    fails_with: Fault | None = None
    """An open breaker fails jobs at once with this fault instead of holding them."""
    probe: Callable[[], bool] | None = None
    """Asked when the breaker's pause is over: True lets jobs through again, to try. Where no job waits, and where jobs
    fail at once, it closes the breaker."""
    blames: Collection[Blame] | None = None
    """Only failures that blame one of these count for the breaker; without it, all that speak against the callee."""
    prefetch: bool = True
    """Whether jobs are claimed before there is a place for them, which saves time between short ones. Without it, no
    more jobs of this process are processing than may run at once."""
    room: Callable[[], int] | None = None
    """Asked before each claim, without `prefetch`: for now no more jobs than this run at once in this process."""

    def __post_init__(self) -> None:
        if not is_a(self.name, str) or not self.name.strip() or "," in self.name:
            raise PolicyInvalid(f"name: {shown(self.name)} is not the name of a queue; write text without a comma")
        numeric(f"{self.name}: concurrency", self.concurrency, whole=True, raises=PolicyInvalid)
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise PolicyInvalid(f"concurrency: {self.concurrency} is not between 1 and {CONCURRENCY_MAX}")
        check_parts(self.name, breaker=self.breaker)
        self._check_breaker()
        function(f"{self.name}: room", self.room, "write room=lambda: …, which says how many", raises=PolicyInvalid)
        if self.room is not None and self.prefetch:
            raise PolicyInvalid(f"{self.name}: room: what is claimed ahead has no room; write prefetch=False as well")

    def _check_breaker(self) -> None:
        if self.fails_with is not None and not is_a(self.fails_with, Fault):
            raise PolicyInvalid(
                f"{self.name}: fails_with: {shown(self.fails_with)} is not a fault; give the fault itself"
            )
        function(
            f"{self.name}: probe", self.probe, "write probe=lambda: …, which says True or False", raises=PolicyInvalid
        )
        if is_a(self.blames, str):
            raise PolicyInvalid(f"{self.name}: blames: {shown(self.blames)} is one word; write (Blame.UPSTREAM,)")
        idle = [name for name in ("breaker_name", "fails_with", "probe", "blames") if getattr(self, name)]
        if self.breaker is None and idle:
            raise PolicyInvalid(f"{self.name}: {idle[0]} is for a breaker, and there is none; write breaker=Breaker()")


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A job that the clock enqueues."""

    name: str
    schedule: str | None
    every_s: float | None
    kind: str
    payload: Json
    queue: str


def check_queues(queues: object) -> None:
    """Refuse queues that are not given as QueueSettings.

    Raises:
        TypeError: it names one that is not, and how one is written.
        ArgumentInvalid: one is given twice, or none is.
    """
    for one in queues if isinstance(queues, Iterable) and not isinstance(queues, str) else (queues,):
        if not isinstance(one, QueueSettings):
            written = f'QueueSettings("{one}")' if isinstance(one, str) else "QueueSettings(name)"
            raise TypeError(f"queues: {one!r} is not a QueueSettings; write {written}")
    names = [one.name for one in queues] if isinstance(queues, Iterable) else []
    for name in names:
        if names.count(name) > 1:
            raise ArgumentInvalid(f"queues: {name!r} is given twice; give it once, with the sum of both")
    if not names:
        raise ArgumentInvalid("queues: none is given, and a worker without a queue does nothing; leave queues= out")


def _check_handler(kind: str, function: object) -> None:
    """Refuse what cannot be called with a job alone.

    Raises:
        TypeError: it says how a handler is written.
    """
    written = "write def handler(job: Job) -> …"
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"{kind}: {shown(function)} is not a function; {written}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{kind}: the handler is a generator, and calling it does no work; return instead of yield")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise TypeError(f"{kind}: the handler does not take a job alone; {written}") from None
    except ValueError:
        return  # a builtin that does not tell what it takes


class Handlers:
    """The handlers of a service.

    ```python
    handlers = Handlers()

    @handlers.handle("invoice.send", timeout_s=30)
    def send_invoice(job: Job) -> None: ...
    ```
    """

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._queues: dict[str, QueueSettings] = {}
        self.schedules: list[Scheduled] = []
        """What is to be enqueued by the clock."""

    def serve(self, settings: QueueSettings) -> None:
        """Say how a queue is served; without any, workers serve `default`.

        Raises:
            ValueError: the queue has settings already.
            TypeError: these are not QueueSettings.
        """
        check_queues([settings])
        if settings.name in self._queues:
            raise ValueError(f"the queue {settings.name!r} has settings already")
        self._queues[settings.name] = settings

    def enqueue_by_clock(
        self,
        name: str,
        schedule: str | None = None,
        *,
        every_s: float | None = None,
        kind: str,
        payload: Json = None,
        queue: str = DEFAULT_QUEUE,
    ) -> None:
        """Let a job be enqueued by a cron schedule (UTC) or at an interval, once across all processes.

        Every worker with these handlers sees to it.

        Raises:
            CronInvalid: the schedule cannot be meant; the text names the field.
            ValueError: another schedule has the name already.
        """
        read_times(schedule, every_s)
        if any(one.name == name for one in self.schedules):
            raise ValueError(f"two schedules have the name {name!r}")
        self.schedules.append(Scheduled(name, schedule, every_s, kind, payload, queue))

    @property
    def queues(self) -> tuple[QueueSettings, ...]:
        """The queues that workers serve."""
        return tuple(self._queues.values()) or (QueueSettings(),)

    def handle(
        self,
        kind: str,
        *,
        retry: Retry | None = None,
        timeout_s: float | None = None,
        classifier: Classifier = DEFAULT_CLASSIFIER,
    ) -> Callable[[Function], Function]:
        """Let this function do the jobs of a kind: `@handlers.handle("mail.send")`.

        Args:
            retry: the rule of its jobs; None is three attempts, 5 and 15 s apart.
            timeout_s: how long one attempt may take; None is for ever. A function that blocks is left behind then.
            classifier: what the exceptions of this function mean.

        Raises:
            ValueError: the kind has a handler already.
            TypeError: the kind is not text, as when it is left out.
            PolicyInvalid: the rule is not a Retry, or the classifier is not a Classifier.
        """
        if not is_a(kind, str) or not kind:
            raise TypeError('name the kind: @handlers.handle("mail.send")')
        if timeout_s is not None:
            number("timeout_s", timeout_s, above=0, otherwise="None for no limit")
        check_parts(kind, retry=retry, classifier=classifier)
        if retry is not None and retry.on_result is not None:
            raise PolicyInvalid(f"{kind}: retry: on_result is for links; let the handler return RetryIn(seconds)")

        def register(function: Function) -> Function:
            _check_handler(kind, function)
            if kind in self._handlers:
                raise ValueError(f"{kind!r} has a handler already: {self._handlers[kind].function!r}")
            self._handlers[kind] = Handler(
                kind=kind,
                function=function,
                asynchronous=is_asynchronous(function),
                retry=retry,
                timeout_s=timeout_s,
                classifier=classifier,
            )
            return function

        return register

    def include(self, other: Handlers) -> None:
        """Take over the handlers, queues and schedules that another service has declared by now; all or none.

        Raises:
            ValueError: both handle a kind, serve a queue differently, or name a schedule the same; it names which.
        """
        self._refuse_clashes(other)
        for handlers in (self, other):
            # Handlers that declare no queue count on `default`, also when they are joined with ones that declare some.
            if handlers._handlers and not handlers._queues:
                self._queues.setdefault(DEFAULT_QUEUE, QueueSettings())
        self._handlers |= other._handlers
        self._queues |= other._queues
        self.schedules += other.schedules

    def _refuse_clashes(self, other: Handlers) -> None:
        for kind in self._handlers.keys() & other._handlers.keys():
            mine, theirs = self._handlers[kind].function, other._handlers[kind].function
            raise ValueError(f"{kind!r} has two handlers: {mine!r} and {theirs!r}")
        for name in self._queues.keys() & other._queues.keys():
            if self._queues[name] != other._queues[name]:
                raise ValueError(f"the queue {name!r} has two settings: {self._queues[name]} and {other._queues[name]}")
        for schedule in {one.name for one in self.schedules} & {one.name for one in other.schedules}:
            raise ValueError(f"two schedules have the name {schedule!r}")

    def wrapped(self, wrap: Callable[[Callable[[Job], Any]], Callable[[Job], Any]]) -> Handlers:
        """The same handlers, queues and schedules; functions that block are replaced by what `wrap` makes of them."""
        other = Handlers()
        other.include(self)
        for kind, handler in self._handlers.items():
            if not handler.asynchronous:
                other._handlers[kind] = replace(handler, function=wrap(handler.function))
        return other

    def get(self, kind: str) -> Handler | None:
        """The handler of a kind; None when there is none here."""
        return self._handlers.get(kind)

    def rule_of(self, kind: str) -> Retry | None:
        """The retry rule of a kind; None when there is no handler for it here."""
        handler = self._handlers.get(kind)
        return None if handler is None else handler.retry or JOB_RETRY

    def __len__(self) -> int:
        return len(self._handlers)
