"""The control plane with a RAGFlow of the test's own, whose documents the test can count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from holdfast.store import Store
from holdfast.testing import Faulty
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until
from holdfast_systems.commerce.standins.ragflow import KEY, RagflowStandIn

from .live import PATIENCE_S, Live, on_server, running
from .shop import PLANE, bought

TEXT = b"Holdfast keeps its promises. Credits are whole numbers. Oslo is in Norway."
QUICK = {
    "ingestion_poll_s": "0.01",
    "ingestion_retry_s": "0.05",
    "ingestion_retry_max_s": "0.2",
}


@dataclass
class Rag:
    """A RAGFlow on loopback."""

    standin: RagflowStandIn
    app: Faulty
    url: str

    @property
    def settings(self) -> dict[str, str]:
        return {"ragflow_url": self.url, "ragflow_key": KEY.reveal()}


@contextmanager
def ragflow() -> Iterator[Rag]:
    """A RAGFlow that outlives whatever the test kills."""
    standin, listener = RagflowStandIn(), listening_socket()
    app = standin.app()
    with on_server(app, listener):
        yield Rag(standin, app, f"http://127.0.0.1:{listener.getsockname()[1]}")


@contextmanager
def knowledge(store: Store, folder: Path, rag: Rag, *, worker: bool = True, **settings: str) -> Iterator[Live]:
    """The services and a worker, at this RAGFlow."""
    with running(store, folder, worker=worker, **{**QUICK, **rag.settings, **settings}) as live:
        yield live


def instance_of(live: Live, user: str = "u1", order: str = "O1") -> str:
    return str(bought(live, user=user, order=order)["instanceId"])


def announce(live: Live, instance: str, content: bytes = TEXT, name: str = "notes.txt", **given: Any) -> httpx.Response:
    body = {"filename": name, "contentType": "text/plain", "size": len(content)}
    return live.post(PLANE, f"/instances/{instance}/uploads", body, **given)


def upload(live: Live, instance: str, content: bytes = TEXT, name: str = "notes.txt") -> str:
    """The id of an upload whose file has arrived."""
    told = announce(live, instance, content, name)
    assert told.status_code == 201, told.text
    sent = send(live, told.json(), content)
    assert sent.is_success, sent.text
    return str(told.json()["uploadId"])


def send(live: Live, told: dict[str, Any], content: bytes, **headers: str) -> httpx.Response:
    """Send a file as the answer says, without any token."""
    return live.http.put(told["url"], content=content, headers={**told["headers"], **headers})


def ingest(live: Live, instance: str, upload_id: str, **given: Any) -> httpx.Response:
    return live.post(PLANE, f"/instances/{instance}/ingestions", {"uploadId": upload_id}, **given)


def state(live: Live, ingestion: str) -> dict[str, Any]:
    return dict(live.get(PLANE, f"/ingestions/{ingestion}").json())


def wait_status(live: Live, ingestion: str, *statuses: str) -> dict[str, Any]:
    wait_until(
        lambda: state(live, ingestion)["status"] in statuses, within_s=PATIENCE_S, what=f"{ingestion} is {statuses}"
    )
    return state(live, ingestion)


def ask(live: Live, instance: str, question: str = "Where is Oslo?", **given: Any) -> httpx.Response:
    return live.post(PLANE, f"/instances/{instance}/retrieval", {"question": question}, **given)
