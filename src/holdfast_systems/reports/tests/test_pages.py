"""The page in a real browser: sign in, start the sample with one click, watch it, read the report, run a step again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from holdfast.http.sessions import COOKIE

from .system import PATIENCE_S, TOKEN, Running, run_body

Site = Callable[..., Running]
CHROMIUM = "/usr/bin/chromium"
LAUNCH_MS = 90_000
PHONE = {"width": 390, "height": 800}

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
    context = browser.new_context()
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_S * 1_000)
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield opened
    context.close()
    assert [text for text in complaints if "Failed to load resource" not in text] == []


def sign_in(page: Page, here: Running, token: str = TOKEN) -> None:
    page.goto(f"{here.address}/reports/")
    page.fill("#token", token)
    page.get_by_role("button", name="Sign in").click()


def test_the_sample_is_one_click_away_and_its_report_is_read_beside_its_charts(solo: Site, page: Page) -> None:
    here = solo()
    sign_in(page, here, "not the token at all")
    expect(page.get_by_role("alert")).to_have_text("That is not the token.")
    sign_in(page, here)
    expect(page.get_by_text("No run yet.")).to_be_visible()
    page.get_by_role("button", name="Start a sample run").click()
    expect(page.locator("#graph g.READY text.name")).to_have_text("ohlcv")
    assert page.locator("#graph path").count() == 3
    with here.working():
        # Nobody loads the page again: the states come by themselves.
        expect(page.locator("#run-status")).to_have_text("SUCCEEDED")
    expect(page.locator("#graph g.SUCCEEDED")).to_have_count(3)
    expect(page.locator("#facts")).to_contain_text("Model calls1")
    expect(page.locator("#steps tr").nth(2)).to_contain_text("$0.00")
    frame = page.frame_locator("#report-frame")
    expect(frame.get_by_role("heading", name="Market report")).to_be_visible()
    expect(frame.locator("figure img")).to_have_count(2)
    widths = frame.locator("figure img").evaluate_all("images => images.map(image => image.naturalWidth)")
    assert all(width > 500 for width in widths)
    text, picture = frame.locator("article").bounding_box(), frame.locator("figure").first.bounding_box()
    assert text is not None
    assert picture is not None
    assert picture["x"] > text["x"] + text["width"] - 1, "beside the text"


def test_a_failure_is_told_and_the_step_is_run_again(solo: Site, page: Page) -> None:
    here = solo()
    here.define()
    here.standin.switch("safety_block")
    here.done(run_body("run_1"))
    here.standin.switch(None)
    page.set_viewport_size(PHONE)
    sign_in(page, here)
    expect(page.locator("#run-status")).to_have_text("FAILED")
    expect(page.locator("#steps .error")).to_contain_text("LLM_SAFETY_BLOCK")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    with here.working():
        page.locator("#steps tr").nth(2).get_by_role("button", name="Run again").click()
        expect(page.locator("#run-status")).to_have_text("SUCCEEDED")
    expect(page.locator("#report-title")).to_have_text("Report · report_r2")
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#token")).to_be_visible()


def test_signing_out_ends_the_session_on_the_server(solo: Site) -> None:
    here = solo()
    with httpx.Client(base_url=f"{here.address}/reports", verify=False) as browser:
        cookie = {"Cookie": browser.post("/sign-in", data={"token": TOKEN}).headers["set-cookie"].split(";")[0]}
        browser.cookies.clear()
        assert browser.get("/v1/flow-runs", headers=cookie).status_code == 200
        foreign = {**cookie, "Origin": "https://evil.example"}
        assert browser.post("/sign-out", headers=foreign).status_code == 403
        assert browser.post("/sign-out", headers=cookie).status_code == 303
        assert browser.get("/v1/flow-runs", headers=cookie).status_code == 401


def test_a_session_reads_and_changes_nothing_for_another_site(solo: Site) -> None:
    here = solo()
    with httpx.Client(base_url=f"{here.address}/reports", verify=False) as browser:
        entered = browser.post("/sign-in", data={"token": TOKEN})
        assert entered.status_code == 303
        cookie = entered.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
        assert TOKEN not in cookie
        assert browser.get("/v1/flow-runs").status_code == 200
        # A form of another site would bring the cookie in an old browser, and cannot bring the header.
        assert browser.post("/v1/flow-runs", json=run_body()).status_code == 401
        assert browser.post("/v1/flow-runs", json=run_body(), headers={"x-holdfast-page": "1"}).status_code == 201
        forged = cookie.split(";")[0].split("=", 1)[1].replace(".", "0.")
        other = httpx.get(f"{here.address}/reports/v1/flow-runs", cookies={COOKIE: forged})
        assert other.status_code == 401
        assert browser.get("", follow_redirects=False).status_code in (200, 303)
        assert "default-src 'none'" in browser.get("/").headers["content-security-policy"]
