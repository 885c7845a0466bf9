"""Uploads: sections 3.8 and 6.5 of the rules, on local disk and on a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from holdfast.base import now_us
from holdfast.store import Store
from holdfast.testing import FaultProxy
from holdfast.testing.processes import wait_until
from holdfast.testing.s3 import S3Address, s3_server

from .knowledge_scene import (
    TEXT,
    Rag,
    announce,
    ingest,
    instance_of,
    knowledge,
    ragflow,
    send,
    state,
    upload,
    wait_status,
)
from .live import OPERATOR, PATIENCE_S, SERVICE, Live
from .shop import PLANE, code


@pytest.fixture
def rag() -> Iterator[Rag]:
    with ragflow() as rag:
        yield rag


@pytest.fixture(params=["disk", "s3"])
def live(request: pytest.FixtureRequest, store: Store, tmp_path: Path, rag: Rag) -> Iterator[Live]:
    """The control plane with uploads on local disk, and on S3."""
    place = {"artifacts": request.getfixturevalue("s3_url")} if request.param == "s3" else {}
    with knowledge(store, tmp_path / "commerce", rag, **place) as live:
        yield live


@pytest.fixture
def on_disk(store: Store, tmp_path: Path, rag: Rag) -> Iterator[Live]:
    with knowledge(store, tmp_path / "commerce", rag) as live:
        yield live


def content(live: Live, instance: str, upload_id: str, **given: Any) -> httpx.Response:
    return live.get(PLANE, f"/instances/{instance}/uploads/{upload_id}/content", **given)


def test_3_8_a_client_sends_its_file_to_the_storage_and_has_it_ingested(live: Live, rag: Rag) -> None:
    instance = instance_of(live)
    told = announce(live, instance).json()
    assert told["method"] == "PUT"
    assert code(ingest(live, instance, told["uploadId"])) == (409, "UPLOAD_INCOMPLETE")
    assert send(live, told, TEXT).is_success
    wait_status(live, ingest(live, instance, told["uploadId"]).json()["ingestionId"], "COMPLETED")
    assert [one.content for one in rag.standin.documents()] == [TEXT]
    read = content(live, instance, told["uploadId"])
    assert (read.content, read.headers["content-type"]) == (TEXT, "text/plain; charset=utf-8")
    assert read.headers["content-disposition"] == "attachment"


@pytest.mark.parametrize("wrong", [TEXT + b"!", TEXT[:-1], b""])
def test_3_8_another_size_than_announced_is_refused(live: Live, wrong: bytes) -> None:
    instance = instance_of(live)
    told = announce(live, instance).json()
    own = {"Content-Length": str(len(wrong))} if "Content-Length" in told["headers"] else {}
    assert 400 <= send(live, told, wrong, **own).status_code < 500
    assert code(ingest(live, instance, told["uploadId"])) == (409, "UPLOAD_INCOMPLETE")
    assert send(live, told, TEXT).is_success


def test_3_8_another_type_or_a_changed_address_is_refused(live: Live) -> None:
    instance = instance_of(live)
    told = announce(live, instance).json()
    assert 400 <= send(live, told, TEXT, **{"Content-Type": "text/html"}).status_code < 500
    other = announce(live, instance).json()
    forged = {**told, "url": told["url"].replace(told["uploadId"], other["uploadId"])}
    assert send(live, forged, TEXT).status_code == 403
    for changed in ("signature=", "X-Amz-Signature="):
        if changed in told["url"]:
            url = told["url"].replace(changed, changed + "0")
            assert send(live, {**told, "url": url}, TEXT).status_code == 403
    assert code(ingest(live, instance, other["uploadId"])) == (409, "UPLOAD_INCOMPLETE")


def test_3_8_what_was_sent_cannot_be_replaced(live: Live) -> None:
    instance = instance_of(live)
    told = announce(live, instance).json()
    assert send(live, told, TEXT).is_success
    assert send(live, told, TEXT[::-1]).status_code in (409, 412)
    assert content(live, instance, told["uploadId"]).content == TEXT


def test_3_8_an_address_is_over_after_its_time(store: Store, tmp_path: Path, rag: Rag) -> None:
    with knowledge(store, tmp_path / "commerce", rag, upload_s="1") as live:
        told = announce(live, instance_of(live)).json()
        expires_us = int(parse_qs(urlsplit(told["url"]).query)["expires"][0])
        wait_until(lambda: now_us() > expires_us, within_s=PATIENCE_S, what="the address is over")
        assert code(send(live, told, TEXT)) == (403, "UPLOAD_EXPIRED")
        longer = told["url"].replace(f"expires={expires_us}", f"expires={expires_us + 60_000_000}")
        assert code(send(live, {**told, "url": longer}, TEXT)) == (403, "UPLOAD_EXPIRED")


def test_a_token_does_not_replace_the_signature(on_disk: Live) -> None:
    told = announce(on_disk, instance_of(on_disk)).json()
    bare = {**told, "url": told["url"].partition("?")[0]}
    for token in ({}, OPERATOR, SERVICE):
        assert code(send(on_disk, bare, TEXT, **token)) == (403, "UPLOAD_EXPIRED")


def test_a_body_in_pieces_is_counted_too(on_disk: Live) -> None:
    instance = instance_of(on_disk)
    told = announce(on_disk, instance).json()

    def pieces(body: bytes) -> Iterator[bytes]:
        yield from (body[start : start + 7] for start in range(0, len(body), 7))

    for wrong in (TEXT * 2, TEXT[:-3]):
        refused = on_disk.http.put(told["url"], content=pieces(wrong), headers=told["headers"])
        assert code(refused) == (400, "UPLOAD_MISMATCH")
    assert on_disk.http.put(told["url"], content=pieces(TEXT), headers=told["headers"]).is_success
    assert content(on_disk, instance, told["uploadId"]).content == TEXT


@pytest.mark.parametrize(
    "said",
    [
        {"filename": "", "contentType": "text/plain", "size": 1},
        {"filename": "a", "contentType": "text", "size": 1},
        {"filename": "a", "contentType": "text/plain\r\nX: y", "size": 1},
        {"filename": "a\nb", "contentType": "text/plain", "size": 1},
        {"filename": "a", "contentType": "text/plain", "size": 0},
        {"filename": "a", "contentType": "text/plain", "size": "1"},
        {"filename": "a", "contentType": "text/plain"},
        {"filename": "a", "contentType": "text/plain", "size": 1, "more": 1},
    ],
)
def test_a_file_that_cannot_be_meant_is_a_400(on_disk: Live, said: dict[str, object]) -> None:
    refused = on_disk.post(PLANE, f"/instances/{instance_of(on_disk)}/uploads", said)
    assert code(refused) == (400, "INVALID_REQUEST")


def test_a_file_that_is_too_large_is_not_taken(store: Store, tmp_path: Path, rag: Rag) -> None:
    with knowledge(store, tmp_path / "commerce", rag, upload_bytes_max="10") as live:
        assert code(announce(live, instance_of(live))) == (400, "UPLOAD_MISMATCH")


def test_an_instance_has_a_bounded_number_of_files(store: Store, tmp_path: Path, rag: Rag) -> None:
    with knowledge(store, tmp_path / "commerce", rag, uploads_max="2") as live:
        first, second = instance_of(live), instance_of(live, "u2", "O2")
        assert [announce(live, first).status_code for _ in range(3)] == [201, 201, 403]
        assert code(announce(live, first)) == (403, "UPLOADS_EXCEEDED")
        assert announce(live, second).status_code == 201


def test_6_5_without_the_object_store_uploads_and_reads_are_503(
    store: Store, tmp_path: Path, rag: Rag, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ExitStack() as server:
        s3 = server.enter_context(s3_server(tmp_path_factory.mktemp("own-s3")))
        s3.create_bucket("own")
        with knowledge(store, tmp_path / "commerce", rag, artifacts=s3.url("own", "p")) as live:
            instance = instance_of(live)
            first, second = upload(live, instance), upload(live, instance)
            wait_status(live, ingest(live, instance, first).json()["ingestionId"], "COMPLETED")
            server.close()
            for refused in (announce(live, instance), content(live, instance, first), ingest(live, instance, second)):
                assert code(refused) == (503, "STORAGE_UNAVAILABLE")
                assert "own" not in refused.json()["error"]["message"]


def test_6_5_an_ingestion_waits_for_the_object_store(
    store: Store, tmp_path: Path, rag: Rag, s3: S3Address, s3_bucket: str
) -> None:
    with FaultProxy(s3.port) as proxy:
        place = s3.url(s3_bucket, "waits").replace(f":{s3.port}", f":{proxy.port}")
        with knowledge(store, tmp_path / "commerce", rag, artifacts=f"{place}&timeout_s=2") as live:
            instance = instance_of(live)
            upload_id = upload(live, instance)
            rag.app.faults.switch(status=500)
            ingestion = ingest(live, instance, upload_id).json()["ingestionId"]
            wait_status(live, ingestion, "RETRY_PENDING")
            proxy.set(refuse=True)
            proxy.reset_connections()
            rag.app.faults.clear()
            wait_until(
                lambda: state(live, ingestion)["code"] == "STORAGE_UNAVAILABLE", within_s=PATIENCE_S, what="it waits"
            )
            assert rag.standin.documents() == []
            proxy.heal()
            wait_status(live, ingestion, "COMPLETED")
            assert len(rag.standin.documents()) == 1
