"""The queue page with many files: a summary of all, retry all, download all, clear finished; and while it is held."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

from playwright.sync_api import Page, expect

from holdfast.testing.processes import wait_until

from . import pdfs
from .system import PATIENCE_S, Running, pdf
from .test_page import browser, files, page, row, shows, unhurried

__all__ = ["browser", "page"]

Site = Callable[..., Running]
Faults = Callable[..., None]


def test_failures_are_in_the_summary_and_retried_all_at_once(solo: Site, faults: Faults, page: Page) -> None:
    here = solo(RETRY_MAX_ATTEMPTS="1")
    page.goto(here.address)
    with here.working():
        page.set_input_files("#files", files("good.pdf"))
        shows(page, "good.pdf", "Ready")
        faults(status=500)
        page.set_input_files("#files", files("one.pdf", "two.pdf"))
        for name in ("one.pdf", "two.pdf"):
            shows(page, name, "Failed")
        expect(page.locator("#summary")).to_have_text("1 ready · 2 failed")
        faults()
        page.get_by_role("button", name="Retry all (2)").click()
        for name in ("one.pdf", "two.pdf"):
            shows(page, name, "Ready")
    expect(page.locator("#announce")).to_have_text(re.compile("ready|2 queued again"))
    expect(page.locator("#summary")).to_have_text("3 ready")
    expect(page.get_by_role("button", name="Retry all")).to_be_hidden()


def test_everything_is_downloaded_as_one_archive(solo: Site, page: Page) -> None:
    here = solo()
    page.goto(here.address)
    with here.working():
        page.set_input_files("#files", files("one.pdf", "two.pdf"))
        for name in ("one.pdf", "two.pdf"):
            shows(page, name, "Ready")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download all (2)").click()
    assert started.value.suggested_filename == "conversions.zip"
    with ZipFile(Path(started.value.path())) as archive:
        assert sorted(archive.namelist()) == ["one.xml", "two.xml"]


def test_what_is_finished_is_cleared_when_one_is_sure(solo: Site, page: Page) -> None:
    here = solo()
    page.route("**/page.js", unhurried)
    page.goto(here.address)
    with here.working():
        page.set_input_files("#files", files("one.pdf", "two.pdf"))
        for name in ("one.pdf", "two.pdf"):
            shows(page, name, "Ready")
    page.set_input_files("#files", files("notes.pdf", content=b"plain text"))
    shows(page, "notes.pdf", "Failed")
    page.set_input_files("#files", files("waits.pdf"))
    shows(page, "waits.pdf", "Queued")
    page.get_by_role("button", name="Clear finished (3)").press("Enter")
    expect(page.locator("#clear")).to_have_text("Delete 2 ready and 1 other files?")
    expect(page.locator("#announce")).to_have_text("Press again to delete 3 files.")
    page.locator("#clear").press("Enter")
    expect(page.locator("li.row")).to_have_count(1)
    shows(page, "waits.pdf", "Queued")
    expect(page.locator("#announce")).to_have_text("3 deleted")
    expect(page.locator("#clear")).to_be_hidden()
    expect(page.locator("#queue-title")).to_be_focused()
    wait_until(lambda: here.files("results") == [], within_s=PATIENCE_S, what="the files are gone")


def test_countdowns_stand_still_while_the_queue_is_held(solo: Site, faults: Faults, page: Page) -> None:
    here = solo(BREAKER_CALLS_MIN="1", BREAKER_OPEN_S="300", RETRY_DELAYS_S="200", RETRY_MAX_ATTEMPTS="2")
    faults(status=503)
    page.goto(here.address)
    with here.working():
        page.set_input_files("#files", files("paper.pdf"))
        expect(page.locator("#gate")).to_be_visible()
        line = row(page, "paper.pdf").locator(".line")
        expect(line).to_have_text(
            "Converter service is having an issue. We’ll retry shortly. Next attempt when the queue goes on (2 of 2)."
        )


def test_the_banner_goes_when_the_gateway_is_back_though_no_file_is_left(
    solo: Site, faults: Faults, page: Page
) -> None:
    here = solo(BREAKER_CALLS_MIN="1", RETRY_MAX_ATTEMPTS="1")
    faults(status=503)
    page.goto(here.address)
    with here.working():
        page.set_input_files("#files", files("paper.pdf"))
        shows(page, "paper.pdf", "Failed")
        expect(page.locator("#gate")).to_be_visible()
        faults()
        expect(page.locator("#gate")).to_be_hidden()


def test_a_file_without_a_word_says_so(solo: Site, page: Page) -> None:
    here = solo()
    page.goto(here.address)
    with here.working():
        page.set_input_files("#files", files("scan.pdf", content=pdfs.scanned()))
        shows(page, "scan.pdf", "Ready")
    expect(row(page, "scan.pdf").locator(".line")).to_have_text("No text was found in this file. It may be a scan.")


def test_a_file_that_the_server_finds_too_large_stays_in_the_list(solo: Site, page: Page) -> None:
    here = solo(BYTES_MAX="4000")
    page.route("**/", lambda route: route.fulfill(response=(reply := route.fetch()), body=_larger(reply.text())))
    page.goto(here.address)
    page.set_input_files("#files", files("huge.pdf", content=pdf().ljust(5_000, b" ")))
    shows(page, "huge.pdf", "Failed")
    expect(row(page, "huge.pdf").locator(".line")).to_have_text("File exceeds 4000 bytes limit.")
    expect(page.locator("li.row")).to_have_count(1)
    page.reload()
    expect(row(page, "huge.pdf").locator(".line")).to_have_text("File exceeds 4000 bytes limit.")


def _larger(text: str) -> str:
    """The page as one would have it that was loaded before the limit was lowered."""
    assert 'data-bytes-max="4000"' in text
    return text.replace('data-bytes-max="4000"', 'data-bytes-max="400000"')
