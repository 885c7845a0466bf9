"""The operator's page in a real browser: sign in, the board of slots, reviews, imports, verifications, keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from holdfast.http.sessions import COOKIE
from holdfast.store import Store

from .live import PATIENCE_S, TOKEN, Live, lines, running

CHROMIUM = "/usr/bin/chromium"
LAUNCH_MS = 90_000
PHONE = {"width": 390, "height": 844}

expect.set_options(timeout=PATIENCE_S * 1_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.skip("there is no Chromium here")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LAUNCH_MS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("page")
    store = Store.open(f"sqlite:///{folder / 'page.db'}")
    store.migrate()
    with running(store, folder / "records", worker=True) as live:
        account = live.account()
        uid = account.company("Acme Tools", website="https://acme.example")
        ada = account.person(uid, "Ada Lovelace")
        account.person(uid, "Grace Hopper")
        account.put_slot(f"SL-{uid}-CEO", ada)
        yield live
    store.close()


@pytest.fixture
def page(browser: Browser, serving: Live, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page of an operator who has signed in; whatever its console complains about fails the test."""
    size = getattr(request, "param", None)
    context = browser.new_context(**({"viewport": size} if size else {}), accept_downloads=True)
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_S * 1_000)
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.goto(f"{serving.url}/records/")
    opened.fill("#token", TOKEN)
    opened.get_by_role("button", name="Sign in").click()
    expect(opened.locator("#company-rows strong").first).to_have_text("Acme Tools")
    yield opened
    context.close()
    # That a request was answered with an error is told by the page itself.
    assert [text for text in complaints if "Failed to load resource" not in text] == []


def test_nobody_comes_in_without_the_token(browser: Browser, serving: Live) -> None:
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(f"{serving.url}/records/")
    opened.fill("#token", "wrong")
    opened.get_by_role("button", name="Sign in").click()
    expect(opened.get_by_role("alert")).to_have_text("That is not the token.")
    expect(opened.locator("#app")).to_have_count(0)
    context.close()


def test_the_cookie_alone_does_not_speak_for_the_operator(page: Page, serving: Live) -> None:
    (cookie,) = [one for one in page.context.cookies() if one["name"] == COOKIE]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
    headers = {"Cookie": f"{cookie['name']}={cookie['value']}"}
    path = "/records/v1/admin/accounts"
    assert serving.http.get(path, headers=headers).status_code == 401
    assert serving.http.get(path, headers={**headers, "X-Records-Page": "1"}).status_code == 200
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(f"{serving.url}/records/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_after_signing_in_again_one_is_where_one_was(page: Page) -> None:
    page.get_by_role("tab", name="Keys and quotas").click()
    page.context.clear_cookies()
    page.get_by_role("tab", name="Reviews").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.fill("#token", TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("tab", name="Reviews")).to_have_attribute("aria-selected", "true")


@pytest.mark.parametrize("page", [None, PHONE], indirect=True, ids=["desktop", "phone"])
def test_a_conflict_on_the_board_shows_who_sits_there_and_three_ways_out(page: Page) -> None:
    page.locator("#company-rows li", has_text="Acme Tools").get_by_role("button", name="Slots").click()
    chief = page.locator("#board-slots li").first
    expect(chief.locator(".who")).to_have_text("Ada Lovelace")
    grace = page.locator("#people li", has_text="Grace Hopper")
    grace.get_by_role("combobox").select_option(label="CEO")
    expect(page.locator("#conflict-text")).to_contain_text("Ada Lovelace sits in CEO")
    expect(page.locator("#conflict .ways button")).to_have_count(3)
    page.get_by_role("button", name="Choose another slot").click()
    expect(chief.locator(".who")).to_have_text("Ada Lovelace")
    finance = page.locator("#board-slots li").nth(1)
    grace.drag_to(finance)
    expect(finance.locator(".who")).to_have_text("Grace Hopper")
    finance.get_by_role("button", name="Vacate").click()
    expect(finance.locator(".free")).to_have_text("Free")
    overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0


def test_a_review_is_asked_for_and_decided(page: Page) -> None:
    page.locator("#company-rows li", has_text="Acme Tools").get_by_role("button", name="Slots").click()
    page.locator("#people li", has_text="Grace Hopper").get_by_role("combobox").select_option(label="CEO")
    page.get_by_role("button", name="Ask for a review").click()
    expect(page.locator("#reviews-count")).to_have_text("1")
    page.get_by_role("tab", name="Reviews").click()
    page.get_by_role("button", name="Reject").click()
    expect(page.locator("#review-rows .pill").first).to_have_text("rejected")
    expect(page.locator("#reviews-count")).to_be_hidden()


def test_an_import_shows_its_progress_and_its_failed_rows(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_bytes(lines(*({"type": "company", "name": "" if n == 3 else f"Imported {n}"} for n in range(5))))
    page.get_by_role("tab", name="Imports").click()
    page.set_input_files("#import-form input[type=file]", file)
    page.get_by_role("button", name="Import", exact=True).click()
    row = page.locator("#import-rows li").first
    expect(row.locator(".pill")).to_have_text("complete")
    expect(row.locator("strong")).to_have_text("5 of 5 rows")
    row.get_by_role("button", name="Failed rows").click()
    expect(row.locator(".failures td").nth(1)).to_have_text("VALIDATION_ERROR")
    with page.expect_download() as found:
        row.get_by_role("button", name="Download").click()
    assert len(Path(found.value.path()).read_text().splitlines()) == 5


def test_addresses_are_verified_and_keys_are_issued_and_revoked(page: Page) -> None:
    page.get_by_role("tab", name="Verifications").click()
    page.fill("#verification-form input", "invalid@acme.example")
    page.get_by_role("button", name="Verify", exact=True).click()
    expect(page.locator("#verification-rows .pill").first).to_have_text("invalid")
    page.get_by_role("tab", name="Keys and quotas").click()
    keys = page.locator("#key-rows li")
    expect(keys).to_have_count(1)
    page.get_by_role("button", name="Issue key").click()
    expect(page.locator("#key-text")).to_contain_text("rdb_")
    expect(keys).to_have_count(2)
    keys.last.get_by_role("button", name="Revoke").click()
    keys.last.get_by_role("button", name="Really revoke?").click()
    expect(keys.last.locator(".pill")).to_have_text("revoked")
    page.fill("#quota-form input[name=daily]", "100000")
    page.get_by_role("button", name="Set quota").click()
    expect(page.locator("#notice")).to_have_text("The quota was set.")


def test_a_bad_company_is_refused_in_words(page: Page) -> None:
    page.fill("#company-form input[name=name]", "Bad")
    page.fill("#company-form input[name=website]", "nonsense")
    page.get_by_role("button", name="Add company").click()
    expect(page.locator("#notice")).to_contain_text("Website must be an http or https address")
