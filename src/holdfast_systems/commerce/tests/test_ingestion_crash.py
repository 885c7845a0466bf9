"""kill -9 of the worker around every call to RAGFlow: the upload is one document, in one dataset, in the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs
from holdfast_systems.commerce.control_plane.uploads import INGEST, QUEUE

from .knowledge_scene import QUICK, Rag, ask, ingest, instance_of, ragflow, state, upload, wait_status
from .live import PATIENCE_S, Live, running

PROGRAM = "holdfast_systems.commerce.tests.programs.ingestion_worker"
DATASETS, DOCUMENTS = "/api/v1/datasets", "/documents"
BOUNDARIES = (
    ("POST", DATASETS, "before"),
    ("POST", DATASETS, "after"),
    ("POST", DOCUMENTS, "before"),
    ("POST", DOCUMENTS, "after"),
    ("POST", "/chunks", "before"),
    ("POST", "/chunks", "after"),
    ("GET", DOCUMENTS, "after"),
)
"""Which request meets the kill, and whether RAGFlow has done what it asks for."""


class Killing:
    """RAGFlow, which kills its caller at the next boundary."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.boundary: tuple[str, str, str] | None = None
        self.caller: subprocess.Popen[bytes] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        boundary = self.boundary
        if boundary is None or scope["method"] != boundary[0] or not scope["path"].endswith(boundary[1]):
            return await self.app(scope, receive, send)
        self.boundary = None

        async def swallow(_: Any) -> None:
            return None

        if boundary[2] == "after":
            await self.app(scope, receive, swallow)
        assert self.caller is not None
        self.caller.send_signal(signal.SIGKILL)
        self.caller.wait()
        return None


@contextmanager
def worker(database: str, folder: Path, settings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, database, json.dumps(settings)],
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def rag() -> Iterator[Rag]:
    with ragflow() as rag:
        yield rag


def completed(live: Live, ingestion: str, folder: Path) -> None:
    try:
        wait_status(live, ingestion, "COMPLETED")
    except TimeoutError:
        jobs = [dict(one) for one in Jobs(live.store).list(queue=QUEUE)] if live.store else []
        log = (folder / "worker.log").read_text()[-3_000:]
        raise AssertionError(f"{state(live, ingestion)}\n{jobs}\n{log}") from None


@pytest.mark.timeout(600)
@pytest.mark.flaky(reruns=0)
def test_one_upload_is_one_document_through_kills_at_every_boundary(
    store: Store, database_url: str, tmp_path: Path, rag: Rag
) -> None:
    settings = {**QUICK, **rag.settings, "artifacts": str(tmp_path / "files")}
    killing = Killing(rag.app.app)
    rag.app.app = killing
    with running(store, tmp_path / "commerce", worker=False, **settings) as live:
        waiting = ""
        for number, boundary in enumerate(BOUNDARIES):
            # Each worker ends what the one before it left, and dies of the next ingestion.
            with worker(database_url, tmp_path, settings) as process:
                if waiting:
                    completed(live, waiting, tmp_path)
                killing.caller, killing.boundary = process, boundary
                instance = instance_of(live, order=f"O{number}")
                waiting = ingest(live, instance, upload(live, instance)).json()["ingestionId"]
                wait_until(lambda one=process: one.poll() is not None, within_s=PATIENCE_S, what=f"{boundary} is met")  # type: ignore[misc]
                assert (process.returncode, killing.boundary) == (-signal.SIGKILL, None)
            assert state(live, waiting)["status"] == "PROCESSING"
        with worker(database_url, tmp_path, settings):
            completed(live, waiting, tmp_path)
        assert len(rag.standin.datasets) == len(rag.standin.documents()) == len(BOUNDARIES)
        assert rag.standin.calls["upload"] == len(BOUNDARIES)
        assert all(len(dataset.documents) == 1 for dataset in rag.standin.datasets.values())
        assert len(ask(live, instance).json()["chunks"]) == 1


def test_a_job_that_is_done_again_after_its_end_changes_nothing(store: Store, tmp_path: Path, rag: Rag) -> None:
    """At least once is what a queue promises: the same ingestion by two jobs is one document."""
    with running(store, tmp_path / "commerce", **QUICK, **rag.settings) as live:
        instance = instance_of(live)
        ingestion = ingest(live, instance, upload(live, instance)).json()["ingestionId"]
        jobs = Jobs(store)
        made = [jobs.enqueue(INGEST, {"ingestionId": ingestion}, queue=QUEUE) for _ in range(3)]
        done = wait_status(live, ingestion, "COMPLETED")
        for one in made:
            jobs.wait(one.id, timeout_s=PATIENCE_S)
        assert state(live, ingestion) == done
        assert len(rag.standin.documents()) == 1
        jobs.close()
