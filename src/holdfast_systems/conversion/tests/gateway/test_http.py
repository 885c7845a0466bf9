"""The gateway over HTTP: what it takes, what it refuses and with which code, and that nothing stays behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.base import REAL
from holdfast.testing.processes import wait_until
from holdfast_systems.conversion.gateway import GATEWAY_FAULTS, Gateway
from holdfast_systems.conversion.gateway.app import MAPPINGS
from holdfast_systems.conversion.tests import pdfs


def post(client: httpx.Client, content: Any, mapping: str = "text", **headers: str) -> httpx.Response:
    return client.post("/convert", params={"mapping": mapping}, content=content, headers=headers)


def told(reply: httpx.Response) -> tuple[int, str]:
    error = reply.json()["error"]
    assert GATEWAY_FAULTS[error["code"]].status == reply.status_code
    assert error["traceId"]
    return reply.status_code, error["code"]


def cut(pdf: Callable[[], bytes], share: float) -> bytes:
    whole = pdf()
    return whole[: int(len(whole) * share)]


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_pdf_goes_in_and_valid_xml_comes_out(client: httpx.Client, valid: Any, mapping: str) -> None:
    replies = [post(client, pdfs.reportlab(), mapping) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [200, 200]
    assert replies[0].headers["content-type"] == "application/xml; charset=utf-8"
    assert valid(replies[0].content, mapping).get("pages") == "2"
    assert replies[0].content == replies[1].content


@pytest.mark.parametrize("mapping", ["text", "outline"])
def test_five_hundred_pages_are_converted_whole(client: httpx.Client, valid: Any, mapping: str) -> None:
    root = valid(post(client, pdfs.many_pages(500), mapping).content, mapping)
    assert root.get("pages") == "500"
    if mapping == "text":
        assert [p.text for p in root.iterfind("page/p")] == ["One page among many"] * 500


@pytest.mark.parametrize(
    ("made", "status", "code"),
    [
        pytest.param(lambda: b"", 415, "NOT_A_PDF", id="empty"),
        pytest.param(lambda: b"PK\x03\x04" + b"\0" * 5_000, 415, "NOT_A_PDF", id="a zip"),
        pytest.param(lambda: b"\0" * 2_000 + pdfs.reportlab(), 415, "NOT_A_PDF", id="begins too late"),
        pytest.param(lambda: b"%PDF-1.4\nstartxref\n0\n%%EOF", 400, "PDF_BROKEN", id="nothing inside"),
        pytest.param(partial(cut, pdfs.reportlab, 0.6), 400, "PDF_BROKEN", id="truncated"),
        pytest.param(partial(cut, pdfs.linearised, 0.9), 400, "PDF_BROKEN", id="truncated and linearised"),
        pytest.param(pdfs.without_pages, 400, "PDF_BROKEN", id="no pages"),
        pytest.param(pdfs.deep_page_tree, 400, "PDF_BROKEN", id="a page tree too deep"),
        pytest.param(pdfs.looping_page_tree, 400, "PDF_BROKEN", id="a page tree in a circle"),
        pytest.param(partial(pdfs.encrypted, "secret"), 415, "PDF_ENCRYPTED", id="a password, AES-256"),
        pytest.param(partial(pdfs.encrypted, "secret", strength=3), 415, "PDF_ENCRYPTED", id="a password, RC4"),
        pytest.param(partial(pdfs.many_pages, 601), 413, "TOO_MANY_PAGES", id="too many pages"),
    ],
)
def test_what_cannot_be_converted_is_refused_with_its_code(
    client: httpx.Client, made: Callable[[], bytes], status: int, code: str
) -> None:
    assert told(post(client, made())) == (status, code)


@pytest.mark.parametrize("query", ["", "?mapping=", "?mapping=xml", "?mapping=TEXT", "?mapping=text&mapping=text"])
def test_a_mapping_that_does_not_exist_is_not_acceptable(client: httpx.Client, query: str) -> None:
    reply = client.post(f"/convert{query}", content=pdfs.reportlab())
    assert told(reply) == (406, "UNSUPPORTED_MAPPING")
    assert reply.json()["error"]["message"] == "Unsupported mapping."
    assert reply.json()["error"]["details"]["supported"] == list(MAPPINGS)


def test_a_form_is_not_a_pdf(client: httpx.Client) -> None:
    reply = client.post("/convert?mapping=text", files={"file": pdfs.reportlab()})
    assert told(reply) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_packed_body_is_not_unpacked(client: httpx.Client) -> None:
    reply = post(client, pdfs.reportlab(), **{"content-encoding": "gzip"})
    assert told(reply) == (415, "UNSUPPORTED_MEDIA_TYPE")


def pieces(size: int) -> Iterator[bytes]:
    yield pdfs.reportlab()
    for _ in range(size // 65_536):
        yield b"\0" * 65_536


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("size", [3_000_000, 20_000_000])
def test_a_body_over_the_limit_is_refused_and_the_refusal_arrives(
    client: httpx.Client, announced: bool, size: int
) -> None:
    content = b"".join(pieces(size)) if announced else pieces(size)
    assert told(post(client, content)) == (413, "PAYLOAD_TOO_LARGE")
    assert post(client, pdfs.reportlab()).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/convert", 405), ("PUT", "/convert", 405), ("POST", "/health", 405), ("GET", "/", 404)],
)
def test_other_addresses_and_methods_are_refused(client: httpx.Client, method: str, path: str, status: int) -> None:
    assert told(client.request(method, path))[0] == status


def test_health_tells_what_the_gateway_can_do(client: httpx.Client) -> None:
    idle = {"status": "ok", "running": 0, "waiting": 0, "capacity": 3, "mappings": list(MAPPINGS)}
    wait_until(lambda: client.get("/health").json() == idle, within_s=60, what="it tells that nothing is going on")


def test_the_deadline_of_one_request_does_not_hold_for_the_next_on_its_connection(gateway: Gateway) -> None:
    one = httpx.Limits(max_connections=1)
    with httpx.Client(base_url=gateway.address, limits=one, timeout=90) as client:
        # A body that comes in several pieces is read in the context of its request. A busy machine may be too slow.
        hurried = {"x-deadline-ms": "1000"}
        wait_until(
            lambda: post(client, b"\0" * 1_500_000, **hurried).status_code == 415, within_s=60, what="it is in time"
        )
        until_s = REAL.monotonic_s() + 1.1
        statuses = []
        while REAL.monotonic_s() < until_s or not statuses:
            statuses.append(post(client, pdfs.pdfium()).status_code)
        statuses.append(post(client, pdfs.pdfium()).status_code)
    assert set(statuses) == {200}


def test_no_file_outlives_its_request(client: httpx.Client, gateway: Gateway) -> None:
    for content in (pdfs.reportlab(), b"no", b"\0" * 3_000_000):
        post(client, content)
    post(client, pdfs.reportlab(), "none")
    (folder,) = gateway.folder.glob("gateway-*")
    wait_until(lambda: list(Path(folder).iterdir()) == [], within_s=60, what="every file is gone")


@pytest.mark.parametrize(
    ("faults", "status", "content_type"),
    [({"status": 406}, 406, "application/json"), ({"garbage": True}, 200, "application/xml")],
)
def test_faults_can_be_switched(client: httpx.Client, faults: dict[str, Any], status: int, content_type: str) -> None:
    assert client.put("/faults", json=faults).json() == faults
    reply = post(client, pdfs.reportlab())
    assert (reply.status_code, reply.headers["content-type"]) == (status, content_type)
    client.delete("/faults")
    assert post(client, pdfs.reportlab()).status_code == 200
