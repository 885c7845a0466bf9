"""Uploads over HTTP: what is refused leaves nothing behind, and the same file is the same job."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.base import bus
from holdfast.store import Store

from .system import PATIENCE_S, Person, Running, client, pdf, running

MEBIBYTE = 1_048_576
LIMIT = 200_000


@pytest.fixture
def here(solo: Callable[..., Running]) -> Running:
    return solo()


@pytest.fixture
def alone(sqlite_store: Store, tmp_path: Path) -> Iterator[Running]:
    """The system with a small limit, and no gateway that anybody would ask."""
    settings = {"GATEWAY": "http://127.0.0.1:9", "BYTES_MAX": str(LIMIT)}
    with running(sqlite_store, tmp_path / "conversion", **settings) as served:
        yield served


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The same for all forms that are refused, since none of them changes anything."""
    folder = tmp_path_factory.mktemp("forms")
    store = Store.open(f"sqlite:///{folder / 'holdfast.db'}")
    store.migrate()
    with running(store, folder / "conversion", GATEWAY="http://127.0.0.1:9", BYTES_MAX=str(LIMIT)) as served:
        yield served
    store.close()


def everything(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_an_upload_becomes_a_queued_job(here: Running) -> None:
    me = here.person()
    reply = me.upload(pdf(), name="../../Übersicht.pdf", mapping="layout")
    job = reply.json()
    assert (reply.status_code, job["status"], job["created"]) == (201, "queued", True)
    assert (job["file_name"], job["mapping"], job["bytes"]) == ("Übersicht.pdf", "layout", len(pdf()))
    assert [one["id"] for one in me.listing()["jobs"]] == [job["id"]]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + b"\0" * 5_000, b"<html>%PDF" + b"x" * 3_000])
def test_what_is_no_pdf_is_refused_by_its_content_and_shown_as_failed(here: Running, content: bytes) -> None:
    me = here.person()
    with bus.heard() as told:
        reply = me.upload(content, name="paper.pdf")
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "NOT_PDF"
    assert reply.json()["error"]["message"] == "Only PDF files are supported."
    [job] = me.listing()["jobs"]
    assert (job["status"], job["error_code"], job["error_message"]) == (
        "failed",
        "NOT_PDF",
        "Only PDF files are supported.",
    )
    assert [facts["code"] for verb, facts in told if verb == "job.failed"] == ["NOT_PDF"]
    assert here.files("sources") == []
    assert everything(here.folder / "spool") == []


def test_a_pdf_under_any_name_and_type_is_a_pdf(here: Running) -> None:
    reply = here.person().http.post("/api/upload", files={"file": ("notes.txt", pdf(), "text/plain")})
    assert reply.status_code == 201


def test_a_refused_upload_can_be_deleted_but_not_retried(here: Running) -> None:
    me = here.person()
    me.upload(b"no pdf")
    [job] = me.listing()["jobs"]
    assert me.retry(job["id"]).json()["error"]["code"] == "EXPIRED"
    assert me.http.delete(f"/api/jobs/{job['id']}").status_code == 204
    assert me.listing()["jobs"] == []


def body(size: int) -> tuple[bytes, str]:
    """A form whose file has exactly so many bytes."""
    head = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n'
    return head + b"%PDF-1.7\n".ljust(size, b"x") + b"\r\n--x--\r\n", "multipart/form-data; boundary=x"


def connected(here: Running) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection(urlsplit(here.address).netloc, timeout=PATIENCE_S))


def streamed(
    connection: http.client.HTTPConnection, content: bytes, kind: str, *, cookie: str = ""
) -> http.client.HTTPResponse:
    """Send without saying how much will come, and read the answer even if the server stops listening."""
    connection.putrequest("POST", "/api/upload")
    connection.putheader("content-type", kind)
    connection.putheader("transfer-encoding", "chunked")
    connection.putheader("cookie", cookie)
    connection.endheaders()
    try:
        for begin in range(0, len(content), 65_536):
            piece = content[begin : begin + 65_536]
            connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.send(b"0\r\n\r\n")
    except OSError:
        pass  # it has answered already
    return connection.getresponse()


def test_exactly_50_mb_are_taken_and_one_byte_more_is_not(here: Running) -> None:
    me = here.person()
    largest, kind = body(50 * MEBIBYTE)
    assert me.http.post("/api/upload", content=largest, headers={"content-type": kind}).status_code == 201
    [stored] = here.files("sources")
    assert stored.stat().st_size == 50 * MEBIBYTE
    over, kind = body(50 * MEBIBYTE + 1)
    reply = me.http.post("/api/upload", content=over, headers={"content-type": kind})
    assert reply.status_code == 413
    assert reply.json()["error"] | {"traceId": ""} == {
        "code": "TOO_LARGE",
        "message": "File exceeds 50 MB limit.",
        "details": {"bytes_max": 50 * MEBIBYTE},
        "traceId": "",
    }
    assert here.files("sources") == [stored]
    assert everything(here.folder / "spool") == []


@pytest.mark.parametrize("size", [LIMIT + 1, 10 * LIMIT])
@pytest.mark.parametrize("announced", [True, False])
def test_what_is_too_large_leaves_a_row_and_is_counted(alone: Running, announced: bool, size: int) -> None:
    me = alone.person()
    content, kind = body(size)
    with bus.heard() as told, connected(alone) as connection:
        headers = {"content-type": kind, "cookie": f"holdfast_conversion={me.http.cookies['holdfast_conversion']}"}
        if announced:
            connection.putrequest("POST", "/api/upload")
            for name, value in {**headers, "content-length": str(len(content))}.items():
                connection.putheader(name, value)
            connection.endheaders()
            with suppress(OSError):  # it may have answered already
                connection.send(content)
            reply = connection.getresponse()
        else:
            reply = streamed(connection, content, kind, cookie=headers["cookie"])
        assert reply.status == 413
        assert b'"TOO_LARGE"' in reply.read()
    [job] = me.listing()["jobs"]
    assert (job["status"], job["error_code"], job["file_name"]) == ("failed", "TOO_LARGE", "a.pdf")
    assert job["error_message"] == f"File exceeds {LIMIT} bytes limit."
    assert job["bytes"] > LIMIT
    assert [facts["code"] for verb, facts in told if verb == "job.failed"] == ["TOO_LARGE"]
    assert everything(alone.folder) == []


@pytest.mark.parametrize("size", [LIMIT + 1, LIMIT + 70_000, 10 * LIMIT])
def test_a_file_of_unknown_size_is_refused_while_it_streams(forms: Running, size: int) -> None:
    content, kind = body(size)
    with connected(forms) as connection:
        reply = streamed(connection, content, kind)
        assert reply.status == 413
        assert b'"TOO_LARGE"' in reply.read()
    assert everything(forms.folder) == []


def test_a_form_that_announces_too_much_is_refused_though_none_of_it_comes(forms: Running) -> None:
    with connected(forms) as connection:
        connection.putrequest("POST", "/api/upload")
        connection.putheader("content-type", "multipart/form-data; boundary=x")
        connection.putheader("content-length", str(10**12))
        connection.endheaders()
        reply = connection.getresponse()
        assert (reply.status, b'"TOO_LARGE"' in reply.read()) == (413, True)


def test_an_upload_that_breaks_off_leaves_nothing(alone: Running) -> None:
    content, kind = body(100_000)
    with connected(alone) as connection:
        connection.putrequest("POST", "/api/upload")
        connection.putheader("content-type", kind)
        connection.putheader("content-length", str(len(content)))
        connection.endheaders()
        connection.send(content[:50_000])
    # The next answer comes after the server has dealt with what came before.
    assert alone.person().listing()["jobs"] == []
    assert everything(alone.folder) == []


FILE = ("file", ("a.pdf", pdf()))


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"data": {"mapping": "text"}}, "file"),
        ({"json": {"file": "x"}}, "file"),
        ({"content": b"garbage", "headers": {"content-type": "multipart/form-data; boundary=x"}}, "file"),
        ({"content": b"--x\r\n", "headers": {"content-type": "multipart/form-data; boundary=x"}}, "file"),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, "file"),
        ({"content": b"\xff", "headers": {"content-type": "multipart/form-data; boundary=" + "x" * 300}}, "file"),
        ({"files": [FILE, FILE]}, "file"),
        ({"files": [FILE], "data": {"mapping": "../text"}}, "mapping"),
        ({"files": [FILE], "data": {"mapping": "x" * 41}}, "mapping"),
        ({"files": [FILE], "data": {"mapping": "x" * 2_000}}, "mapping"),
        ({"files": [FILE], "data": {"mapping": "te\0xt"}}, "mapping"),
        ({"files": [FILE], "data": {f"field{number}": "1" for number in range(20)}}, "file"),
    ],
)
def test_a_form_that_cannot_be_meant_is_a_clear_400(forms: Running, sent: dict[str, object], field: str) -> None:
    me = forms.person()
    reply = me.http.post("/api/upload", **sent)  # type: ignore[arg-type]
    assert reply.status_code == 400, reply.text
    error = reply.json()["error"]
    assert (error["code"], error["details"]["errors"][0]["field"]) == ("VALIDATION_ERROR", field)
    assert me.listing()["jobs"] == []
    assert everything(forms.folder) == []


def test_a_mapping_that_nobody_knows_is_the_gateways_to_refuse(alone: Running) -> None:
    assert alone.person().upload(pdf(), mapping="markdown").status_code == 201


def test_no_mapping_means_text(alone: Running) -> None:
    reply = alone.person().http.post("/api/upload", files=[FILE])
    assert reply.json()["mapping"] == "text"


def test_the_same_file_again_is_the_same_job(site: Callable[..., Running]) -> None:
    here = site()
    me = here.person()
    first = me.upload(pdf(), name="a.pdf")
    again = me.upload(pdf(), name="b.pdf")
    assert (again.status_code, again.json()["id"], again.json()["created"]) == (200, first.json()["id"], False)
    assert me.upload(pdf(), mapping="layout").status_code == 201
    assert me.upload(pdf("Another page.")).status_code == 201
    assert here.person().upload(pdf()).status_code == 201, "another owner's file is another job"
    assert len(here.files("sources")) == 4


def test_a_complete_twin_is_returned_too(here: Running) -> None:
    me = here.person()
    with here.working():
        first = me.settled(me.uploaded())
    again = me.upload(pdf())
    assert (again.status_code, again.json()["id"], again.json()["status"]) == (200, first["id"], "complete")


def test_uploads_that_race_make_one_job_and_keep_one_file(site: Callable[..., Running]) -> None:
    here = site()
    me = here.person()
    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(lambda _: _own(here, me).upload(pdf()), range(8)))
    assert {reply.status_code for reply in replies} == {200, 201}
    assert [reply.status_code for reply in replies].count(201) == 1
    assert len({reply.json()["id"] for reply in replies}) == 1
    assert len(here.files("sources")) == 1
    assert len(here.store.atomic(lambda tx: tx.rows("job.list", **NO_FILTER), write=False)) == 1


NO_FILTER = dict.fromkeys(("state", "queue", "kind", "tenant", "code", "before")) | {"count": 100}


def _own(here: Running, me: Person) -> Person:
    """The same person in another tab."""
    return Person(here.stack.enter_context(client(here.address, cookies=me.http.cookies)))


def test_after_a_failure_the_same_file_is_a_new_job(here: Running, faults: Callable[..., None]) -> None:
    me = here.person()
    faults(status=406)
    with here.working():
        failed = me.settled(me.uploaded())
        assert failed["error_code"] == "GW_4XX"
        faults()
        anew = me.upload(pdf())
        assert (anew.status_code, anew.json()["id"] != failed["id"]) == (201, True)
        assert me.settled(anew.json()["id"])["status"] == "complete"
    reply = me.retry(failed["id"])
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "CONFLICT")


def test_a_file_that_cannot_be_stored_is_a_failed_job(alone: Running) -> None:
    # A file where the folder of the sources has to be: nothing can be stored below it.
    (alone.folder / "artifacts" / "sources").write_text("in the way")
    me = alone.person()
    reply = me.upload(pdf())
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "IO_ERROR")
    assert reply.json()["error"]["message"] == "Storage issue. Try again later."
    [job] = me.listing()["jobs"]
    assert (job["status"], job["error_code"], job["can_retry"]) == ("failed", "IO_ERROR", False)
    (alone.folder / "artifacts" / "sources").unlink()
    assert me.upload(pdf()).status_code == 201


def test_a_spool_that_is_gone_is_a_failed_job(alone: Running) -> None:
    (alone.folder / "spool").rmdir()
    me = alone.person()
    assert me.upload(pdf()).json()["error"]["code"] == "IO_ERROR"
    assert [job["error_code"] for job in me.listing()["jobs"]] == ["IO_ERROR"]


def test_uploads_of_one_address_are_limited(sqlite_store: Store, tmp_path: Path) -> None:
    settings = {"GATEWAY": "http://127.0.0.1:9", "UPLOADS_PER_MINUTE": "2"}
    with running(sqlite_store, tmp_path / "conversion", **settings) as served:
        me = served.person()
        statuses = [me.upload(pdf(str(number))).status_code for number in range(4)]
        assert statuses == [201, 201, 429, 429]
        assert me.http.get("/api/jobs").status_code == 200
