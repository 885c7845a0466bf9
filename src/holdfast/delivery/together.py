"""Threads that publish at the same time share a transaction: a hundred callers need few commits, not a hundred."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.base import new_id
from holdfast.base.combiner import Combiner
from holdfast.catalog import Failure
from holdfast.catalog.context import Context
from holdfast.delivery.faults import EVENT_ID_TAKEN
from holdfast.delivery.publishing import Channel, Published, key_of, publish
from holdfast.store import Row, Store
from holdfast.worker import Jobs

TOGETHER_MAX = 500

Item = tuple[Row, Context]
"""An event as the table takes it, and where it is published."""


class PublishedTogether:
    """Publishes events one by one, many in a transaction. Threads may share it."""

    def __init__(self, store: Store, jobs: Jobs, by: Channel) -> None:
        self._store = store
        self._jobs = jobs
        self._by = by
        self._combiner: Combiner[Item, Published | Failure] = Combiner(self._flush, most=TOGETHER_MAX)

    def publish(self, row: Row, context: Context) -> Published:
        """Publish the event, alone or in company; it is on disk when this returns.

        Raises:
            Failure: EVENT_ID_TAKEN; or the database's own.
        """
        result = self._combiner.submit((row, context))
        if isinstance(result, Failure):
            raise result
        return result

    def _flush(self, items: Sequence[Item]) -> list[Published | Failure]:
        if len({key_of(row) for row, _ in items}) == len(items):
            try:
                return [*self._write(items)]
            except Failure as failure:
                if failure.code != EVENT_ID_TAKEN.code:
                    raise
        # Two have the same id, or one has an id that is taken: each for itself, so that it concerns nobody else.
        return [self._alone(item) for item in items]

    def _alone(self, item: Item) -> Published | Failure:
        try:
            return self._write([item])[0]
        except Failure as failure:
            return failure

    def _write(self, items: Sequence[Item]) -> list[Published]:
        rows, contexts = [row for row, _ in items], [context for _, context in items]
        published_by = new_id()
        return self._store.atomic(
            lambda tx: publish(tx, self._jobs, rows, published_by, contexts, by=self._by),
            repeatable=True,
        )
