"""Periodic jobs: work that is enqueued by the clock, once for each firing, however many processes watch.

A firing moves the entry's due time and enqueues the job in one transaction; the process that moves it has fired
it. Firings missed while no process was running are made up for by one, not by many: the next one is counted from now.
Schedules are in UTC and read against the database's clock.

A process fires what it declares and nothing else. So services that know nothing of each other share a store without
harm, and what is removed from the code stops when the last process that has it stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import Json, digest, limits, monotonic_s
from holdfast.policy.cron import CronInvalid, Schedule, read_schedule, read_times
from holdfast.store import Store, Tx
from holdfast.worker.job import DEFAULT_QUEUE
from holdfast.worker.jobs import Jobs
from holdfast.worker.ledger import payload_text
from holdfast.worker.prepared import check_name

ENTRY_CHARS_MAX = 120
"""A name and the time must fit into a dedupe key."""
FIRE_MAX = 1_000
VOUCH_S = 60.0
"""Interval at which a process confirms that it still declares its entries."""
SILENT_S = 600.0
"""A schedule or payload that nobody has vouched for during this time gives way to that of a process still there."""
KEPT_S = 7 * 86_400.0
"""An entry that nobody has vouched for during this time is deleted; until then its missed firing can be made up for."""

Identity = tuple[str, str, str]
"""Name, queue and kind: what is the same in all of them is one entry, declared by however many processes."""


@dataclass(frozen=True, slots=True)
class _Entry:
    schedule: Schedule
    payload: str


class Periodic:
    """Periodic jobs declared in code, and the clockwork that fires them when they are due.

    A worker makes one from the schedules of its handlers, or is given one (`Worker(…, periodic=…)`).
    """

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self.store = store
        self.jobs = jobs
        self._declared: dict[Identity, _Entry] = {}
        self._saved = True
        self._vouch_at_s = 0.0

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
        check_name("name", name, most=ENTRY_CHARS_MAX)
        check_name("kind", kind)
        check_name("queue", queue)
        self._declared[name, queue, kind] = _Entry(read_times(schedule, every_s), payload_text(payload))
        self._saved = False

    def save(self) -> None:
        """Make the store's entries say what is declared here; `fire_due` does it when it is needed."""
        self._save(starting=True)

    def fire_due(self) -> int:
        """Enqueue what is declared here and due; how many this call has fired. Any process may call it at any time."""
        if not self._saved or (self._declared and monotonic_s() >= self._vouch_at_s):
            self._save(starting=not self._saved)
        if not self._declared:
            return 0
        declared = list(self._declared)
        due = self.store.atomic(lambda tx: tx.many_rows("periodic.due", declared, count=FIRE_MAX), write=False)
        return sum(self._fire(*row) for row in due)

    def next_due_s(self) -> float | None:
        """The seconds until something that is declared here is due, 0 when it is already; None when nothing ever is."""
        if not self._declared:
            return None
        declared = list(self._declared)
        ((due_us,),) = self.store.atomic(lambda tx: tx.many_rows("periodic.next_due", declared), write=False)
        return None if due_us is None else max(0.0, due_us / 1_000_000)

    def list(self) -> Sequence[dict[str, Any]]:
        """Every entry of every process, with its next and its last firing, and when one has last vouched for it."""
        return self.store.atomic(list_schedules, write=False)

    def _save(self, *, starting: bool) -> None:
        self.store.atomic(lambda tx: self._write(tx, starting=starting), repeatable=True)
        # Apart from the others, so that two processes never wait for each other crosswise.
        self.store.single("periodic.forget", kept_us=int(KEPT_S * 1_000_000), repeatable=True)
        self._saved = True
        self._vouch_at_s = monotonic_s() + VOUCH_S

    def _write(self, tx: Tx, *, starting: bool) -> None:
        now_us = tx.now_us()
        # In one order everywhere: processes that start together wait for each other and never stand crosswise.
        for name, queue, kind in sorted(self._declared):
            entry = self._declared[name, queue, kind]
            tx.run("queue.register", name=queue)
            tx.run(
                "periodic.save",
                name=name,
                queue=queue,
                kind=kind,
                schedule=entry.schedule.text,
                payload=entry.payload,
                due_us=entry.schedule.next_us(now_us),
                starting=int(starting),
                silent_us=int(SILENT_S * 1_000_000),
            )

    def _fire(self, name: str, queue: str, kind: str, schedule: str, payload: str, due_us: int, now_us: int) -> bool:
        """Fire one entry in a transaction of its own; False when another process has."""
        import json

        try:
            next_us = read_schedule(schedule).next_us(now_us)
        except CronInvalid:
            return False  # a newer version wrote it; the processes that understand it fire it

        def phase(tx: Tx) -> bool:
            if tx.row("periodic.fire", name=name, queue=queue, kind=kind, due_us=due_us, next_us=next_us) is None:
                return False
            # Dedupe keys know no kinds, and a kind may be as long as a key.
            key = f"periodic:{name}:{digest([kind])[:8]}:{due_us}"
            self.jobs.enqueue(kind, json.loads(payload), queue=queue, dedupe_key=key, tx=tx)
            tx.after_commit.append(lambda: self.jobs.notifier.wake(queue))
            return True

        return self.store.atomic(phase, repeatable=True)


def list_schedules(tx: Tx) -> Sequence[dict[str, Any]]:
    """Every periodic job of every process, with its next and its last firing, and when one has last vouched for it."""
    return tx.records("periodic.list", count=limits().page_rows_max)
