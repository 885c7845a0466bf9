"""What a worker does with a conversion. It writes the result's file and its size; the engine writes the rest.

The job's result names the file, and the engine stores it in the transaction that completes the job: there is a
result exactly when the job is complete.
"""

from __future__ import annotations

from holdfast.artifact import ARTIFACT_FAULTS, Artifacts, Stored
from holdfast.base import Json
from holdfast.catalog import Failure
from holdfast.lifecycle import Cancel
from holdfast.policy import Retry
from holdfast.store import Store
from holdfast.worker import Job
from holdfast_systems.conversion.faults import CONVERSION_FAULTS, EXPIRED, IO_ERROR, UNKNOWN
from holdfast_systems.conversion.links import Gateway
from holdfast_systems.conversion.model import result_name, source_name
from holdfast_systems.conversion.settings import JITTER_SHARE

CONFLICT = ARTIFACT_FAULTS["ARTIFACT_CONFLICT"].code
NOT_FOUND = ARTIFACT_FAULTS["ARTIFACT_NOT_FOUND"].code
FULL = ARTIFACT_FAULTS["STORAGE_FULL"].code
ANSWERED = 200
DELETED = Cancel("its owner deleted it")


class Converter:
    """Does the jobs of the queue."""

    def __init__(self, store: Store, artifacts: Artifacts, gateway: Gateway, *, retry: Retry, bytes_max: int) -> None:
        self._store = store
        self._artifacts = artifacts
        self._gateway = gateway
        self._retry = retry
        self._bytes_max = bytes_max

    def convert(self, job: Job) -> Json | Cancel:
        """Convert one upload; the name, size and hash of its XML.

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

    def _converted(self, job: Job) -> Json | Cancel:
        name = result_name(job.payload["upload"])
        present = self._present(name)
        stored = present or self._made(job, name)
        if stored is None:
            return DELETED
        # It counts for the quotas as soon as it is there, whether or not the job comes to its end.
        self._store.single("conversion.note_result", repeatable=True, id=job.payload["upload"], bytes=stored.bytes)
        return {
            "result": stored.name,
            "bytes": stored.bytes,
            "sha256": stored.sha256,
            "gateway_http_status": ANSWERED if present is None else None,
        }

    def _made(self, job: Job, name: str) -> Stored | None:
        """Ask the gateway and keep what it answers; None when nobody wants it any more."""
        pdf = self._source(job.payload["upload"], job.payload["sha256"])
        xml = self._gateway.convert(pdf, job.payload["mapping"])
        return None if job.cancelled else self._kept(name, xml)

    def _source(self, upload_id: str, sha256: str) -> bytes:
        try:
            return self._artifacts.get(source_name(upload_id), sha256=sha256, bytes_max=self._bytes_max)
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
        ours_s = self._retry.backoff.raw_s(job.attempt) * (1 + JITTER_SHARE)
        return asked_s if asked_s > ours_s else None


def _storage_failure(failure: Failure) -> Failure:
    """What a failure of the storage is to a conversion."""
    return IO_ERROR(reason=failure.code, full=failure.code == FULL)
