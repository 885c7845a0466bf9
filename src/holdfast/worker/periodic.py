"""Periodic jobs: work that is enqueued by the clock, once for each firing, however many processes watch.

A firing moves the entry's due time and enqueues the job in one transaction; whoever moves it has fired it. Firings
that nobody was there for are made up for by one, not by many: the next one is counted from now. Schedules are in UTC
and read against the database's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import Json, limits
from holdfast.catalog.core import BAD_REQUEST
from holdfast.policy.cron import CronInvalid, Every, Schedule, read_schedule
from holdfast.store import Store, Tx
from holdfast.worker.enqueueing import NAME_CHARS_MAX
from holdfast.worker.job import DEFAULT_QUEUE
from holdfast.worker.jobs import Jobs
from holdfast.worker.ledger import payload_text

DEFAULT_GROUP = "default"
ENTRY_CHARS_MAX = 60
"""For a group and for a name: both and the time must fit into a dedupe key."""
FIRE_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    name: str
    schedule: Schedule
    queue: str
    kind: str
    payload: str


class Periodic:
    """The periodic jobs of one group, declared in code, and the clockwork that fires all that are due.

    Saving replaces the group's entries: what is no longer declared disappears. Services that share a store and
    declare different jobs take different groups.
    """

    def __init__(self, store: Store, jobs: Jobs, *, group: str = DEFAULT_GROUP) -> None:
        _bounded("group", group, ENTRY_CHARS_MAX)
        if ":" in group:
            raise BAD_REQUEST("{field} holds no colon.", field="group")
        self.store = store
        self.jobs = jobs
        self._prefix = f"{group}:"
        self._declared: dict[str, _Entry] = {}
        self._saved = True

    def declare(
        self,
        name: str,
        schedule: str | None = None,
        *,
        every_s: float | None = None,
        kind: str,
        payload: Json = None,
        queue: str = DEFAULT_QUEUE,
    ) -> None:
        """Say that this job is to be enqueued by a cron schedule or at an interval; it counts from `save` on.

        Raises:
            CronInvalid: the schedule cannot be meant; the text names the field.
            Failure: BAD_REQUEST names the field; JOB_PAYLOAD_TOO_LARGE.
        """
        _bounded("name", name, ENTRY_CHARS_MAX)
        _bounded("kind", kind, NAME_CHARS_MAX)
        _bounded("queue", queue, NAME_CHARS_MAX)
        self._declared[self._prefix + name] = _Entry(
            name=self._prefix + name,
            schedule=_schedule(schedule, every_s),
            queue=queue,
            kind=kind,
            payload=payload_text(payload),
        )
        self._saved = False

    def save(self) -> None:
        """Make the store's entries of this group those that are declared; `fire_due` does it when it is needed."""
        self.store.atomic(self._save, repeatable=True)
        self._saved = True

    def fire_due(self) -> int:
        """Enqueue what is due; how many this call has fired. Any process may call it at any time."""
        if not self._saved:
            self.save()
        due = self.store.atomic(lambda tx: tx.rows("periodic.due", count=FIRE_MAX), write=False)
        return sum(self._fire(*row) for row in due)

    def next_due_s(self) -> float | None:
        """The seconds until something is due, 0 when it is already; None when nothing ever is."""
        found = self.store.atomic(lambda tx: tx.row("periodic.next_due"), write=False)
        return None if found is None or found[0] is None else max(0.0, found[0] / 1_000_000)

    def list(self) -> Sequence[dict[str, Any]]:
        """Every entry of every group, with its next and its last firing."""
        count = limits().page_rows_max
        return self.store.atomic(lambda tx: tx.records("periodic.list", count=count), write=False)

    def _save(self, tx: Tx) -> None:
        now_us = tx.now_us()
        # In one order everywhere: processes that start together wait for each other and never stand crosswise.
        for name in sorted(self._declared):
            entry = self._declared[name]
            tx.run("queue.register", name=entry.queue)
            tx.run(
                "periodic.save",
                name=name,
                schedule=entry.schedule.text,
                queue=entry.queue,
                kind=entry.kind,
                payload=entry.payload,
                due_us=entry.schedule.next_us(now_us),
            )
        tx.run("periodic.forget", prefix=self._prefix, kept=sorted(self._declared))

    def _fire(self, name: str, schedule: str, queue: str, kind: str, payload: str, due_us: int, now_us: int) -> bool:
        """Fire one entry in a transaction of its own; False when another process has."""
        import json

        try:
            next_us = read_schedule(schedule).next_us(now_us)
        except CronInvalid:
            return False  # a newer version wrote it; the processes that understand it fire it

        def phase(tx: Tx) -> bool:
            if tx.row("periodic.fire", name=name, due_us=due_us, next_us=next_us) is None:
                return False
            key = f"periodic:{name}:{due_us}"
            self.jobs.enqueue(kind, json.loads(payload), queue=queue, dedupe_key=key, tx=tx)
            tx.after_commit.append(lambda: self.jobs.notifier.wake(queue))
            return True

        return self.store.atomic(phase, repeatable=True)


def _schedule(schedule: str | None, every_s: float | None) -> Schedule:
    if (schedule is None) == (every_s is None):
        raise CronInvalid("give either a schedule or every_s")
    return read_schedule(schedule) if schedule is not None else Every(float(every_s or 0))


def _bounded(field: str, value: str, most: int) -> None:
    if not 1 <= len(value) <= most:
        raise BAD_REQUEST("{field} has 1 to {most} characters.", field=field, most=most)
