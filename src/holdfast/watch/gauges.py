"""What stands in the tables now: queues, jobs, dead letters and breakers. Read when asked, remembered for a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.base import monotonic_s
from holdfast.store import Row, Store, Tx
from holdfast.watch import names
from holdfast.watch.labels import Labels, read_labels
from holdfast.watch.names import BREAKER_LEVELS, BY_NAME, Merge, Metric
from holdfast.worker.queues import Queues, QueueStatus

REMEMBERED_S = 1.0
"""Minimum time between two reads of the tables, however often the gauges are asked for."""
COUNTED_MAX = 10_000
LATELY_S = 3_600
ALIVE_S = 60
"""How long the gauges of a process count after it was last heard of."""
SAID_MAX = 10_000

Set = tuple[tuple[str, str], ...]
"""A set of labels, as a key."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one gauge."""

    name: str
    labels: Labels
    value: float


class Gauges:
    """The gauges of a store. Threads may share it."""

    def __init__(self, store: Store, *, remembered_s: float = REMEMBERED_S) -> None:
        self._store = store
        self._queues = Queues(store)
        self._remembered_s = remembered_s
        self._reading = threading.Lock()
        self._known: tuple[float, Sequence[Sample]] | None = None

    def read(self) -> Sequence[Sample]:
        """Every gauge as it stands, at most a moment old.

        Raises:
            Failure: the database's own.
        """
        with self._reading:
            known = self._known
            if known is None or not 0 <= monotonic_s() - known[0] < self._remembered_s:
                known = self._known = monotonic_s(), self._read()
            return known[1]

    def _read(self) -> Sequence[Sample]:
        found = [sample for one in self._queues.status(depth_max=COUNTED_MAX) for sample in _of_queue(one)]
        breaker, shared = names.LINK_BREAKER.name, {one.name: one.state for one in self._queues.breakers()}
        found += [Sample(breaker, {"link": name}, BREAKER_LEVELS[state]) for name, state in shared.items()]
        dead, said = self._store.atomic(_look, write=False)
        found += _of_dead(dead)
        for name, text, value in said:
            labels = read_labels(text)
            # Of a breaker that all share the table knows more than a process that heard of it once.
            if name != breaker or labels["link"] not in shared:
                found.append(Sample(name, labels, value))
        return _merged(found)


def merged(metric: Metric, values: Iterable[float]) -> float | None:
    """What several values of a gauge are together; None when there are none."""
    values = list(values)
    if not values:
        return None
    if metric.merge is Merge.SUM:
        return sum(values)
    return max(values) if metric.merge is Merge.MAX else min(values)


def _look(tx: Tx) -> tuple[list[Row], list[Row]]:
    dead = tx.rows("metric.dead", most=COUNTED_MAX, lately_us=LATELY_S * 1_000_000, queues=names.QUEUES_MAX)
    return dead, tx.rows("metric.live_gauges", alive_us=ALIVE_S * 1_000_000, most=SAID_MAX)


def _of_queue(status: QueueStatus) -> list[Sample]:
    values = {
        names.QUEUE_DEPTH: status.ready + status.waiting,
        names.JOBS_ACTIVE: status.processing,
        names.QUEUE_OLDEST: status.oldest_ready_s or 0.0,
        names.QUEUE_PAUSED: float(status.paused),
        names.QUEUE_HELD: float(status.held),
        names.QUEUE_WORKERS: float(status.workers),
    }
    return [Sample(metric.name, {"queue": status.name}, value) for metric, value in values.items()]


def _of_dead(rows: list[Row]) -> list[Sample]:
    return [
        *(Sample(names.DEAD_LETTERS.name, {"queue": queue}, count) for queue, count, _, _ in rows),
        Sample(names.WEBHOOK_DEAD.name, {}, sum(deliveries for _, _, deliveries, _ in rows)),
        Sample(names.WEBHOOK_DEAD_LATELY.name, {}, sum(lately for _, _, _, lately in rows)),
    ]


def _merged(samples: Iterable[Sample]) -> list[Sample]:
    """One value for each set of labels: processes may say different things of the same link, and what would be one
    set too many is told as `other`, as it is of counters."""
    together: dict[Metric, dict[Set, list[float]]] = {}
    for one in samples:
        metric = BY_NAME.get(one.name)
        if metric is not None:  # an older or newer version may have written others
            together.setdefault(metric, {}).setdefault(tuple(sorted(one.labels.items())), []).append(one.value)
    return [
        Sample(metric.name, dict(labels), float(merged(metric, values) or 0.0))
        for metric, sets in together.items()
        for labels, values in _bounded(metric, sets).items()
    ]


def _bounded(metric: Metric, sets: dict[Set, list[float]]) -> dict[Set, list[float]]:
    """The first `series_max` by name, which stay the same from one reading to the next, and the others together."""
    if len(sets) <= metric.series_max:
        return sets
    kept = dict(sorted(sets.items())[: metric.series_max])
    rest = [value for labels, values in sets.items() if labels not in kept for value in values]
    others = tuple((label, names.OTHER) for label in sorted(metric.labels))
    kept[others] = [*kept.get(others, []), *rest]
    return kept
