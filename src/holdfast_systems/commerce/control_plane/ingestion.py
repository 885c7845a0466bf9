"""The job that brings an upload into the knowledge base, and goes on with it until it is there or its time is up.

Always true: one upload is one document. Before every upload the document is looked for by its name, which begins with
the upload's id; should two have come to be all the same, the older one stays. While something that it needs is away,
the ingestion is RETRY_PENDING and its job waits; a worker that dies leaves nothing that the next one does not find.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from holdfast.base import world
from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.http import ANYWHERE, HttpClient
from holdfast.lifecycle import Snooze
from holdfast.policy import NEVER, Backoff, Full, Retry
from holdfast.store import Store, Tx
from holdfast.worker import Job
from holdfast_systems.commerce.control_plane import uploads
from holdfast_systems.commerce.control_plane.rag import STATUS, Document, Ragflow
from holdfast_systems.commerce.control_plane.storage import Storage
from holdfast_systems.commerce.faults import RAG_UNAVAILABLE
from holdfast_systems.commerce.faults_outside import (
    INGESTION_EXPIRED,
    INGESTION_REFUSED,
    RAG_PARSING_FAILED,
    UPLOAD_INCOMPLETE,
)
from holdfast_systems.commerce.model import IngestionStatus
from holdfast_systems.commerce.settings import Settings

RETRIED_STATUSES = frozenset({502, 503, 504})
ATTEMPTS = 4
"""The first, and at most three retries."""
NAME_CHARS_MAX = 60
DATASET = "holdfast-{}"
UNUSED_KEPT_US = 86_400_000_000
UNUSED_AT_ONCE = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_FINAL = {INGESTION_REFUSED.code, UPLOAD_INCOMPLETE.code}
"""Failures that another attempt ends with too."""


class Links:
    """The links of ingestions and of questions."""

    def __init__(self, settings: Settings) -> None:
        def answered(error: BaseException) -> bool:
            return isinstance(error, Failure) and error.details.get(STATUS) in RETRIED_STATUSES

        backoff = Backoff.exponential(0.5, cap_s=4.0, jitter=Full())
        self.ingest = Link(
            "control plane → ragflow (ingestion)",
            timeout_s=settings.rag_ingest_timeout_s,
            retry=Retry(attempts=ATTEMPTS, backoff=backoff, on=answered, retry_after_max_s=4.0),
            budget=None,
            writes=True,
        )
        """Repeated under the key of the ingestion: each step looks first for what an earlier attempt has done."""
        self.query = Link("control plane → ragflow (query)", timeout_s=settings.rag_query_timeout_s, retry=NEVER)


class Ingestions:
    """Does ingestions, as a worker's handler."""

    def __init__(
        self, store: Store, storage: Storage, rag: Callable[[HttpClient], Ragflow], links: Links, settings: Settings
    ) -> None:
        """
        Args:
            rag: RAGFlow, as this client calls it.
        """
        self._store = store
        self._storage = storage
        self._rag = rag
        self._link = links.ingest
        self._poll_s = settings.ingestion_poll_s
        self._backoff = Backoff.exponential(
            settings.ingestion_retry_s, cap_s=settings.ingestion_retry_max_s, jitter=Full()
        )

    async def work(self, job: Job) -> Snooze | None:
        """One go at an ingestion: to its end, or to where something has to be waited for."""
        payload: Any = job.payload
        ingestion_id = str(payload["ingestionId"])
        found = await self._store.atomic_async(lambda tx: _begun(tx, ingestion_id))
        if found is None:
            return None
        row, attempts, again = found
        try:
            # For each go a client of its own: the worker's loop ends before anything here could close one.
            async with HttpClient(reach=ANYWHERE) as client:
                document = await self._step(self._rag(client), row, again=again)
        except TimeoutError:
            return await self._postponed(job, ingestion_id, RAG_UNAVAILABLE(reason="timeout"), attempts)
        except Failure as failure:
            if failure.code in _FINAL:
                await self._failed(job, ingestion_id, failure.code)
                return None
            return await self._postponed(job, ingestion_id, failure, attempts)
        if document is None:
            return Snooze(self._poll_s, "the document is being parsed")
        await self._store.atomic_async(lambda tx: _completed(tx, job, ingestion_id, document.id))
        return None

    async def sweep(self, _job: Job) -> None:
        """End what has taken too long, and forget files that were announced and never ingested."""
        await self._store.atomic_async(lambda tx: tx.run("ingestion.fail_overdue"), repeatable=True)
        unused = await self._store.atomic_async(
            lambda tx: tx.rows("ingestion.unused_uploads", kept_us=UNUSED_KEPT_US, count=UNUSED_AT_ONCE), write=False
        )
        for (upload_id,) in unused:
            await self._storage.delete(upload_id)
            await self._store.atomic_async(lambda tx, one=upload_id: tx.run("ingestion.drop_upload", id=one))  # type: ignore[misc]

    async def _step(self, rag: Ragflow, row: dict[str, Any], *, again: bool) -> Document | None:
        """The document, once it is parsed; None while it is on its way.

        Raises:
            Failure: RAG_UNAVAILABLE, RAG_PARSING_FAILED, STORAGE_UNAVAILABLE; INGESTION_REFUSED, UPLOAD_INCOMPLETE.
        """
        guarded = self._link.keyed(f"ingestion:{row['id']}")
        dataset_id = await guarded.call(self._dataset, rag, row["instance_id"])
        await self._store.atomic_async(
            lambda tx: tx.run("ingestion.set_dataset", instance_id=row["instance_id"], dataset_id=dataset_id)
        )
        document = await guarded.call(self._document, rag, dataset_id, row)
        if document.run == "DONE":
            return document
        if document.run == "FAIL" and not again:
            raise RAG_PARSING_FAILED()
        if document.run != "RUNNING":
            await guarded.call(rag.parse, dataset_id, document.id)
        return None

    async def _dataset(self, rag: Ragflow, instance_id: str) -> str:
        """The dataset of an instance, made if there is none; the oldest of that name is the one."""
        name = DATASET.format(instance_id)
        found = await rag.find_dataset(name)
        if found is None:
            await rag.create_dataset(name)
            found = await rag.find_dataset(name)
        if found is None:
            raise INGESTION_REFUSED(rag_code=0)
        return found

    async def _document(self, rag: Ragflow, dataset_id: str, row: dict[str, Any]) -> Document:
        """The one document of an upload, uploaded if there is none."""
        found = await rag.documents(dataset_id, row["upload_id"])
        if not found:
            content = await self._storage.read(uploads.file_of({**row, "id": row["upload_id"], "expires_us": 0}))
            await rag.upload(dataset_id, document_name(row["upload_id"], row["filename"]), content, row["content_type"])
            found = await rag.documents(dataset_id, row["upload_id"])
        if not found:
            raise INGESTION_REFUSED(rag_code=0)
        if len(found) > 1:  # a request that was given up for lost has arrived after all
            await rag.delete(dataset_id, [one.id for one in found[1:]])
        return found[0]

    async def _failed(self, job: Job, ingestion_id: str, code: str) -> None:
        def phase(tx: Tx) -> None:
            tx.row("ingestion.fail", id=ingestion_id, code=code)
            job.finish(tx)

        await self._store.atomic_async(phase)

    async def _postponed(self, job: Job, ingestion_id: str, failure: Failure, attempts: int) -> Snooze | None:
        delay_s = max(self._backoff.delay_s(attempts, world().dice), failure.retry_after_s or 0.0, 0.05)

        def phase(tx: Tx) -> bool:
            waits = tx.row("ingestion.postpone", id=ingestion_id, code=failure.code, delay_us=round(delay_s * 1e6))
            if waits is None:
                tx.row("ingestion.fail", id=ingestion_id, code=INGESTION_EXPIRED.code)
                job.finish(tx)
            return waits is not None

        waits = await self._store.atomic_async(phase)
        return Snooze(delay_s, failure.code) if waits else None


def document_name(upload_id: str, filename: str) -> str:
    """The name of a document: the upload's id, and as much of the file's name as can stand in a header."""
    last = re.split(r"[/\\]", filename)[-1]
    stem, _, suffix = last.rpartition(".")
    clean = _UNSAFE.sub("_", stem or suffix)[:NAME_CHARS_MAX]
    ending = f".{_UNSAFE.sub('_', suffix)[:10].lower()}" if stem else ""
    return f"{upload_id}-{clean}{ending}"


def _begun(tx: Tx, ingestion_id: str) -> tuple[dict[str, Any], int, bool] | None:
    """The ingestion, how many attempts it has had, and whether this is a new one; None when it has ended."""
    found = tx.records("ingestion.show", id=ingestion_id)
    begun = tx.row("ingestion.begin", id=ingestion_id) if found else None
    if begun is None:
        tx.row("ingestion.fail", id=ingestion_id, code=INGESTION_EXPIRED.code)
        return None
    return found[0], int(begun[0]), found[0]["status"] == IngestionStatus.RETRY_PENDING


def _completed(tx: Tx, job: Job, ingestion_id: str, document_id: str) -> None:
    tx.row("ingestion.complete", id=ingestion_id, document_id=document_id)
    job.finish(tx)
