"""The pages in a real browser: from an order to a charge in a minute, and the widget's four states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from holdfast.base import new_id
from holdfast.store import Store
from holdfast.testing.ports import listening_socket

from .browser import PHONE, launched, opened, overflow
from .live import Live, on_server, running
from .shop import PLANE, authorize, bought, wallet

UNAVAILABLE = "The assistant is not available right now. Your message was not answered, and nothing was charged for it."


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("pages")
    store = Store.open(f"sqlite:///{folder / 'pages.db'}")
    store.migrate()
    with running(store, folder / "commerce") as live:
        yield live
    store.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with opened(browser) as page:
        yield page


def bought_by_somebody(site: Live, sku: str = "agent-basic") -> dict[str, Any]:
    name = new_id()
    return {**bought(site, order=f"O-{name}", user=f"u-{name}", sku=sku), "user": f"u-{name}"}


def chat(page: Page, site: Live, instance: str) -> None:
    page.goto(f"{site.urls['gateway']}/widget/{instance}")


def say(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Enter")


def answer(page: Page) -> Any:
    return page.locator(".message:not(.mine)").last


@pytest.mark.parametrize("size", [None, PHONE], ids=["desktop", "phone"])
def test_from_an_order_to_a_charge_in_a_minute(browser: Browser, site: Live, size: Any) -> None:
    with opened(browser, **({"viewport": size} if size else {})) as page:
        page.goto(f"{site.standin('saleor')}/")
        page.get_by_role("button", name="Buy Basic").click()
        expect(page.get_by_role("status")).to_have_text("Paid and delivered. Open your account to chat.")
        assert overflow(page) == 0
        page.get_by_role("button", name="Open your account").click()
        expect(page.locator("#wallet div", has_text="Available").locator("dd")).to_have_text("100")
        assert "ticket" not in page.url, "the link works once, and does not stay in the address"
        page.get_by_role("link", name="Chat").click()
        say(page, "What did I buy?")
        expect(answer(page).locator("small")).to_have_text("2 credits")
        expect(answer(page)).to_contain_text("What did I buy?")
        assert overflow(page) == 0
        page.go_back()
        page.get_by_role("button", name="Runs").click()
        expect(page.locator("#run-rows tr")).to_contain_text("2 credits")
        expect(page.locator("#wallet div", has_text="Available").locator("dd")).to_have_text("98")
        expect(page.locator("#wallet div", has_text="Spent").locator("dd")).to_have_text("2")
        expect(page.locator("#entries tr").first).to_contain_text("Run")
        expect(page.locator("#entries tr").first).to_contain_text("-2")
        assert overflow(page) == 0


def test_a_link_into_an_account_works_once(browser: Browser, site: Live) -> None:
    made = site.post(PLANE, "/buyers/sessions", {"userId": bought_by_somebody(site)["user"]}).json()
    link = f"{site.urls[PLANE]}/#ticket={made['ticket']}"
    with opened(browser) as page:
        page.goto(link)
        expect(page.locator("#instances li")).to_have_count(1)
    with opened(browser) as stranger:
        stranger.goto(link)
        expect(stranger.get_by_role("status")).to_have_text("This link was used already. Ask for a new one.")
        expect(stranger.locator("#inside")).to_be_hidden()
        expect(stranger.get_by_role("link", name="To the shop")).to_be_visible()


def test_without_credits_the_widget_offers_a_top_up(page: Page, site: Live) -> None:
    line = bought_by_somebody(site, "agent-trial")
    assert authorize(site, line["instanceId"], "other", budget=19).json()["allowed"]
    chat(page, site, line["instanceId"])
    say(page, "Hello")
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("There are not enough credits for this. 1 credit left, 2 needed.")
    expect(notice.get_by_role("link", name="Top up")).to_have_attribute("href", f"{site.urls[PLANE]}/#top-up")
    expect(notice.get_by_role("link", name="Top up")).to_be_focused()
    assert site.post(PLANE, f"/wallets/{line['walletId']}/topups", {"credits": 10}, key="t-1").is_success
    notice.get_by_role("button", name="Try again").click()
    expect(answer(page).locator("small")).to_have_text("2 credits")
    expect(notice).to_be_hidden()


def test_a_paused_instance_is_resumed_from_the_widget_by_its_owner(page: Page, site: Live) -> None:
    line = bought_by_somebody(site)
    ticket = site.post(PLANE, "/buyers/sessions", {"userId": line["user"]}).json()["ticket"]
    page.goto(f"{site.urls[PLANE]}/#ticket={ticket}")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".card .badge")).to_have_text("paused")
    page.get_by_role("link", name="Chat").click()
    say(page, "Are you there?")
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("This assistant is paused.")
    notice.get_by_role("button", name="Resume").click()
    expect(answer(page).locator("small")).to_have_text("2 credits")
    assert site.get(PLANE, f"/instances/{line['instanceId']}").json()["status"] == "active"


def test_too_many_messages_are_counted_down(page: Page, site: Live) -> None:
    plan = site.get(PLANE, "/plans/agent-basic").json()
    slow = {
        name: plan[name] for name in ("kind", "title", "credits", "offering", "softFail", "runBudget", "runTimeoutS")
    }
    slow |= {"limits": {**plan["limits"], "requestsPerMinute": 1}, "capabilities": plan["capabilities"]}
    assert site.put(PLANE, "/plans/agent-slow", slow).is_success
    line = bought_by_somebody(site, "agent-slow")
    page.clock.install()
    chat(page, site, line["instanceId"])
    say(page, "One")
    expect(answer(page).locator("small")).to_have_text("2 credits")
    say(page, "Two")
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("Too many messages at once. You can send it again in")
    again = notice.get_by_role("button", name="Send again")
    expect(again).to_be_disabled()
    first = seconds(notice.inner_text())
    assert 1 < first <= 60
    page.clock.fast_forward(1_000)
    expect(notice).to_contain_text(f"again in {first - 1} second")
    page.clock.run_for(first * 1_000)
    expect(notice).to_contain_text("You can send it again now.")
    expect(again).to_be_enabled()
    expect(again).to_be_focused()


def test_an_outage_is_said_honestly_and_the_message_is_charged_once(page: Page, site: Live) -> None:
    line = bought_by_somebody(site)
    chat(page, site, line["instanceId"])
    site.fault("langflow", status=503)
    try:
        say(page, "Hello")
        notice = page.get_by_role("alert")
        expect(notice).to_contain_text(UNAVAILABLE)
    finally:
        site.fault("langflow")
    notice.get_by_role("button", name="Try again").click()
    expect(answer(page).locator("small")).to_have_text("2 credits")
    assert wallet(site, line["walletId"])[2] == 2


def test_a_person_may_let_a_message_be(page: Page, site: Live) -> None:
    line = bought_by_somebody(site)
    chat(page, site, line["instanceId"])
    site.fault("langflow", status=503)
    try:
        say(page, "Never mind")
        page.get_by_role("alert").get_by_role("button", name="Do not send").click()
    finally:
        site.fault("langflow")
    say(page, "Something else")
    expect(answer(page).locator("small")).to_have_text("2 credits")
    assert wallet(site, line["walletId"])[2] == 2


def test_one_script_tag_embeds_the_widget_on_another_site(browser: Browser, site: Live) -> None:
    line = bought_by_somebody(site)
    source, instance = f"{site.urls['gateway']}/widget.js", line["instanceId"]
    tag = f'<script src="{source}" data-instance="{instance}" data-user="visitor" data-title="Help" defer></script>'

    async def home(_: Any) -> HTMLResponse:
        policy = "default-src 'none'; script-src http://127.0.0.1:*; connect-src http://127.0.0.1:*"
        return HTMLResponse(f"<title>Shop</title><h1>Shop</h1>{tag}", headers={"content-security-policy": policy})

    listener = listening_socket()
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    with on_server(Starlette(routes=[Route("/", home)]), listener), opened(browser, viewport=PHONE) as page:
        page.goto(address)
        launcher = page.get_by_role("button", name="Help")
        launcher.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Help")).to_be_visible()
        expect(page.get_by_label("Message")).to_be_focused()
        page.keyboard.type("<b>Hi</b>")
        page.keyboard.press("Enter")
        expect(answer(page)).to_contain_text("<b>Hi</b>")
        expect(page.get_by_role("log")).to_have_attribute("aria-busy", "false")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name="Help")).to_be_hidden()
        expect(launcher).to_be_focused()
        assert overflow(page) == 0


def test_a_site_that_is_not_allowed_is_told_so(browser: Browser, site: Live) -> None:
    with opened(browser) as page:
        chat(page, site, "inst_unknown")
        say(page, "Hello")
        expect(page.get_by_role("alert")).to_contain_text("This assistant cannot be used on this page.")


def seconds(text: str) -> int:
    return int(text.partition("again in ")[2].partition(" ")[0])


def test_older_entries_are_shown_on_request(page: Page, site: Live) -> None:
    line = bought_by_somebody(site)
    for number in range(55):
        made = site.post(PLANE, f"/wallets/{line['walletId']}/topups", {"credits": 1}, key=f"t-{new_id()}-{number}")
        assert made.is_success, made.text
    ticket = site.post(PLANE, "/buyers/sessions", {"userId": line["user"]}).json()["ticket"]
    page.goto(f"{site.urls[PLANE]}/#ticket={ticket}")
    expect(page.locator("#entries tr")).to_have_count(50)
    page.get_by_role("button", name="Older entries").click()
    expect(page.locator("#entries tr")).to_have_count(56)
    expect(page.get_by_role("button", name="Older entries")).to_be_hidden()
