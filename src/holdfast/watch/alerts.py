"""Alerts: every few seconds the rules are read and judged, and the operators who have to know are told.

```python
alerts = Alerts(store, StoreSeries(store), sinks=[SlackSink(name="ops", url=Secret(url))])
alerts.start()
Worker(store, alerts.handlers(send), queues=[alerts.queue()]).start()
```

Any number of processes may do this at once: each move of an alert is made, and told, by one of them.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.base import Facts, bus
from holdfast.base.arguments import instance, numeric, refused
from holdfast.base.bus import report
from holdfast.catalog import Failure
from holdfast.catalog.classify import DEFAULT_CLASSIFIER
from holdfast.catalog.fault import Severity
from holdfast.delivery.exchange import Send
from holdfast.store import Store
from holdfast.watch.alert_ledger import QUEUE, AlertLedger, Known
from holdfast.watch.alert_reading import Readings, read_rule
from holdfast.watch.alert_sending import CONCURRENCY, Notices
from holdfast.watch.alert_state import AlertState, Phase, judge
from holdfast.watch.rules import Rule
from holdfast.watch.rules_builtin import RULES
from holdfast.watch.series import Series
from holdfast.watch.sinks import Sink
from holdfast.watch.watching import bring_in
from holdfast.worker import Handlers, Jobs, QueueSettings

EVERY_S = 15.0
EVERY_S_MIN = 1.0
STOP_S_MAX = 10.0
PRUNE_EVERY = 240
"""Number of turns between two deletions of alerts that have long been quiet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One rule, or one cause of it, as it stands."""

    rule: Rule
    cause: str
    state: AlertState
    reading: float | None = None

    @property
    def exceeded(self) -> bool:
        """Whether the reading is on the wrong side of the threshold now."""
        return self.reading is not None and self.rule.exceeded_by(self.reading)


class Alerts:
    """Judges the rules on a series of numbers. Threads may share it."""

    def __init__(
        self,
        store: Store,
        series: Series,
        *,
        rules: Sequence[Rule] = RULES,
        sinks: Sequence[Sink] = (),
        every_s: float = EVERY_S,
        jobs: Jobs | None = None,
    ) -> None:
        """
        Args:
            series: the numbers that are judged, usually `StoreSeries(store)`.
            sinks: who is told; without any, the bus and the journal are.
            every_s: how often; however many processes judge, each alert is told once.

        Raises:
            ValueError: two rules or two sinks have the same name, or turns follow each other too fast.
        """
        for rule in rules:
            instance("rules", rule, Rule, "give Rule(…), such as those of RULES")
        for sink in sinks:
            if not hasattr(sink, "request"):
                raise refused("sinks", sink, "give a sink such as SlackSink(name=…, url=Secret(…))")
        numeric("every_s", every_s)
        for what, names in (("rules", [rule.name for rule in rules]), ("sinks", [sink.name for sink in sinks])):
            if len(set(names)) != len(names):
                raise ValueError(f"two {what} have the same name")
        if not every_s >= EVERY_S_MIN:
            raise ValueError(f"every_s is at least {EVERY_S_MIN:g}")
        self.rules = tuple(rules)
        self.sinks = tuple(sinks)
        self._store = store
        self._series = series
        self._every_s = every_s
        self._ledger = AlertLedger(store, Jobs(store) if jobs is None else jobs, self.sinks)
        self._ended = threading.Event()
        self._called = threading.Event()
        self._deaf: Callable[[], None] = _nothing
        self._thread: threading.Thread | None = None
        self._turns = 0

    def turn(self) -> list[Standing]:
        """Read and judge every rule once; what this process moved.

        Raises:
            Failure: the database's own; what was moved before it stays moved.
        """
        # The time first: what is read is at least as recent as it says.
        now_us = self._series.now_us()
        readings = {rule.name: read_rule(rule, self._series, now_us) for rule in self.rules}
        known = self._ledger.known()
        moved: list[Standing] = []
        for rule in self.rules:
            for cause in _causes(rule, readings[rule.name], known):
                found = known.get((rule.name, cause), Known())
                reading = readings[rule.name].get(cause)
                state = judge(rule, reading, found.state, now_us)
                if state.phase is not found.state.phase and self._ledger.move(rule, cause, found, state):
                    moved.append(Standing(rule=rule, cause=cause, state=state, reading=reading))
        return moved

    def standings(self, *, read: bool = False) -> list[Standing]:
        """Every rule with its causes as they stand, and what is read now where that is asked for. Changes nothing."""
        now_us = self._series.now_us() if read else 0
        known = self._ledger.known()
        found: list[Standing] = []
        for rule in self.rules:
            readings = read_rule(rule, self._series, now_us) if read else {}
            causes = [cause for cause in _causes(rule, readings, known) if _worth_showing(rule, cause, readings, known)]
            for cause in causes or [""]:
                state = known.get((rule.name, cause), Known()).state
                found.append(Standing(rule=rule, cause=cause, state=state, reading=readings.get(cause)))
        return found

    def handlers(self, send: Send, into: Handlers | None = None) -> Handlers:
        """What a worker needs to send the notices; the process that judges need not be the one that sends."""
        return Notices(self._store, self.sinks, send).handlers(into)

    def queue(self, concurrency: int = CONCURRENCY) -> QueueSettings:
        """The queue that this worker serves."""
        return QueueSettings(QUEUE, concurrency=concurrency)

    def start(self) -> None:
        """Take turns in a thread until `stop`; after a critical failure of this process, at once."""
        if self._thread is None:
            self._ended.clear()
            self._called.clear()
            self._deaf = bus.listen(self._hear)
            run = contextvars.copy_context().run
            self._thread = threading.Thread(target=run, args=(self._run,), name="holdfast-alerts", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Take no further turn; returns when the last one has ended."""
        self._deaf()
        self._ended.set()
        self._called.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(STOP_S_MAX)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.turn()
                self._turns += 1
                if self._turns % PRUNE_EVERY == 0:
                    self._ledger.prune()
            except Exception as error:  # noqa: BLE001 - whatever it was, alerts go on being judged
                _trouble(error)
            # However many failures call, turns do not follow each other any faster.
            self._ended.wait(EVERY_S_MIN)
            self._called.wait(self._every_s - EVERY_S_MIN)
            if self._called.is_set() and not self._ended.is_set():
                self._called.clear()
                bring_in(self._store)  # what called is counted, and not yet in the store

    def _hear(self, verb: str, facts: Facts) -> None:
        if facts.get("severity") == Severity.CRITICAL and not verb.startswith("alert."):
            self._called.set()


def _nothing() -> None:
    """Nobody listens yet."""


def _trouble(error: Exception) -> None:
    failure = error if isinstance(error, Failure) else DEFAULT_CLASSIFIER.classify(error)
    if bus.listeners:
        bus.tell("alert.trouble", code=failure.code)
    if failure is not error:
        report(error, "judging the alerts raised", None)


def _causes(rule: Rule, readings: Readings, known: dict[tuple[str, str], Known]) -> list[str]:
    """What is read now, and what was read before: a cause that shows nothing any more has to be resolved."""
    return sorted({*readings, *(cause for name, cause in known if name == rule.name)})


def _worth_showing(rule: Rule, cause: str, readings: Readings, known: dict[tuple[str, str], Known]) -> bool:
    found = known.get((rule.name, cause))
    return cause in readings or (found is not None and found.state.phase is not Phase.INACTIVE)
