"""RAGFlow's HTTP API: datasets, documents, parsing and retrieval.

Always true: a status of 200 is not yet a success, its `code` decides; and what RAGFlow says in words stays here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from holdfast.base import Secret, new_id
from holdfast.catalog import Failure
from holdfast.http import HttpClient, Reply, Timeouts
from holdfast_systems.commerce.faults import RAG_UNAVAILABLE
from holdfast_systems.commerce.faults_outside import INGESTION_REFUSED

API = "/api/v1"
ANSWER_BYTES_MAX = 1_048_576
PAGE_ROWS = 100
CONNECT_S = 5.0
OK, ARGUMENT_ERROR, DATA_ERROR = 0, 101, 102
STATUS = "status"
"""The detail of a failure that says which HTTP status came."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a dataset, and how far its parsing is."""

    id: str
    name: str
    run: str
    """UNSTART, RUNNING, CANCEL, DONE or FAIL."""
    created: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document that fits a question."""

    text: str
    document: str
    score: float


class Ragflow:
    """One RAGFlow, as one event loop calls it; every method is one attempt."""

    def __init__(self, client: HttpClient, *, address: str, key: Secret, timeout_s: float) -> None:
        self._client = client
        self._address = address.rstrip("/")
        self._key = key
        self._timeouts = Timeouts(connect_s=min(CONNECT_S, timeout_s), read_s=timeout_s, total_s=timeout_s)

    async def find_dataset(self, name: str) -> str | None:
        """The id of the dataset of this name; None when there is none.

        Raises:
            Failure: RAG_UNAVAILABLE.
        """
        found = await self._ask("GET", f"/datasets?{urlencode({'name': name})}", absent=True)
        return next((str(one["id"]) for one in _rows(found) if one.get("name") == name), None)

    async def create_dataset(self, name: str) -> str | None:
        """Make a dataset and tell its id; None when the name has been taken meanwhile.

        Raises:
            Failure: RAG_UNAVAILABLE.
        """
        made = await self._ask("POST", "/datasets", json={"name": name}, absent=True)
        return str(made["id"]) if isinstance(made, dict) and made.get("id") else None

    async def documents(self, dataset_id: str, beginning: str) -> list[Document]:
        """The documents whose names begin so, oldest first.

        Raises:
            Failure: RAG_UNAVAILABLE.
        """
        query = urlencode({"keywords": beginning, "page": 1, "page_size": PAGE_ROWS})
        found = await self._ask("GET", f"/datasets/{quote(dataset_id, safe='')}/documents?{query}", absent=True)
        rows = _rows(found.get("docs") if isinstance(found, dict) else None)
        ours = [_document(row) for row in rows if str(row.get("name", "")).startswith(beginning)]
        return sorted(ours, key=lambda one: (one.created, one.id))

    async def upload(self, dataset_id: str, name: str, content: bytes, content_type: str) -> None:
        """Add a document.

        Raises:
            Failure: RAG_UNAVAILABLE; INGESTION_REFUSED when it does not take this file.
        """
        boundary = f"holdfast-{new_id()}"
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            f"Content-Type: {content_type}\r\n\r\n"
        )
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
        await self._ask("POST", f"/datasets/{quote(dataset_id, safe='')}/documents", body=body, headers=headers)

    async def delete(self, dataset_id: str, document_ids: list[str]) -> None:
        """Make sure that these documents are gone.

        Raises:
            Failure: RAG_UNAVAILABLE.
        """
        path = f"/datasets/{quote(dataset_id, safe='')}/documents"
        await self._ask("DELETE", path, json={"ids": document_ids}, absent=True)

    async def parse(self, dataset_id: str, document_id: str) -> None:
        """Let a document be parsed; RAGFlow goes on with it after it has answered.

        Raises:
            Failure: RAG_UNAVAILABLE.
        """
        # A document that is being parsed already is not a failure: the next look tells how far it is.
        path = f"/datasets/{quote(dataset_id, safe='')}/chunks"
        await self._ask("POST", path, json={"document_ids": [document_id]}, absent=True)

    async def retrieve(self, dataset_id: str, question: str, *, count: int) -> list[Chunk]:
        """The pieces that fit the question best.

        Raises:
            Failure: RAG_UNAVAILABLE.
        """
        asked = {"question": question, "dataset_ids": [dataset_id], "page": 1, "page_size": count}
        found = await self._ask("POST", "/retrieval", json=asked, absent=True)
        rows = _rows(found.get("chunks") if isinstance(found, dict) else None)
        return [_chunk(row) for row in rows[:count]]

    async def _ask(self, method: str, path: str, *, absent: bool = False, **given: Any) -> Any:
        """The data of the answer.

        Args:
            absent: a refusal because of data means that there is none.
        """
        if not self._address:
            raise RAG_UNAVAILABLE(reason="not_configured")
        headers = {"authorization": f"Bearer {self._key.reveal()}", **given.pop("headers", {})}
        url = f"{self._address}{API}{path}"
        try:
            reply = await self._client.send(
                method, url, headers=headers, timeouts=self._timeouts, body_bytes_max=ANSWER_BYTES_MAX, **given
            )
            said = reply.json() if reply.status < 500 else None
        except Failure as failed:
            raise RAG_UNAVAILABLE(reason=failed.code.lower()) from failed
        return self._data(reply, said, absent=absent)

    @staticmethod
    def _data(reply: Reply, said: Any, *, absent: bool) -> Any:
        if reply.status >= 500 or reply.status == 429:
            raise RAG_UNAVAILABLE(
                retry_after_s=reply.retry_after_s, reason=f"http_{reply.status}", **{STATUS: reply.status}
            )
        code = said.get("code") if isinstance(said, dict) else None
        if reply.ok and code == OK:
            return said.get("data")
        if code in (ARGUMENT_ERROR, DATA_ERROR):
            if absent:
                return None
            raise INGESTION_REFUSED(rag_code=code)
        raise RAG_UNAVAILABLE(reason=f"code_{code}" if isinstance(code, int) else "unreadable_answer")


def _rows(found: Any) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _document(row: dict[str, Any]) -> Document:
    created = row.get("create_time")
    return Document(
        str(row.get("id")), str(row.get("name")), str(row.get("run")), created if isinstance(created, int) else 0
    )


def _chunk(row: dict[str, Any]) -> Chunk:
    score = row.get("similarity")
    name = row.get("document_keyword") or row.get("document_name") or ""
    return Chunk(str(row.get("content", "")), str(name), float(score) if isinstance(score, int | float) else 0.0)
