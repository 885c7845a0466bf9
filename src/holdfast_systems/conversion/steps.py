"""What a worker does with a conversion. It writes the result's file and its size; the engine writes the rest.

The job's result names the file, and the engine stores it in the transaction that completes the job: there is a
result exactly when the job is complete.
"""

from __future__ import annotations

from dataclasses import replace

from holdfast.artifact import ARTIFACT_FAULTS, Artifacts, Stored
from holdfast.base import Json, world
from holdfast.catalog import Failure
from holdfast.lifecycle import Cancel, Snooze
from holdfast.store import Store
from holdfast.worker import Job
from holdfast_systems.conversion.capacity import Capacity
from holdfast_systems.conversion.documents import has_words
from holdfast_systems.conversion.faults import CONVERSION_FAULTS, EXPIRED, GW_5XX, IO_ERROR, UNKNOWN
from holdfast_systems.conversion.links import Busy, Gateway
from holdfast_systems.conversion.model import result_name, source_name
from holdfast_systems.conversion.settings import JITTER_SHARE, Settings

CONFLICT = ARTIFACT_FAULTS["ARTIFACT_CONFLICT"].code
NOT_FOUND = ARTIFACT_FAULTS["ARTIFACT_NOT_FOUND"].code
FULL = ARTIFACT_FAULTS["STORAGE_FULL"].code
ANSWERED = 200
TOO_BUSY = replace(GW_5XX, breaker=False)
"""A gateway that is well has had no place for too long: an attempt is spent, and its breaker stays closed."""
DELETED = Cancel("its owner deleted it")


class Converter:
    """Does the jobs of the queue."""

    def __init__(
        self, store: Store, artifacts: Artifacts, gateway: Gateway, capacity: Capacity, settings: Settings
    ) -> None:
        self._store = store
        self._artifacts = artifacts
        self._gateway = gateway
        self._capacity = capacity
        self._settings = settings

    def convert(self, job: Job) -> Json | Cancel | Snooze:
        """Convert one upload; the name, size and hash of its XML, or when to ask a busy gateway again.

        Raises:
            Failure: one of our own codes.
        """
        try:
            return self._converted(job)
        except Failure as failure:
            if failure.code not in CONVERSION_FAULTS:
                raise UNKNOWN() from failure
            failure.retry_after_s = self._worth_waiting(job, failure.retry_after_s)
            raise
        except Exception as error:
            raise UNKNOWN() from error

    def _converted(self, job: Job) -> Json | Cancel | Snooze:
        name = result_name(job.payload["upload"])
        present = self._present(name)
        if present is not None:
            return self._told(job, present, words=self._has_words(name))
        pdf = self._source(job.payload["upload"], job.payload["sha256"])
        xml = self._asked(pdf, job.payload["mapping"])
        if isinstance(xml, Busy):
            return self._put_off(job, xml)
        if job.cancelled:
            return DELETED
        return self._told(job, self._kept(name, xml), words=has_words((xml,)), status=ANSWERED)

    def _told(self, job: Job, stored: Stored, *, words: bool, status: int | None = None) -> Json:
        # It counts for the quotas as soon as it is there, whether or not the job comes to its end.
        self._store.single("conversion.note_result", repeatable=True, id=job.payload["upload"], bytes=stored.bytes)
        return {
            "result": stored.name,
            "bytes": stored.bytes,
            "sha256": stored.sha256,
            "gateway_http_status": status,
            "words": words,
        }

    def _asked(self, pdf: bytes, mapping: str) -> bytes | Busy:
        """What the gateway answers, and what it takes from this process from now on."""
        with self._capacity.calling():
            answer = self._gateway.convert(pdf, mapping)
            if isinstance(answer, Busy):
                self._capacity.refused(answer.wait_s)
            else:
                self._capacity.taken()
            return answer

    def _put_off(self, job: Job, busy: Busy) -> Snooze:
        """Ask again later, with no attempt spent; but not for ever.

        Raises:
            Failure: GW_5XX, which spends one.
        """
        if job.elapsed_s + busy.wait_s > self._settings.busy_max_s:
            reason = f"HTTP {busy.status} for {self._settings.busy_max_s:g} s"
            raise TOO_BUSY(upstream_status=busy.status, reason=reason, retry_after_s=busy.wait_s)
        # Those that were turned away together do not come back together.
        wait_s = busy.wait_s * (1 + JITTER_SHARE * world().dice())
        return Snooze(wait_s, f"the gateway is busy: HTTP {busy.status}", timed=True)

    def _has_words(self, name: str) -> bool:
        try:
            with self._artifacts.open_stream(name) as stream:
                return has_words(stream)
        except Failure as failure:
            raise _storage_failure(failure) from failure

    def _source(self, upload_id: str, sha256: str) -> bytes:
        try:
            return self._artifacts.get(source_name(upload_id), sha256=sha256, bytes_max=self._settings.bytes_max)
        except Failure as failure:
            if failure.code == NOT_FOUND:
                raise EXPIRED() from failure
            raise _storage_failure(failure) from failure

    def _present(self, name: str) -> Stored | None:
        """The XML of an earlier attempt that was not able to say that it had finished."""
        try:
            return self._artifacts.measure(name)
        except Failure as failure:
            if failure.code == NOT_FOUND:
                return None
            raise _storage_failure(failure) from failure

    def _kept(self, name: str, xml: bytes) -> Stored:
        """Store the XML, unless another attempt was first: then that one's is the result."""
        try:
            return self._artifacts.put(name, xml)
        except Failure as failure:
            present = self._present(name) if failure.code == CONFLICT else None
            if present is None:
                raise _storage_failure(failure) from failure
            return present

    def _worth_waiting(self, job: Job, asked_s: float | None) -> float | None:
        """The gateway's own wish, where it is longer than our wait: a shorter one would use up the attempts."""
        if asked_s is None:
            return None
        ours_s = self._settings.retry.backoff.raw_s(job.attempt) * (1 + JITTER_SHARE)
        return asked_s if asked_s > ours_s else None


def _storage_failure(failure: Failure) -> Failure:
    """What a failure of the storage is to a conversion."""
    return IO_ERROR(reason=failure.code, full=failure.code == FULL)
