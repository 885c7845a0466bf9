"""A stand-in for RAGFlow's HTTP API: datasets, documents, parsing and retrieval, in memory.

As with the real service, an error arrives with status 200 and a `code` that is not 0, a document whose name is taken
gets another name, and parsing goes on after the request for it was answered. A document with `unparsable` in its name
fails to be parsed; a file type that is not supported is refused with code 102.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any

from python_multipart import FormParser
from python_multipart.multipart import parse_options_header

from holdfast.base import Json, Secret, encode, new_id, now_us
from holdfast.testing import Faulty
from holdfast_systems.commerce.standins.json_service import Answer, Asked, JsonService

KEY = Secret("stand-in")
"""What the stand-in takes as an API key."""
OK, DATA_ERROR, AUTHENTICATION_ERROR = 0, 102, 109
SUFFIXES = {".txt", ".md", ".csv", ".json", ".html", ".pdf", ".docx"}
PAGE_ROWS_MAX = 1_024
CHUNK_CHARS = 600
TOP_K = 5
_WORD = re.compile(r"\w+")
_DOCUMENTS = r"/api/v1/datasets/([^/]+)/documents"


@dataclass(slots=True)
class Document:
    """One uploaded file, and how far its parsing is."""

    id: str
    name: str
    content: bytes
    created_us: int
    run: str = "UNSTART"
    looks: int = 0
    chunks: list[str] = field(default_factory=list)

    def shown(self) -> dict[str, Json]:
        """As the API tells it. Each look at a running one brings it nearer to its end."""
        if self.run == "RUNNING":
            self.looks += 1
            if self.looks > 1:
                self._end()
        done = self.run == "DONE"
        return {
            "id": self.id,
            "name": self.name,
            "size": len(self.content),
            "run": self.run,
            "progress": 1.0 if done else -1.0 if self.run == "FAIL" else 0.5 if self.run == "RUNNING" else 0.0,
            "progress_msg": "",
            "chunk_count": len(self.chunks),
            "create_time": self.created_us // 1_000,
        }

    def _end(self) -> None:
        if "unparsable" in self.name:
            self.run = "FAIL"
            return
        text = self.content.decode("utf-8", "replace")
        self.chunks = [text[start : start + CHUNK_CHARS] for start in range(0, len(text), CHUNK_CHARS)]
        self.run = "DONE"


@dataclass(slots=True)
class Dataset:
    """A named collection of documents."""

    id: str
    name: str
    documents: dict[str, Document] = field(default_factory=dict)


class RagflowStandIn:
    """The datasets, and an ASGI application in front of them."""

    def __init__(self, *, key: Secret = KEY) -> None:
        self._key = key
        self.datasets: dict[str, Dataset] = {}
        self.calls: Counter[str] = Counter()
        """How often each operation was done, faults not counted."""

    def app(self) -> Faulty:
        """The service with switches for its faults."""
        service = JsonService(
            [
                ("GET", "/api/v1/datasets", self._keyed(self._list_datasets)),
                ("POST", "/api/v1/datasets", self._keyed(self._create)),
                ("GET", _DOCUMENTS, self._keyed(self._list_documents)),
                ("POST", _DOCUMENTS, self._keyed(self._upload)),
                ("DELETE", _DOCUMENTS, self._keyed(self._delete)),
                ("POST", r"/api/v1/datasets/([^/]+)/chunks", self._keyed(self._parse)),
                ("POST", "/api/v1/retrieval", self._keyed(self._retrieve)),
            ],
            missing=(404, {"code": 404, "message": "Not Found"}),
        )
        return Faulty(service, words=_words)

    def documents(self) -> list[Document]:
        """Every document of every dataset."""
        return [one for dataset in self.datasets.values() for one in dataset.documents.values()]

    def _keyed(self, answer: Any) -> Any:
        def keyed(asked: Asked) -> Answer:
            if not self._key.matches(asked.bearer):
                return _error(AUTHENTICATION_ERROR, "Authentication error: API key is invalid!")
            self.calls[answer.__name__.strip("_")] += 1
            return answer(asked)  # type: ignore[no-any-return]

        return keyed

    def _list_datasets(self, asked: Asked) -> Answer:
        name = asked.query.get("name")
        found = [one for one in self.datasets.values() if name in (None, one.name)]
        if name is not None and not found:
            return _error(DATA_ERROR, f"You don't own the dataset {name}")
        return _data([{"id": one.id, "name": one.name, "document_count": len(one.documents)} for one in found])

    def _create(self, asked: Asked) -> Answer:
        name = str(asked.json.get("name") or "").strip()
        if not name or len(name) > 128:
            return _error(DATA_ERROR, "Field: <name> - Message: <String should have 1 to 128 characters>")
        if any(one.name == name for one in self.datasets.values()):
            return _error(DATA_ERROR, f"Dataset name '{name}' already exists")
        made = Dataset(_hex(), name)
        self.datasets[made.id] = made
        return _data({"id": made.id, "name": made.name})

    def _list_documents(self, asked: Asked) -> Answer:
        dataset = self.datasets.get(asked.parts[0])
        if dataset is None:
            return _error(DATA_ERROR, f"You don't own the dataset {asked.parts[0]}.")
        wanted, words = asked.query.get("id"), asked.query.get("keywords", "").lower()
        if wanted is not None and wanted not in dataset.documents:
            return _error(DATA_ERROR, f"You don't own the document {wanted}.")
        found = [one for one in dataset.documents.values() if wanted in (None, one.id) and words in one.name.lower()]
        shown: list[Json] = [one.shown() for one in found[:PAGE_ROWS_MAX]]
        return _data({"docs": shown, "total": len(found)})

    def _upload(self, asked: Asked) -> Answer:
        dataset = self.datasets.get(asked.parts[0])
        if dataset is None:
            return _error(DATA_ERROR, f"Can't find the dataset with ID {asked.parts[0]}!")
        files = _files(asked)
        if not files:
            return _error(101, "No file part!")
        made: list[Json] = []
        for name, content in files:
            if PurePosixPath(name).suffix.lower() not in SUFFIXES:
                return _error(DATA_ERROR, "This type of file has not been supported yet!")
            document = Document(_hex(), _free_name(dataset, name), content, now_us())
            dataset.documents[document.id] = document
            made.append(document.shown())
        return _data(made)

    def _delete(self, asked: Asked) -> Answer:
        dataset = self.datasets.get(asked.parts[0])
        if dataset is None:
            return _error(DATA_ERROR, f"You don't own the dataset {asked.parts[0]}.")
        for document_id in asked.json.get("ids") or []:
            dataset.documents.pop(str(document_id), None)
        return 200, {"code": OK}

    def _parse(self, asked: Asked) -> Answer:
        dataset = self.datasets.get(asked.parts[0])
        ids = asked.json.get("document_ids")
        if dataset is None:
            return _error(DATA_ERROR, f"You don't own the dataset {asked.parts[0]}.")
        if not isinstance(ids, list) or not ids:
            return _error(DATA_ERROR, "`document_ids` is required")
        documents = [dataset.documents.get(str(one)) for one in ids]
        if None in documents:
            return _error(DATA_ERROR, f"Documents not found: {ids}")
        for one in documents:
            if one is not None and one.run == "RUNNING":
                return _error(DATA_ERROR, "Can't parse document that is currently being processed")
            if one is not None:
                one.run, one.looks, one.chunks = "RUNNING", 0, []
        return 200, {"code": OK}

    def _retrieve(self, asked: Asked) -> Answer:
        question, ids = asked.json.get("question"), asked.json.get("dataset_ids")
        if not isinstance(question, str) or not isinstance(ids, list):
            return _error(DATA_ERROR, "`dataset_ids` and `question` are required.")
        if any(one not in self.datasets for one in ids):
            return _error(DATA_ERROR, f"You don't own the dataset {ids}.")
        wanted = set(_WORD.findall(question.lower()))
        scored: list[tuple[float, dict[str, Json]]] = []
        for dataset in (self.datasets[one] for one in ids):
            for document in dataset.documents.values():
                scored += [(_score(wanted, chunk), _chunk(dataset, document, chunk)) for chunk in document.chunks]
        best = sorted((one for one in scored if one[0] > 0), key=lambda one: -one[0])[:TOP_K]
        chunks: list[Json] = [{**chunk, "similarity": score} for score, chunk in best]
        return _data({"chunks": chunks, "doc_aggs": [], "total": len(chunks)})


def _files(asked: Asked) -> list[tuple[str, bytes]]:
    """The files of a multipart body."""
    kind, options = parse_options_header(asked.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or b"boundary" not in options:
        return []
    found: list[tuple[str, bytes]] = []

    def keep(file: Any) -> None:
        file.file_object.seek(0)
        found.append(((file.file_name or b"").decode("utf-8", "replace"), file.file_object.read()))

    parser = FormParser("multipart/form-data", lambda _: None, keep, boundary=options[b"boundary"])
    stream = BytesIO(asked.body)
    parser.write(stream.read())
    parser.finalize()
    parser.close()
    return found


def _free_name(dataset: Dataset, name: str) -> str:
    taken = {one.name for one in dataset.documents.values()}
    path, number = PurePosixPath(name), 0
    while name in taken:
        number += 1
        name = f"{path.stem}({number}){path.suffix}"
    return name


def _chunk(dataset: Dataset, document: Document, text: str) -> dict[str, Json]:
    return {"content": text, "document_id": document.id, "document_keyword": document.name, "kb_id": dataset.id}


def _score(wanted: set[str], chunk: str) -> float:
    return len(wanted & set(_WORD.findall(chunk.lower()))) / max(len(wanted), 1)


def _hex() -> str:
    return new_id().replace("-", "")


def _data(data: Json) -> Answer:
    return 200, {"code": OK, "data": data}


def _error(code: int, message: str) -> Answer:
    """Errors of the service come with status 200."""
    return 200, {"code": code, "data": None, "message": message}


def _words(status: int) -> tuple[str, bytes]:
    return "application/json", encode({"code": status, "message": "a switched fault of the stand-in"}).encode()
