"""From memory to the store: what this process counted is added to what all processes counted, in one transaction.

Always true: a batch is added once or not at all, also when the reply to its commit was lost; a batch that could not be
added is kept and tried again, and what is counted meanwhile goes into the next one. What a process that is killed had
not flushed yet is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.base import new_id
from holdfast.catalog import Failure
from holdfast.store import Row, Store, Tx
from holdfast.watch.labels import label_text
from holdfast.watch.meter import Delta, Meter, Values
from holdfast.watch.names import BY_NAME, OTHER, Kind, Metric
from holdfast.watch.slices import SHORT_S

BEAT_S = 20.0
"""Interval at which a process that shows gauges of its own says that it is alive."""
ROWS_MAX = 2_000
"""Maximum number of rows in one statement."""


class Flusher:
    """Brings the numbers of one meter to one store. One thread at a time uses it."""

    def __init__(self, store: Store, meter: Meter) -> None:
        self._store = store
        self._meter = meter
        self.process = new_id()
        self._sequence = 0
        self._pending: list[Delta] = []
        self._known: dict[str, set[str]] = {}
        """The series of each metric that the store has."""
        self._shown: dict[tuple[str, Values], float] = {}

    def flush(self) -> bool:
        """Add what was counted; False when the store could not be reached and it is kept for the next time.

        A batch that was left over goes first, and under its own number: if it was added after all, nothing is added.
        """
        try:
            if self._pending:
                self._add()
            self._pending = self._meter.take()
            if self._pending:
                self._sequence += 1
                self._add()
            self._show()
        except Failure:
            self._known = {}  # what was thought to be added may not be there
            return False
        return True

    def beat(self) -> bool:
        """Say that this process is alive, if it shows anything; False when the store could not be reached."""
        if not self._shown:
            return True
        try:
            self._store.atomic(lambda tx: tx.run("metric.seen", process=self.process), repeatable=True)
        except Failure:
            return False
        return True

    def leave(self) -> None:
        """What this process showed is over; what it counted stays."""
        if self._shown:
            self._store.atomic(lambda tx: tx.run("metric.drop_gauges", process=self.process), repeatable=True)
            self._shown = {}

    def _add(self) -> None:
        batch = self._pending

        def phase(tx: Tx) -> None:
            if tx.row("metric.begin", process=self.process, sequence=self._sequence) is not None:
                _add_rows(tx, rows_of(self._bounded(tx, batch)))

        # The number of the batch makes it repeatable.
        self._store.atomic(phase, repeatable=True)
        self._pending = []

    def _bounded(self, tx: Tx, batch: list[Delta]) -> list[Delta]:
        """The batch, with what would be one series too many in the store told as `other`.

        The meter bounds what one process counts; this bounds what all of them do, also one after another.
        """
        texts = {id(one): label_text(labels_of(one.metric, one.values)) for one in batch}
        if any(texts[id(one)] not in self._known.get(one.metric.name, ()) for one in batch):
            self._known = _series(tx)
        admitted = []
        for one in batch:
            known = self._known.setdefault(one.metric.name, set())
            if texts[id(one)] not in known:
                if len(known) >= one.metric.series_max:
                    one = Delta(one.metric, (OTHER,) * len(one.values), one.amount, one.buckets)
                known.add(label_text(labels_of(one.metric, one.values)))
            admitted.append(one)
        return admitted

    def _show(self) -> None:
        """Write down the gauges of this process where they changed."""
        now = self._meter.gauges()
        changed = {key: value for key, value in now.items() if self._shown.get(key) != value}
        if not changed:
            return
        rows = [
            (name, label_text(labels_of(BY_NAME[name], values)), value) for (name, values), value in changed.items()
        ]

        def phase(tx: Tx) -> None:
            # A process that shows gauges must be in the table of the processes that are heard of.
            if not tx.run("metric.seen", process=self.process):
                tx.row("metric.begin", process=self.process, sequence=self._sequence)
            tx.many("metric.set_gauges", rows, process=self.process)

        self._store.atomic(phase, repeatable=True)
        self._shown = now


def labels_of(metric: Metric, values: Iterable[str]) -> Mapping[str, str]:
    """The labels with their names."""
    return dict(zip(metric.labels, values, strict=True))


def bound_text(bound: float) -> str:
    """An upper bound as Prometheus writes it."""
    return "+Inf" if bound == float("inf") else repr(bound)


def rows_of(batch: Iterable[Delta]) -> list[Row]:
    """The rows of a batch: name, labels, by how much. Equal ones are added up: no statement may meet a row twice."""
    rows: dict[tuple[str, str], float] = {}

    def add(name: str, labels: Mapping[str, str], amount: float) -> None:
        key = (name, label_text(labels))
        rows[key] = rows.get(key, 0.0) + amount

    for one in batch:
        metric, labels = one.metric, labels_of(one.metric, one.values)
        if metric.kind is not Kind.HISTOGRAM:
            add(metric.name, labels, one.amount)
            continue
        add(f"{metric.name}_sum", labels, one.amount)
        add(f"{metric.name}_count", labels, float(sum(one.buckets)))
        for bound, count in zip((*metric.buckets, float("inf")), one.buckets, strict=True):
            if count:
                add(f"{metric.name}_bucket", {**labels, "le": bound_text(bound)}, float(count))
    return [(name, labels, amount) for (name, labels), amount in sorted(rows.items())]


def _add_rows(tx: Tx, rows: list[Row]) -> None:
    for start in range(0, len(rows), ROWS_MAX):
        some = rows[start : start + ROWS_MAX]
        tx.many("metric.add_totals", some)
        grown = [row for row in some if row[2]]
        if grown:
            tx.many("metric.add_slices", grown, width_s=SHORT_S, width_us=SHORT_S * 1_000_000)


def _series(tx: Tx) -> dict[str, set[str]]:
    """Which series each metric has in the store; a histogram is known by its count."""
    found: dict[str, set[str]] = {}
    for name, labels in tx.rows("metric.series"):
        found.setdefault(name if name in BY_NAME else name.removesuffix("_count"), set()).add(labels)
    return found
