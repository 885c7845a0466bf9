"""Refused webhooks for operators: which, why, from where, how often. Kept for all processes, and bounded.

Always true: a request that is refused costs no statement of its own. Refusals of one platform, code, field and address
are one row with a count; they are gathered in memory and written together, about once a second. What a process that is
killed had not written yet is lost; the metrics count the same.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

from holdfast.base import Json, utc_text
from holdfast.catalog import Failure
from holdfast.delivery.faults import SIGNATURE_FAULTS
from holdfast.store import Store, Tx

WRITE_S = 1.0
GATHERED_MAX = 1_000
"""Maximum number of different refusals that wait in memory; further ones are counted without their address."""
ROWS_MAX = 200
"""Maximum number of rows that are kept for each platform: those that were heard of last."""
KEPT_US = 7 * 86_400 * 1_000_000
TEXT_CHARS_MAX = 300
SIGNATURE_CODES = frozenset(fault.code for fault in SIGNATURE_FAULTS)
SOMEWHERE = "several addresses"

_LOG = logging.getLogger("holdfast.credentials")


@dataclass(frozen=True, slots=True)
class Refusal:
    """What refusals have in common that are told as one."""

    platform: str
    code: str
    field: str
    """The field that was wrong; empty where it was not about one."""
    address: str


class RefusalLog:
    """Gathers the refusals of this process; a thread of its own writes them between `start` and `stop`."""

    def __init__(self, store: Store, *, write_s: float = WRITE_S) -> None:
        self._store = store
        self._write_s = write_s
        self._lock = threading.Lock()
        self._gathered: dict[Refusal, tuple[int, str]] = {}
        self._waiting = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def note(self, refusal: Refusal, message: str) -> None:
        """One webhook was refused. Never blocks for the store."""
        with self._lock:
            self._gather(refusal, 1, message[:TEXT_CHARS_MAX])
        self._waiting.set()

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="credentials-refusals", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is left, and end."""
        self._stopping.set()
        self._waiting.set()
        if self._thread is not None:
            self._thread.join()

    def write(self) -> None:
        """Write what was gathered; what the store does not take is gathered again.

        Raises:
            Failure: the database's own.
        """
        with self._lock:
            taken, self._gathered = self._gathered, {}
        if not taken:
            return
        # In one order, so that two processes never wait crosswise.
        rows = sorted((*_key(one), count, message) for one, (count, message) in taken.items())
        platforms = sorted({one.platform for one in taken})

        def phase(tx: Tx) -> None:
            tx.many("credentials_refusals.add", rows)
            for platform in platforms:
                tx.run("credentials_refusals.prune", platform=platform, kept_us=KEPT_US, most=ROWS_MAX)

        try:
            self._store.atomic(phase)
        except Failure:
            with self._lock:
                for one, (count, message) in taken.items():
                    self._gather(one, count, message)
            raise

    def _gather(self, refusal: Refusal, count: int, message: str) -> None:
        if refusal not in self._gathered and len(self._gathered) >= GATHERED_MAX:
            refusal = Refusal(refusal.platform, refusal.code, "", SOMEWHERE)
        before, _ = self._gathered.get(refusal, (0, ""))
        self._gathered[refusal] = before + count, message

    def _run(self) -> None:
        told = False
        while not self._stopping.is_set():
            self._waiting.wait()
            self._waiting.clear()
            self._stopping.wait(self._write_s)  # more of them come meanwhile
            try:
                self.write()
                told = False
            except Failure as failure:
                if not told:
                    _LOG.warning("refused webhooks could not be written down: %s", failure.code)
                told = True
                self._waiting.set()


def refusals(tx: Tx, platform: str) -> list[dict[str, Any]]:
    """The refusals of a platform, the latest first."""
    rows = tx.records("credentials_refusals.list", platform=platform, count=ROWS_MAX)
    return [
        {
            "code": row["code"],
            "message": row["message"],
            "field": row["field"] or None,
            "address": row["address"],
            "count": row["refused_count"],
            "signature": row["code"] in SIGNATURE_CODES,
            "first_at": utc_text(row["first_us"]),
            "last_at": utc_text(row["last_us"]),
        }
        for row in rows
    ]


def refusal_of(platform: str, address: str, body: Json) -> tuple[Refusal, str] | None:
    """What an error body tells; None when it is not one of ours."""
    if not isinstance(body, dict) or not isinstance(body.get("code"), str):
        return None
    details = body.get("details")
    field = details.get("field") if isinstance(details, dict) else None
    named = field[:TEXT_CHARS_MAX] if isinstance(field, str) else ""
    return Refusal(platform, body["code"], named.replace("\0", ""), address), str(body.get("error", ""))


def _key(refusal: Refusal) -> tuple[str, str, str, str]:
    return refusal.platform, refusal.code, refusal.field, refusal.address
