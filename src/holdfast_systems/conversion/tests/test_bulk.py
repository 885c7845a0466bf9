"""All at once: retry what failed, clear what is done, download what is ready; and what a listing counts."""

from __future__ import annotations

import io
from collections.abc import Callable
from zipfile import ZipFile

from .system import Running, pdf

Site = Callable[..., Running]
Faults = Callable[..., None]


def test_everything_that_failed_is_retried_and_nothing_else(site: Site, faults: Faults) -> None:
    here = site(RETRY_MAX_ATTEMPTS="1")
    me, other = here.person(), here.person()
    with here.working():
        good = me.settled(me.uploaded(pdf("good")))
        faults(status=500)
        failed = [me.settled(me.uploaded(pdf(str(number))))["id"] for number in range(3)]
        theirs = other.settled(other.uploaded(pdf("theirs")))
        me.upload(b"no pdf")
        faults()
        assert me.listing()["counts"] == {"active": 0, "ready": 1, "failed": 4, "retryable": 3, "ended": 5}
        assert me.http.post("/api/retry").json() == {"retried": 3, "left": 0}
        assert {me.settled(job_id)["status"] for job_id in failed} == {"complete"}
    assert me.job(good["id"])["manual_retry_count"] == 0
    assert other.job(theirs["id"])["status"] == "failed", "another session's are its own"
    assert me.http.post("/api/retry").json() == {"retried": 0, "left": 0}


def test_what_cannot_be_retried_keeps_no_other_from_it(solo: Site, faults: Faults) -> None:
    here = solo(RETRY_MAX_ATTEMPTS="1")
    me = here.person()
    with here.working():
        faults(status=500)
        first, second = (me.settled(me.uploaded(pdf(text)))["id"] for text in ("one", "two"))
        faults()
        [source] = [path for path in here.files("sources") if first in path.name]
        source.unlink()
        assert me.http.post("/api/retry").json() == {"retried": 1, "left": 1}
        assert me.settled(second)["status"] == "complete"
    assert me.job(first)["status"] == "failed"


def test_what_has_ended_is_cleared_with_its_files_and_what_goes_on_stays(site: Site) -> None:
    here = site()
    me = here.person()
    with here.working():
        for text in ("one", "two"):
            me.settled(me.uploaded(pdf(text)))
    me.upload(b"no pdf")
    waiting = me.uploaded(pdf("three"))
    assert me.http.post("/api/clear").json() == {"deleted": 3, "left": 0}
    assert [job["id"] for job in me.listing()["jobs"]] == [waiting]
    assert [path.name for path in here.files("sources")] == [f"{waiting}.pdf"]
    assert here.files("results") == []


def test_everything_that_is_ready_comes_as_one_archive(site: Site) -> None:
    here = site()
    me = here.person()
    refused = me.http.get("/api/download")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "NOT_READY")
    with here.working():
        first = me.settled(me.uploaded(pdf("one"), name="paper.pdf"))
        second = me.settled(me.uploaded(pdf("two"), name="Paper.pdf"))
        gone = me.settled(me.uploaded(pdf("three"), name="gone.pdf"))
    [lost] = [path for path in here.files("results") if gone["id"] in path.name]
    lost.unlink()
    reply = me.http.get("/api/download")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/zip")
    assert 'filename="conversions.zip"' in reply.headers["content-disposition"]
    with ZipFile(io.BytesIO(reply.content)) as archive:
        assert archive.testzip() is None
        held = {name: archive.read(name) for name in archive.namelist()}
    assert held.pop("missing.txt").decode() == "gone.xml: File was removed by retention. Re-upload to regenerate.\n"
    assert held == {"Paper.xml": me.download(second["id"]).content, "paper (2).xml": me.download(first["id"]).content}


def test_a_file_without_a_word_says_so(site: Site) -> None:
    from . import pdfs

    here = site()
    me = here.person()
    with here.working():
        empty = me.settled(me.uploaded(pdfs.scanned()))
        full = me.settled(me.uploaded(pdf()))
        named = me.settled(me.uploaded(pdfs.scanned(), mapping="outline"))
    assert empty["note"] == "No text was found in this file. It may be a scan."
    assert (full["note"], named["note"]) == (None, None), "an outline at least has the metadata"
