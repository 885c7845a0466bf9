"""Sending notices: the handler of the alert jobs.

A notice is sent at least once, and retried as its failure's rule says; PagerDuty and signed webhooks carry an id by
which a receiver knows it again. Notices of one cause never overtake each other: one that a later move has made untrue
is not sent any more, and one whose predecessor is on its way at this moment waits for it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from holdfast.base import is_asynchronous, now_us
from holdfast.catalog import Catalog, Failure, Remote
from holdfast.delivery.exchange import Outgoing, Reply, Send
from holdfast.delivery.outcome import read_error, read_reply
from holdfast.lifecycle import Snooze
from holdfast.policy import Backoff, Retry, Spread
from holdfast.store import Store, Tx
from holdfast.watch.alert_ledger import KIND
from holdfast.watch.alert_notice import Notice, read_notice
from holdfast.watch.sinks import Sink, scrubbed
from holdfast.worker import Handlers, Job

CONCURRENCY = 4
LINE_S = 1.0
"""Interval at which a notice checks whether the notice before it, which is still on its way, has arrived."""
RETRY = Retry(
    attempts=10,
    attempts_unknown=10,
    backoff=Backoff.exponential(2, cap_s=300, jitter=Spread(0.2)),
    retry_after_max_s=900,
)
"""About half an hour; then the notice is a dead letter of the queue `alerts`."""

errors = Catalog("alerts")
SINK_UNKNOWN = errors.fault(
    "SINK_UNKNOWN",
    status=500,
    says="There is no sink {sink} for alerts here.",
    causes=("the sink was removed or renamed after the notice was written", "this worker reads another policy file"),
    remedy="Declare the sink, or discard the notice.",
)


class Notices:
    """Takes notices to their sinks. Threads may share it."""

    def __init__(self, store: Store, sinks: Iterable[Sink], send: Send) -> None:
        self._store = store
        self._sinks = {sink.name: sink for sink in sinks}
        self._send = send

    def handlers(self, into: Handlers | None = None) -> Handlers:
        """What a worker needs to send notices, beside its other handlers where it has some."""
        handlers = Handlers() if into is None else into
        handlers.handle(KIND, retry=RETRY)(self._handler())
        return handlers

    def _handler(self) -> Callable[[Job], Any]:
        send = self._send

        def tell(job: Job) -> Snooze | None:
            told = self._prepared(job, self._store.atomic(lambda tx: _look(tx, _task(job)), write=False))
            if not isinstance(told, _Told):
                return told
            with told.settled():
                told.reply = cast("Reply", send(told.request))
            return None

        async def tell_async(job: Job) -> Snooze | None:
            import asyncio

            looked = await self._store.atomic_async(lambda tx: _look(tx, _task(job)), write=False)
            told = self._prepared(job, looked)
            if not isinstance(told, _Told):
                return told
            with told.settled():
                # Also here, so that a sender that forgets its time limit holds no place for ever.
                async with asyncio.timeout(told.request.timeout_s):
                    told.reply = await cast("Awaitable[Reply]", send(told.request))
            return None

        return tell_async if is_asynchronous(send) else tell

    def _prepared(self, job: Job, looked: tuple[int | None, str | None]) -> _Told | Snooze | None:
        """What is to be sent; or that nothing is, or not yet."""
        task = _task(job)
        sink = self._sinks.get(task.sink)
        if sink is None:
            raise SINK_UNKNOWN(sink=task.sink)
        current, before = looked
        if current is not None and current > task.notice.version:
            return None  # it has moved on, and the notice of that move says what is true now
        if before == "processing":
            return Snooze(LINE_S, "the notice before it is on its way")
        return _Told(sink, sink.request(task.notice, notice_id=job.id, at_us=now_us()))


@dataclass(frozen=True, slots=True)
class _Task:
    """What an alert job is about."""

    sink: str
    notice: Notice
    after: str | None


@dataclass(slots=True)
class _Told:
    """One request, and what came of it."""

    sink: Sink
    request: Outgoing
    reply: Reply | None = None

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Whatever happens inside becomes a failure of the catalog, without a word of the sink's secrets."""
        try:
            yield
            failure = None if self.reply is None else read_reply(self.reply)
        except Exception as error:  # noqa: BLE001 - here an attempt is settled: whatever it was, there is no reply
            failure = read_error(error)
        if failure is not None:
            raise _harmless(failure, self.sink) from None


def _task(job: Job) -> _Task:
    stored = json.loads(job.text)
    return _Task(stored["sink"], read_notice(stored["notice"]), stored["after"])


def _look(tx: Tx, task: _Task) -> tuple[int | None, str | None]:
    """The version that the alert has now, and the state of the job before this one."""
    version = tx.row("alert.version", rule=task.notice.rule, cause=task.notice.cause)
    before = None if task.after is None else tx.row("job.outcome", id=task.after, tenant=None)
    return None if version is None else version[0], None if before is None else before[0]


def _harmless(failure: Failure, sink: Sink) -> Failure:
    """The same failure, without any text that could hold the sink's address: job, log and page show it."""
    says = f"{sink.name}: {scrubbed(failure.message, sink.secrets)}".replace("{", "(").replace("}", ")")
    remote = None if failure.remote is None else Remote(failure.remote.status)
    return Failure(failure.fault, says, details={"sink": sink.name}, retry_after_s=failure.retry_after_s, remote=remote)
