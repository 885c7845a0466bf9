"""Ingestions: sections 3.8, 4 and 6.4 of the rules, over real HTTP, with one document for each upload."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.artifact import Artifacts
from holdfast.base import Secret
from holdfast.http import HttpClient
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, QueueSettings, Worker
from holdfast_systems.commerce.control_plane.ingestion import Ingestions, Links, document_name
from holdfast_systems.commerce.control_plane.rag import Ragflow
from holdfast_systems.commerce.control_plane.storage import Announced, Storage
from holdfast_systems.commerce.control_plane.uploads import INGEST, QUEUE
from holdfast_systems.commerce.settings import Settings
from holdfast_systems.commerce.standins.ragflow import KEY

from .knowledge_scene import Rag, ask, ingest, instance_of, knowledge, ragflow, state, upload, wait_status
from .live import PATIENCE_S, Live
from .shop import PLANE, code


@pytest.fixture
def rag() -> Iterator[Rag]:
    with ragflow() as rag:
        yield rag


@pytest.fixture
def live(store: Store, tmp_path: Path, rag: Rag) -> Iterator[Live]:
    with knowledge(store, tmp_path / "commerce", rag) as live:
        yield live


def begun(live: Live, instance: str, **given: bytes | str) -> str:
    made = ingest(live, instance, upload(live, instance, **given))  # type: ignore[arg-type]
    assert made.status_code == 202, made.text
    return str(made.json()["ingestionId"])


def test_3_8_an_upload_becomes_one_parsed_document_that_answers_questions(live: Live, rag: Rag) -> None:
    instance = instance_of(live)
    assert ask(live, instance).json() == {"chunks": []}
    done = wait_status(live, begun(live, instance), "COMPLETED")
    assert (done["attempts"], done["code"], done["nextAttemptAt"]) == (1, None, None)
    (document,) = rag.standin.documents()
    assert document.name == f"{done['uploadId']}-notes.txt"
    (chunk,) = ask(live, instance).json()["chunks"]
    assert "Oslo is in Norway" in chunk["text"]
    assert live.get(PLANE, f"/instances/{instance}").json()["ragDatasetId"] in rag.standin.datasets


@pytest.mark.parametrize("status", [502, 503, 504])
def test_3_8_ragflow_is_retried_up_to_three_times(live: Live, rag: Rag, status: int) -> None:
    instance = instance_of(live)
    upload_id = upload(live, instance)
    rag.app.faults.switch(status=status, times=3)
    done = wait_status(live, ingest(live, instance, upload_id).json()["ingestionId"], "COMPLETED")
    assert (done["attempts"], rag.app.faults.met) == (1, 3)


@pytest.mark.parametrize("fault", [{"status": 503}, {"status": 500}, {"reset": True}, {"garbage": True}])
def test_3_8_while_ragflow_is_down_an_ingestion_is_retry_pending_and_goes_on_later(
    live: Live, rag: Rag, fault: dict[str, object]
) -> None:
    instance = instance_of(live)
    upload_id = upload(live, instance)
    rag.app.faults.switch(**fault)
    ingestion = ingest(live, instance, upload_id).json()["ingestionId"]
    waiting = wait_status(live, ingestion, "RETRY_PENDING")
    assert (waiting["code"], waiting["nextAttemptAt"] is not None) == ("RAG_UNAVAILABLE", True)
    listed = live.get(PLANE, f"/instances/{instance}/ingestions").json()["ingestions"]
    assert [one["ingestionId"] for one in listed] == [ingestion]
    rag.app.faults.clear()
    assert wait_status(live, ingestion, "COMPLETED")["attempts"] > 1
    assert len(rag.standin.documents()) == 1


def test_3_8_other_statuses_are_not_retried_at_once(live: Live, rag: Rag) -> None:
    instance = instance_of(live)
    upload_id = upload(live, instance)
    rag.app.faults.switch(status=500, times=1)
    done = wait_status(live, ingest(live, instance, upload_id).json()["ingestionId"], "COMPLETED")
    assert (done["attempts"], rag.app.faults.met) == (2, 1)


def test_3_8_an_ingestion_that_gets_no_further_fails_when_its_time_is_up(
    store: Store, tmp_path: Path, rag: Rag
) -> None:
    with knowledge(store, tmp_path / "commerce", rag, ingestion_total_s="0.5") as live:
        instance = instance_of(live)
        upload_id = upload(live, instance)
        rag.app.faults.switch(status=500)
        failed = wait_status(live, ingest(live, instance, upload_id).json()["ingestionId"], "FAILED")
        assert failed["code"] == "INGESTION_EXPIRED"
        assert failed["nextAttemptAt"] is None


def test_3_8_an_error_that_arrives_as_200_is_an_error(live: Live, rag: Rag) -> None:
    instance = instance_of(live)
    refused = wait_status(live, begun(live, instance, name="program.exe"), "FAILED")
    assert (refused["code"], rag.standin.documents()) == ("INGESTION_REFUSED", [])


def test_3_8_a_document_that_cannot_be_parsed_is_tried_again(live: Live, rag: Rag) -> None:
    ingestion = begun(live, instance_of(live), name="unparsable.txt")
    wait_until(lambda: state(live, ingestion)["attempts"] >= 3, within_s=PATIENCE_S, what="it was tried again")
    assert state(live, ingestion)["status"] in ("RETRY_PENDING", "PROCESSING")
    (document,) = rag.standin.documents()
    document.name = document.name.replace("unparsable", "fine")
    assert wait_status(live, ingestion, "COMPLETED")["code"] is None


def test_a_wrong_key_is_shown_and_waits_for_the_operator(store: Store, tmp_path: Path, rag: Rag) -> None:
    with knowledge(store, tmp_path / "commerce", rag, ragflow_key="another key") as live:
        ingestion = begun(live, instance_of(live))
        assert wait_status(live, ingestion, "RETRY_PENDING")["code"] == "RAG_UNAVAILABLE"
        assert "Authentication" not in live.get(PLANE, f"/ingestions/{ingestion}").text
    assert KEY.reveal() != "another key"


def test_an_upload_is_ingested_once_however_often_it_is_asked_for(live: Live, rag: Rag) -> None:
    instance = instance_of(live)
    upload_id = upload(live, instance)
    asked = [ingest(live, instance, upload_id) for _ in range(3)]
    assert [reply.status_code for reply in asked] == [202, 200, 200]
    assert len({reply.json()["ingestionId"] for reply in asked}) == 1
    wait_status(live, asked[0].json()["ingestionId"], "COMPLETED")
    assert ingest(live, instance, upload_id).json()["status"] == "COMPLETED"
    assert len(rag.standin.documents()) == 1


def test_an_upload_whose_reply_was_lost_is_found_again(live: Live, rag: Rag) -> None:
    """RAGFlow took the document, and a gateway in front of it answered 504."""
    instance = instance_of(live)
    answers, lost = rag.app.app, []

    async def losing(scope: object, receive: object, send: object) -> None:
        given: dict[str, object] = scope  # type: ignore[assignment]
        if given["method"] != "POST" or not str(given["path"]).endswith("/documents") or len(lost) >= 2:
            return await answers(scope, receive, send)  # type: ignore[arg-type]
        lost.append(given["path"])

        async def swallow(message: object) -> None:
            return None

        await answers(scope, receive, swallow)  # type: ignore[arg-type]
        head = {"type": "http.response.start", "status": 504, "headers": [(b"content-length", b"0")]}
        await send(head)  # type: ignore[operator]
        return await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]

    rag.app.app = losing
    done = wait_status(live, begun(live, instance), "COMPLETED")
    assert (len(lost), done["attempts"]) == (1, 1)
    assert len(rag.standin.documents()) == 1
    assert rag.standin.calls["upload"] == 1


def test_a_second_document_of_one_upload_is_removed(live: Live, rag: Rag) -> None:
    """A request that was given up for lost arrives after the one that replaced it."""
    instance = instance_of(live)
    done = wait_status(live, begun(live, instance), "COMPLETED")
    (dataset,) = rag.standin.datasets.values()
    (first,) = dataset.documents.values()
    upload_id = upload(live, instance, content=b"another text", name="more.txt")
    for number in range(2):
        copy = type(first)(f"doc{number}", document_name(upload_id, "more.txt"), b"another text", number + 1)
        dataset.documents[copy.id] = copy
    wait_status(live, ingest(live, instance, upload_id).json()["ingestionId"], "COMPLETED")
    names = sorted(one.name for one in rag.standin.documents())
    assert names == sorted([document_name(done["uploadId"], "notes.txt"), document_name(upload_id, "more.txt")])
    assert "doc0" in dataset.documents


def test_4_the_defaults_are_60_s_for_ingestion_and_10_s_for_a_question() -> None:
    links = Links(Settings())
    assert (links.ingest.timeout_s, links.query.timeout_s) == (60.0, 10.0)


def test_4_a_ragflow_that_hangs_is_given_up_in_time(store: Store, tmp_path: Path, rag: Rag) -> None:
    times = {"rag_query_timeout_s": "0.3", "rag_ingest_timeout_s": "0.3"}
    with knowledge(store, tmp_path / "commerce", rag, **times) as live:
        instance = instance_of(live)
        wait_status(live, begun(live, instance), "COMPLETED")
        second = upload(live, instance)
        rag.app.faults.switch(hang=True)
        assert code(ask(live, instance)) == (503, "RAG_UNAVAILABLE")
        ingestion = ingest(live, instance, second).json()["ingestionId"]
        assert wait_status(live, ingestion, "RETRY_PENDING")["code"] == "RAG_UNAVAILABLE"
        rag.app.faults.clear()
        wait_status(live, ingestion, "COMPLETED")
        assert len(rag.standin.documents()) == 2


class Slow(Storage):
    """A storage that takes for ever to read a file."""

    async def read(self, file: Announced) -> bytes:
        await asyncio.Event().wait()
        return b""


def test_4_a_step_that_takes_longer_than_its_link_allows_is_tried_later(store: Store, tmp_path: Path, rag: Rag) -> None:
    """The whole step is late, though no request to RAGFlow is."""
    with knowledge(store, tmp_path / "commerce", rag, worker=False) as live:
        ingestion = begun(live, instance_of(live))
        settings = Settings(rag_ingest_timeout_s=2.0)
        storage = Slow(Artifacts.open("memory://"), address="", secret=Secret(""))

        def ragflow_of(client: HttpClient) -> Ragflow:
            return Ragflow(client, address=rag.url, key=KEY, timeout_s=2.0)

        handlers = Handlers()
        handlers.serve(QueueSettings(QUEUE))
        handlers.handle(INGEST)(Ingestions(store, storage, ragflow_of, Links(settings), settings).work)
        worker = Worker(store, handlers)
        worker.start()
        try:
            assert wait_status(live, ingestion, "RETRY_PENDING", "FAILED")["code"] == "RAG_UNAVAILABLE"
        finally:
            worker.stop()
            worker.join()
            storage.close()


@pytest.mark.parametrize("fault", [{"status": 503}, {"reset": True}, {"garbage": True}, {"status": 404}])
def test_6_4_ragflow_down_means_rag_unavailable_for_questions(live: Live, rag: Rag, fault: dict[str, object]) -> None:
    instance = instance_of(live)
    wait_status(live, begun(live, instance), "COMPLETED")
    rag.app.faults.switch(**fault)
    refused = ask(live, instance)
    assert code(refused) == (503, "RAG_UNAVAILABLE")
    assert "stand-in" not in refused.text
    rag.app.faults.clear()
    assert len(ask(live, instance).json()["chunks"]) == 1


def test_without_the_capability_there_is_no_knowledge_base(live: Live) -> None:
    instance = instance_of(live)
    upload_id = upload(live, instance)
    taken = live.put(PLANE, f"/instances/{instance}/entitlements", {"overrides": {"rag": False}})
    assert taken.status_code == 200, taken.text
    for refused in (ask(live, instance), ingest(live, instance, upload_id)):
        assert code(refused) == (403, "NOT_ENTITLED")


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("notes.txt", "u-notes.txt"),
        ('a"b\r\nX: y.pdf', "u-a_b_X_y.pdf"),
        ("../../etc/passwd", "u-passwd"),
        ("Größe.TXT", "u-Gr_e.txt"),
        (".hidden", "u-hidden"),
        ("x" * 300 + ".md", f"u-{'x' * 60}.md"),
    ],
)
def test_the_name_of_a_document_cannot_break_a_header(filename: str, name: str) -> None:
    assert document_name("u", filename) == name
