"""What a person may do with conversions: upload, look, download, retry, delete. Each only with their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.artifact import ARTIFACT_FAULTS, Artifacts, Stream
from holdfast.base import Json, bus, new_id, utc_text
from holdfast.catalog import CORE, Failure, Fault
from holdfast.catalog.durable import NO_DEAD_LETTER
from holdfast.store import Store, Tx
from holdfast.worker import DeadLetters, Jobs
from holdfast_systems.conversion import tables
from holdfast_systems.conversion.faults import EXPIRED, FORBIDDEN, IO_ERROR, NOT_READY
from holdfast_systems.conversion.model import (
    CONVERT,
    QUEUE,
    Received,
    events,
    result_name,
    result_of,
    source_name,
    view,
    xml_file_name,
)
from holdfast_systems.conversion.quota import Quota, Sender
from holdfast_systems.conversion.settings import Settings
from holdfast_systems.conversion.uploads import Refused

PAGE_ROWS = 100
NOT_THERE = CORE["NOT_FOUND"]
NOT_FOUND = ARTIFACT_FAULTS["ARTIFACT_NOT_FOUND"].code
DUPLICATE_RECORD = CORE["DUPLICATE_RECORD"].code


class Conversions:
    """The uploads of a store, with their files and their jobs. Threads may share it; everything here blocks."""

    def __init__(self, store: Store, artifacts: Artifacts, settings: Settings, quota: Quota) -> None:
        self._store = store
        self._quota = quota
        self._artifacts = artifacts
        self._settings = settings
        self._jobs = Jobs(store)
        self._dead = DeadLetters(store)

    def accept(self, sender: Sender, received: Received) -> tuple[dict[str, Json], bool]:
        """The job that converts the file, and whether it is a new one.

        Raises:
            Failure: QUOTA_EXCEEDED, STORE_FULL; IO_ERROR when the file cannot be stored, which the owner's list shows
                as failed.
        """
        with received.file:
            twin = self._twin(sender.owner, received.twin_key)
            if twin is not None:
                return self.show(sender.owner, twin), False
            self._quota.check(sender, more_bytes=received.bytes)
            upload_id = new_id()
            self._keep_source(sender, upload_id, received)
        # Dying here leaves a file without a row, which retention sweeps up.
        counts = self._written(sender, upload_id, received)
        if counts != upload_id:
            self._drop(source_name(upload_id))
        if isinstance(counts, Failure):
            raise counts
        return self.show(sender.owner, counts), counts == upload_id

    def refuse(self, sender: Sender, refused: Refused) -> Failure:
        """Remember a refused upload as a failed one; the failure to answer with."""
        return self._refused(sender, new_id(), refused.facts, refused.failure)

    def listing(self, owner: str, *, before: str | None = None, count: int = PAGE_ROWS) -> dict[str, Json]:
        """The owner's conversions, newest first, and whether the gateway gets jobs."""
        count = max(1, min(count, PAGE_ROWS))

        def phase(tx: Tx) -> tuple[list[dict[str, Any]], dict[str, int], Any, int]:
            listed = tables.listed(tx, owner, before=before, count=count)
            return listed, tables.counts(tx, owner), tables.gate(tx), tx.now_us()

        records, counts, gate, at_us = self._store.atomic(phase, write=False)
        return {
            "jobs": [self._view(record) for record in records],
            "next": records[-1]["id"] if len(records) == count else None,
            "active": counts["active"] > 0,
            "counts": dict(counts),
            "gateway": {"paused": gate.paused, "message": gate.message},
            "now": utc_text(at_us),
        }

    def pulse(self) -> tuple[Any, ...] | None:
        """Something that changes whenever a listing may have changed."""
        return self._store.atomic(lambda tx: tx.row("conversion.pulse"), write=False)

    def show(self, owner: str, upload_id: str) -> dict[str, Json]:
        """One conversion with everything that happened to it.

        Raises:
            Failure: NOT_FOUND.
        """
        record = self._own(owner, upload_id)
        history = self._jobs.history(record["job_id"]) if record["job_id"] else []
        return {**self._view(record), "sha256": record["sha256"], "events": events(history, result_of(record))}

    def open_result(self, owner: str, upload_id: str) -> tuple[Stream, str]:
        """The XML piece by piece, and its name as a download.

        Raises:
            Failure: NOT_READY, EXPIRED, IO_ERROR; NOT_FOUND, FORBIDDEN.
        """
        record = self._own(owner, upload_id, others=FORBIDDEN)
        if record["purged_us"] is not None or (record["job_id"] and record["state"] is None):
            raise EXPIRED()
        if record["state"] != "complete":
            raise NOT_READY()
        try:
            return self._artifacts.open_stream(result_name(upload_id)), xml_file_name(record["file_name"])
        except Failure as failure:
            raise (EXPIRED() if failure.code == NOT_FOUND else IO_ERROR(reason=failure.code)) from failure

    def retry(self, owner: str, upload_id: str) -> dict[str, Json]:
        """Put a failed conversion back into the queue.

        Raises:
            Failure: NOT_READY while it is in work, CONFLICT when it is complete or a newer upload does the same,
                EXPIRED without its PDF; NOT_FOUND, FORBIDDEN.
        """
        record = self._own(owner, upload_id, others=FORBIDDEN)
        if record["state"] in ("queued", "processing"):
            raise NOT_READY()
        if record["state"] == "complete":
            raise CORE["CONFLICT"]("Only a conversion that has failed can be retried.")
        if record["state"] is None or record["purged_us"] is not None or not self._has_source(upload_id):
            raise EXPIRED()
        if not self._reserve(record):
            raise CORE["CONFLICT"]("A newer upload of the same file is there already.")
        try:
            self._dead.revive(record["job_id"], reason="its owner asked for another try")
        except Failure as failure:
            if failure.code not in NO_DEAD_LETTER:
                raise
            # Somebody else was faster: what they did is what was asked for.
        return self.show(owner, upload_id)

    def delete(self, owner: str, upload_id: str) -> None:
        """Forget a conversion and delete its files; a worker that is at it is told to stop.

        Raises:
            Failure: NOT_FOUND.
        """
        record = self._own(owner, upload_id)
        if record["job_id"] is not None:
            self._stop(record["job_id"])
        self._store.atomic(lambda tx: tx.row("conversion.delete", id=upload_id), repeatable=True)
        # What a worker still writes after this belongs to nobody, and retention sweeps it up.
        self._drop(source_name(upload_id))
        self._drop(result_name(upload_id))

    def close(self) -> None:
        """Send the last wake-ups."""
        self._jobs.close()

    def _written(self, sender: Sender, upload_id: str, received: Received) -> str | Failure:
        """The id of the upload that counts; or why there is no room, looked at again: others came meanwhile."""

        def phase(tx: Tx) -> str | Failure:
            refusal = self._quota.refusal(tx, sender, more_bytes=received.bytes)
            return refusal or tables.accept(tx, self._jobs, upload_id, sender, received)

        return self._store.atomic(phase, repeatable=True)

    def _own(self, owner: str, upload_id: str, *, others: Fault = NOT_THERE) -> dict[str, Any]:
        """The owner's upload; what belongs to others is as good as not there, unless another fault is to be told."""
        record = self._store.atomic(lambda tx: tables.find(tx, upload_id), write=False)
        if record is None:
            raise NOT_THERE()
        if record["owner"] != owner:
            raise others()
        return record

    def _twin(self, owner: str, key: str) -> str | None:
        """The upload that makes another one needless; one whose XML was lost keeps nobody out."""
        twin = self._store.atomic(lambda tx: tables.twin_of(tx, owner, key), repeatable=True)
        if twin is None or not self._is_lost(twin):
            return twin
        self._store.single("conversion.give_way", repeatable=True, id=twin)
        return None

    def _is_lost(self, upload_id: str) -> bool:
        """Whether it is complete and its XML is not there; a storage that does not answer has lost nothing yet."""
        record = self._store.atomic(lambda tx: tables.find(tx, upload_id), write=False)
        if record is None or record["state"] != "complete":
            return False
        try:
            return not self._artifacts.exists(result_name(upload_id))
        except Failure:
            return False

    def _view(self, record: Mapping[str, Any]) -> dict[str, Json]:
        return view(record, attempts_max=self._settings.retry_max_attempts)

    def _keep_source(self, sender: Sender, upload_id: str, received: Received) -> None:
        try:
            self._artifacts.put(source_name(upload_id), received.file, bytes_max=self._settings.bytes_max)
        except Failure as failure:
            refused = IO_ERROR(reason=failure.code)
            refused.__cause__ = failure
            facts = {
                "file_name": received.file_name,
                "mapping": received.mapping,
                "bytes": received.bytes,
                "sha256": received.sha256,
            }
            raise self._refused(sender, upload_id, facts, refused) from failure

    def _refused(self, sender: Sender, upload_id: str, facts: dict[str, Any], failure: Failure) -> Failure:
        def phase(tx: Tx) -> None:
            # Who has too many rows already gets the answer, and no further row.
            if self._quota.refusal(tx, sender, more_bytes=0) is None:
                tables.refuse(tx, upload_id, sender, facts, failure)

        self._store.atomic(phase, repeatable=True)
        if bus.listeners:
            # There never was a job that could say so itself.
            facts = failure.fault.facts
            bus.tell("job.failed", id=upload_id, tenant="", queue=QUEUE, kind=CONVERT, attempt=0, **facts)
        return failure

    def _has_source(self, upload_id: str) -> bool:
        try:
            return self._artifacts.exists(source_name(upload_id))
        except Failure as failure:
            raise IO_ERROR(reason=failure.code) from failure

    def _reserve(self, record: dict[str, Any]) -> bool:
        try:
            return self._store.atomic(lambda tx: tables.reserve(tx, record), repeatable=True)
        except Failure as failure:
            if failure.code != DUPLICATE_RECORD:
                raise
            return False  # a twin came between the look and the move

    def _stop(self, job_id: str) -> None:
        try:
            self._jobs.cancel(job_id)
            # Only a job that had not begun is dead already; the others are discarded by retention.
            self._dead.discard(job_id, reason="its owner deleted it")
        except Failure as failure:
            if failure.code not in NO_DEAD_LETTER:
                raise

    def _drop(self, name: str) -> None:
        try:
            self._artifacts.delete(name)
        except Failure:
            return  # it belongs to nobody now: retention tries again
