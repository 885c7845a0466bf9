"""The pure part: what is a PDF, which names are shown, and how an upload with its job reads."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast_systems.conversion import model

RECORD: dict[str, Any] = {
    "id": "u1",
    "owner": "me",
    "file_name": "a.pdf",
    "mapping": "text",
    "bytes": 10,
    "sha256": "0",
    "job_id": "j1",
    "refused_code": None,
    "refused_message": None,
    "created_us": 1_000_000,
    "purged_us": None,
    "state": "queued",
    "lane": "ready",
    "due_us": 2_000_000,
    "attempt_count": 0,
    "pardon_count": 0,
    "manual_retry_count": 0,
    "started_us": None,
    "last_attempt_us": None,
    "finished_us": None,
    "failed_us": None,
    "error_code": None,
    "error_message": None,
    "result": None,
    "retry_code": None,
}
NOTHING_RECORDED = dict.fromkeys(("state", "lane", "due_us", "attempt_count", "pardon_count", "manual_retry_count"))


def shown(**changes: Any) -> dict[str, Any]:
    return model.view({**RECORD, **changes}, attempts_max=3)


@pytest.mark.parametrize(
    ("beginning", "true"),
    [
        (b"%PDF-1.7\n", True),
        (b"\xef\xbb\xbf%PDF-1.4", True),
        (b"x" * 1_019 + b"%PDF-", True),
        (b"x" * 1_020 + b"%PDF-", False),
        (b"PK\x03\x04 a zip named paper.pdf", False),
        (b"%PD", False),
        (b"", False),
    ],
)
def test_content_decides_what_is_a_pdf(beginning: bytes, true: bool) -> None:
    assert model.is_pdf(beginning) is true


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("paper.pdf", "paper.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\papers\\one.pdf", "one.pdf"),
        ("a\r\nSet-Cookie: x.pdf", "aSet-Cookie: x.pdf"),
        ("\x00\x1b", "document.pdf"),
        ("", "document.pdf"),
        ("Übersicht 論文.pdf", "Übersicht 論文.pdf"),
        ("x" * 500, "x" * 200),
    ],
)
def test_file_names_from_outside_lose_paths_and_invisible_letters(given: str, kept: str) -> None:
    assert model.clean_file_name(given) == kept


@pytest.mark.parametrize(
    ("name", "xml"), [("a.pdf", "a.xml"), ("a.PDF", "a.xml"), ("a", "a.xml"), (".pdf", "document.xml")]
)
def test_the_xml_is_named_after_the_pdf(name: str, xml: str) -> None:
    assert model.xml_file_name(name) == xml


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("paper.xml", "attachment; filename=\"paper.xml\"; filename*=UTF-8''paper.xml"),
        ('é "1".xml', "attachment; filename=\"_ _1_.xml\"; filename*=UTF-8''%C3%A9%20%221%22.xml"),
    ],
)
def test_a_download_is_named_for_every_client(name: str, told: str) -> None:
    assert model.disposition(name) == told


def test_twins_agree_in_content_mapping_and_size() -> None:
    key = model.twin_key(sha256="a", mapping="text", size=1)
    assert key == model.twin_key(sha256="a", mapping="text", size=1)
    assert key != model.twin_key(sha256="a", mapping="layout", size=1)
    assert key != model.twin_key(sha256="b", mapping="text", size=1)
    assert key != model.twin_key(sha256="a", mapping="text", size=2)


def test_an_artifact_knows_its_upload() -> None:
    for name in (model.source_name("u-1"), model.result_name("u-1")):
        assert model.upload_of(name) == "u-1"


def test_between_two_attempts_there_is_no_error_but_a_wait_with_the_line_of_the_last_one() -> None:
    job = shown(lane="waiting", attempt_count=1, retry_code="GW_5XX")
    assert (job["status"], job["error_code"], job["error_message"]) == ("queued", None, None)
    assert job["waiting"] == {
        "code": "GW_5XX",
        "message": "Converter service is having an issue. We’ll retry shortly.",
        "next_attempt_at": "1970-01-01T00:00:02Z",
    }


def test_an_attempt_that_a_dying_worker_took_along_is_counted_and_given_back() -> None:
    job = shown(attempt_count=2, pardon_count=1)
    assert (job["attempt_count"], job["attempts_max"]) == (2, shown()["attempts_max"] + 1)


def test_a_code_of_the_engine_is_shown_as_unknown() -> None:
    job = shown(state="failed", error_code="WORKER_LOST", error_message="the worker 0123 on host db1", failed_us=5)
    assert (job["error_code"], job["error_message"]) == ("UNKNOWN", "Something unexpected went wrong.")
    assert job["can_retry"]


def test_a_refused_upload_is_failed_and_cannot_be_retried() -> None:
    job = shown(job_id=None, refused_code="NOT_PDF", refused_message="Only PDF files are supported.", state=None)
    assert (job["status"], job["error_code"], job["can_retry"]) == ("failed", "NOT_PDF", False)
    assert job["failed_at"] == job["created_at"]


def test_a_job_that_is_no_longer_kept_has_expired() -> None:
    job = shown(**NOTHING_RECORDED)
    assert (job["error_code"], job["expired"], job["can_retry"]) == ("EXPIRED", True, False)


def test_a_result_can_be_downloaded_until_it_is_purged() -> None:
    done = {"state": "complete", "result": '{"bytes": 7}', "finished_us": 5}
    assert shown(**done)["can_download"]
    assert shown(**done)["result_bytes"] == 7
    assert not shown(**done, purged_us=9)["can_download"]


@pytest.mark.parametrize(
    ("found", "paused", "message"),
    [
        ((None, None, None), False, None),
        (("closed", "hold", None), False, None),
        (("open", "hold", None), True, "Gateway busy, paused. Will retry automatically."),
        (("half_open", "hold", None), True, "Gateway busy, paused. Will retry automatically."),
        (("open", "fail_fast", None), True, "Gateway busy. Files are not converted until it recovers."),
        (("closed", "hold", 7), True, "Conversions are paused. They will go on later."),
    ],
)
def test_the_page_says_why_nothing_moves(found: tuple[Any, ...], paused: bool, message: str | None) -> None:
    assert model.gate_of(*found) == model.Gate(paused, message)
