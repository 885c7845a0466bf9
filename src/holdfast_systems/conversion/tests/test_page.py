"""The queue page in a real browser: upload, watch, retry, download, delete; also on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from holdfast.testing.processes import wait_until

from .system import PATIENCE_S, Running, pdf

Site = Callable[..., Running]
Faults = Callable[..., None]
CHROMIUM = "/usr/bin/chromium"
HELD = "Gateway busy, paused. Will retry automatically."
LAUNCH_MS = 90_000
SURE_MS = "SURE_MS = 4000"

expect.set_options(timeout=PATIENCE_S * 1_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("there is no Chromium here")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LAUNCH_MS)
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new person's page; whatever its console complains about fails the test."""
    context = browser.new_context(accept_downloads=True)
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_S * 1_000)
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield opened
    context.close()
    # That a request was answered with an error is told by the page itself.
    assert [text for text in complaints if "Failed to load resource" not in text] == []


def files(*names: str, content: bytes | None = None) -> list[dict]:
    return [
        {"name": name, "mimeType": "application/pdf", "buffer": pdf(name) if content is None else content}
        for name in names
    ]


def row(page: Page, name: str):
    return page.locator("li.row").filter(has_text=name)


def shows(page: Page, name: str, word: str) -> None:
    expect(row(page, name).locator(".pill")).to_have_text(re.compile(word))


def test_several_files_are_uploaded_watched_and_downloaded(solo: Site, page: Page, tmp_path: Path) -> None:
    here = solo()
    page.goto(here.address)
    expect(page.get_by_text("Nothing here yet.")).to_be_visible()
    page.select_option("#mapping", "layout")
    page.set_input_files("#files", files("one.pdf", "two.pdf", "three.pdf"))
    for name in ("one.pdf", "two.pdf", "three.pdf"):
        shows(page, name, "Queued")
    with here.working():
        for name in ("one.pdf", "two.pdf", "three.pdf"):
            shows(page, name, "Ready")
    expect(page.locator("#summary")).to_have_text("3 ready")
    with page.expect_download() as started:
        row(page, "two.pdf").get_by_role("link", name="Download the XML of two.pdf").click()
    assert started.value.suggested_filename == "two.xml"
    assert "<word" in Path(started.value.path()).read_text()


def test_a_row_is_watched_through_its_attempts_and_retried_by_hand(solo: Site, faults: Faults, page: Page) -> None:
    here = solo(RETRY_DELAYS_S="7", RETRY_MAX_ATTEMPTS="2")
    faults(status=500)
    page.goto(here.address)
    with here.working():
        page.set_input_files("#files", files("paper.pdf"))
        shows(page, "paper.pdf", "Waiting")
        line = row(page, "paper.pdf").locator(".line")
        expect(line).to_have_text(
            re.compile(
                r"Converter service is having an issue\. We’ll retry shortly\. Next attempt in \d s \(2 of 2\)\."
            )
        )
        # A wait that is long enough to be seen need not be waited for.
        here.store.atomic(lambda tx: tx._execute("UPDATE holdfast_job SET due_us = 1 WHERE state = 'queued'", {}))
        shows(page, "paper.pdf", "Failed")
        expect(line).to_have_text("Converter service is having an issue. Try again later.")
        faults()
        row(page, "paper.pdf").get_by_role("button", name="Retry paper.pdf").press("Enter")
        shows(page, "paper.pdf", "Ready")
    expect(row(page, "paper.pdf").get_by_role("button", name="Retry paper.pdf")).to_be_hidden()
    expect(row(page, "paper.pdf").get_by_role("button", name="Delete paper.pdf")).to_be_focused()


def test_the_page_says_that_the_gateway_is_busy_and_goes_on_by_itself(solo: Site, faults: Faults, page: Page) -> None:
    here = solo(BREAKER_CALLS_MIN="1", RETRY_DELAYS_S="0.1", RETRY_MAX_ATTEMPTS="20")
    faults(status=503)
    page.goto(here.address)
    with here.working():
        page.set_input_files("#files", files("paper.pdf"))
        expect(page.locator("#gate")).to_have_text(HELD)
        faults()
        shows(page, "paper.pdf", "Ready")
        expect(page.locator("#gate")).to_be_hidden()


def test_refused_files_show_their_short_line(solo: Site, page: Page) -> None:
    here = solo(BYTES_MAX="4000")
    page.goto(here.address)
    page.set_input_files("#files", files("notes.pdf", content=b"plain text"))
    shows(page, "notes.pdf", "Failed")
    expect(row(page, "notes.pdf").locator(".line")).to_have_text("Only PDF files are supported.")
    page.set_input_files("#files", files("huge.pdf", content=b"%PDF-" + b"x" * 5_000))
    expect(row(page, "huge.pdf").locator(".line")).to_have_text("File exceeds 4000 bytes limit.")
    expect(page.locator("#summary")).to_have_text("2 failed")
    page.reload()
    expect(row(page, "notes.pdf").locator(".line")).to_have_text("Only PDF files are supported.")


def unhurried(route: Route) -> None:
    """The page's script, with a minute in place of the few seconds in which somebody has to be sure."""
    reply = route.fetch()
    assert SURE_MS in reply.text()
    route.fulfill(response=reply, body=reply.text().replace(SURE_MS, "SURE_MS = 60000"))


def test_a_file_is_deleted_when_one_is_sure_and_the_focus_goes_on(solo: Site, page: Page) -> None:
    here = solo()
    page.route("**/page.js", unhurried)
    page.goto(here.address)
    for name in ("second.pdf", "first.pdf"):
        page.set_input_files("#files", files(name))
        shows(page, name, "Queued")
    for name in ("first.pdf", "second.pdf"):
        page.get_by_role("button", name=f"Delete {name}").press("Enter")
        expect(page.locator("#announce")).to_have_text(f"Press again to delete {name}.")
        page.get_by_role("button", name=f"Sure? {name}").press("Enter")
        expect(page.locator("#announce")).to_have_text(f"{name}: deleted")
        rest = name == "first.pdf"
        goes_on = page.get_by_role("button", name="Delete second.pdf") if rest else page.locator("#queue-title")
        expect(goes_on).to_be_focused()
    expect(page.get_by_text("Nothing here yet.")).to_be_visible()
    wait_until(lambda: here.files("sources") == [], within_s=PATIENCE_S, what="the files are gone")


def test_the_page_says_when_it_hears_nothing(solo: Site, page: Page) -> None:
    here = solo()
    page.goto(here.address)
    page.set_input_files("#files", files("paper.pdf"))
    shows(page, "paper.pdf", "Queued")
    page.route("**/api/events", lambda route: route.abort("connectionrefused"))
    assert here.system.closing is not None
    here.system.closing()  # every stream ends; browsers ask again
    expect(page.locator("#offline")).to_be_visible()
    page.unroute("**/api/events")
    expect(page.locator("#offline")).to_be_hidden()


def test_a_file_that_is_dropped_is_uploaded_once_however_often(solo: Site, page: Page) -> None:
    here = solo()
    page.goto(here.address)
    text = pdf("dropped").decode("latin-1")
    for _ in range(2):
        carried = page.evaluate_handle(
            """(text) => {
                const carried = new DataTransfer();
                const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
                carried.items.add(new File([bytes], "dropped.pdf", { type: "application/pdf" }));
                return carried;
            }""",
            text,
        )
        page.dispatch_event("body", "dragover", {"dataTransfer": carried})
        expect(page.locator("#veil")).to_be_visible()
        page.dispatch_event("body", "drop", {"dataTransfer": carried})
        expect(page.locator("#veil")).to_be_hidden()
        expect(page.locator("li.row")).to_have_count(1)
        shows(page, "dropped.pdf", "Queued")
    expect(page.locator("#announce")).to_have_text("dropped.pdf is there already.")
    expect(page.locator("li.row")).to_have_count(1)


def test_it_fits_on_a_phone_and_can_be_used_with_the_keyboard(solo: Site, browser: Browser) -> None:
    here = solo()
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    context.set_default_timeout(PATIENCE_S * 1_000)
    page = context.new_page()
    page.goto(here.address)
    page.set_input_files("#files", files("a-rather-long-name-of-a-paper-that-somebody-wrote-last-year-final-2.pdf"))
    shows(page, "a-rather-long-name", "Queued")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert row(page, "a-rather-long").get_by_role("button").first.bounding_box() is not None
    sizes = [button.bounding_box() for button in page.locator("li.row .button:visible").all()]
    assert all(box and box["height"] >= 44 for box in sizes)
    page.locator("body").press("Tab")
    assert page.evaluate("document.activeElement.id") == "mapping"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "files"
    named = "(one) => one.ariaLabel || one.labels?.[0]?.textContent || one.textContent"
    names = page.evaluate(f"[...document.querySelectorAll('button, a, select, input')].map({named})")
    assert all(name.strip() for name in names)
    context.close()


def test_uploads_that_met_a_broken_network_are_sent_again(solo: Site, page: Page) -> None:
    here = solo()
    page.goto(here.address)
    met: list[int] = []

    def break_once(route) -> None:
        met.append(1)
        if len(met) == 1:
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/api/upload", break_once)
    page.set_input_files("#files", files("paper.pdf"))
    shows(page, "paper.pdf", "Queued")
    assert len(met) == 2
    expect(page.locator("li.row")).to_have_count(1)
