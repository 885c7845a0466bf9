"""Telling operators that an event was given up: once for each time, also when the process died in between.

What is to be told is read from the dead letters themselves. That somebody was told is written in the same transaction
as the event to the operators' own endpoint, where there is one; the log and the bus are told after it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.base import Facts, bus, encode, utc_text
from holdfast.catalog import Failure
from holdfast.delivery import Deliveries, UndeliveredFilter
from holdfast.store import Store, Tx
from holdfast_systems.credentials.faults import WEBHOOK_DEAD
from holdfast_systems.credentials.platform import TENANT

OPS_TENANT = "credentials-ops"
OPS_TYPE = "ops.alert"
LOOK_S = 5.0
"""How often dead letters are looked for that nobody was told of; those of this process are told at once."""
OVERLAP_US = 60_000_000
"""Overlap of two looks: what was given up more than this long before a look was seen by it or an earlier one."""
BATCH = 100
BATCHES_MAX = 100
ERROR_CHARS_MAX = 500

_LOG = logging.getLogger("holdfast.credentials")
_DELIVERY_KIND = UndeliveredFilter().letters().kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What operators are told."""

    message: str
    event_id: str
    error: str


class Alerts:
    """Looks for what was given up, in a thread of its own between `start` and `stop`."""

    def __init__(self, store: Store, deliveries: Deliveries, *, ops: bool = False, look_s: float = LOOK_S) -> None:
        """
        Args:
            ops: whether operators have an endpoint of their own.
        """
        self._store = store
        self._deliveries = deliveries
        self._ops = ops
        self._look_s = look_s
        self._since_us = 0
        self._nudged = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._deaf: Callable[[], None] = _nothing

    def start(self) -> None:
        """Begin to look."""
        self._deaf = bus.listen(self._hear)
        self._thread = threading.Thread(target=self._run, name="credentials-alerts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and end."""
        self._deaf()
        self._stopping.set()
        self._nudged.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> int:
        """Tell of everything that nobody was told of; how much that was."""
        told = 0
        for _ in range(BATCHES_MAX):
            raised, found, now_us = self._store.atomic(self._raise)
            for alert in raised:
                _tell(alert)
            told += len(raised)
            if found < BATCH:
                self._since_us = now_us - OVERLAP_US
                break
        return told

    def _raise(self, tx: Tx) -> tuple[list[Alert], int, int]:
        now_us = tx.now_us()
        raised = []
        rows = tx.rows("credentials_platform.unalerted", tenant=TENANT, since_us=self._since_us, count=BATCH)
        for job_id, failed_us, event_id, event_type, error in rows:
            alert = _alert(event_id, event_type, error or "")
            known = {"job_id": job_id, "failed_us": failed_us, "event_id": event_id, "event_type": event_type}
            if tx.row("credentials_platform.raise", **known, message=alert.message, error=alert.error) is None:
                continue  # another process has told
            if self._ops:
                self._publish(tx, alert, f"alert_{job_id}_{failed_us}")
            raised.append(alert)
        return raised, len(rows), now_us

    def _publish(self, tx: Tx, alert: Alert, alert_id: str) -> None:
        told = {"message": alert.message, "event_id": alert.event_id, "error": alert.error}
        # The alert's body is that of the contract, which knows no envelope.
        self._deliveries.publish(OPS_TYPE, told, id=alert_id, tenant=OPS_TENANT, raw=True, tx=tx)

    def _hear(self, verb: str, facts: Facts) -> None:
        if verb == "job.failed" and facts.get("kind") == _DELIVERY_KIND:
            self._nudged.set()

    def _run(self) -> None:
        while True:
            self._nudged.wait(self._look_s)
            self._nudged.clear()
            try:
                self.look()
            except Failure as failure:
                _LOG.warning("dead letters could not be looked for: %s", failure.code)
            if self._stopping.is_set():
                return


def recent(store: Store, count: int) -> list[dict[str, object]]:
    """The alerts that were raised last."""
    rows = store.atomic(lambda tx: tx.records("credentials_platform.alerts", count=count), write=False)
    return [{"raised_at": utc_text(row.pop("raised_us")), **row} for row in rows]


def _nothing() -> None:
    """Nobody listens yet."""


def _alert(event_id: str, event_type: str, error: str) -> Alert:
    failure = WEBHOOK_DEAD(event_id=event_id, event_type=event_type, error=error)
    return Alert(message=failure.message, event_id=event_id, error=error[:ERROR_CHARS_MAX])


def _tell(alert: Alert) -> None:
    _LOG.error("%s", encode({"message": alert.message, "event_id": alert.event_id, "error": alert.error}))
    if bus.listeners:
        bus.tell("ops.alerted", message=alert.message, event_id=alert.event_id, error=alert.error)
