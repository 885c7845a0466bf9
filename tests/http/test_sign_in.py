"""The sign-in that all pages share: one session for all, back to where one wanted to go, and never to another site."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from playwright.sync_api import expect, sync_playwright

from holdfast.base import Secret
from holdfast.catalog import CORE
from holdfast.console import console
from holdfast.http.asgi import Receive, Reply, Scope, Send, give
from holdfast.http.front import Front, Mount
from holdfast.http.return_path import checked
from holdfast.http.sessions import COOKIE, SESSION_S, Sessions
from holdfast.http.sign_in import SignIn, ask_to_sign_in
from holdfast.http.wrong_tokens import TRIES_MAX, WRONG_TOKENS
from holdfast.store import Store

from .edge_servers import served

TOKEN = "the token of the operator"
HTML = {"accept": "text/html"}
ADDRESS = "http://ops.test"
CHROMIUM = "/usr/bin/chromium"
PATIENCE_MS = 60_000

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A session does not depend on the engine."""
    opened = Store.open(f"sqlite:///{tmp_path / 'sessions.db'}")
    opened.migrate()
    WRONG_TOKENS.forget()
    yield opened
    opened.close()


def site(store: Store, *, address: str = ADDRESS, token: str = TOKEN) -> Front:
    """Two systems and the console, as `holdfast serve` mounts them."""
    sessions = Sessions(store, Secret(token))

    async def pages(scope: Scope, _: Receive, send: Send) -> None:
        asked = None if await sessions.holds(scope) else ask_to_sign_in(scope)
        told = f"{scope['path']}?{scope['query_string'].decode()}".encode()
        await give(asked or Reply(body=told, content_type="text/plain"), send, head=False)

    def mounted(path: str) -> Mount:
        return Mount(path=path, app=SignIn(pages, sessions, title=path, address=f"{address}{path}"))

    page = console(store, Secret(token), [CORE], address=f"{address}/console")
    return Front([mounted("/one"), mounted("/two"), Mount(path="/console", app=page.app)])


@pytest.fixture
def browser(store: Store) -> Iterator[httpx.Client]:
    """A client that keeps its cookies and follows nothing."""
    with visiting(site(store)) as client:
        yield client


@contextmanager
def visiting(front: Front) -> Iterator[httpx.Client]:
    with served(front) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_MS / 1e3) as client:
        yield client


def sign_in(client: httpx.Client, *, path: str = "/one/sign-in", token: str = TOKEN, **more: str) -> httpx.Response:
    return client.post(path, data={"token": token, **more}, headers=HTML)


@pytest.mark.parametrize("path", ["/one/", "/one/a/b?scope=endpoint%3Aep_1&x=%C3%A9", "/one/people/a%2Fb/100%25"])
def test_after_signing_in_one_is_where_one_wanted_to_go(browser: httpx.Client, path: str) -> None:
    asked = browser.get(path, headers=HTML)
    assert asked.status_code == 303
    form = browser.get(urljoin(f"{browser.base_url}{path}", asked.headers["location"]), headers=HTML)
    wanted = form.text.partition('name="next" value="')[2].partition('"')[0].replace("&amp;", "&")
    entered = sign_in(browser, next=wanted)
    assert entered.status_code == 303
    there = urljoin(f"{browser.base_url}/one/sign-in", entered.headers["location"])
    assert there == f"{browser.base_url}{path}"
    assert browser.get(there, headers=HTML).status_code == 200


FOREIGN = (
    "//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "evil", "",
    "/../two/", "/a/..%2f..%2ftwo", "/%2e%2e/two/", "/a\r\nset-cookie: x=1", "/é", "/a b", "/" + "a" * 3_000,
    "/sign-in?next=/sign-in", "/sign-out", "///evil.example", "/\t/evil.example",
)  # fmt: skip


@pytest.mark.parametrize("wanted", FOREIGN)
def test_nobody_is_led_to_another_site_or_another_system(browser: httpx.Client, wanted: str) -> None:
    assert checked(wanted) == "/"
    entered = sign_in(browser, next=wanted)
    assert (entered.status_code, entered.headers["location"]) == (303, "./")
    assert "x" not in entered.headers


def test_a_wrong_token_is_told_on_the_page_and_where_one_wanted_to_go_is_kept(browser: httpx.Client) -> None:
    refused = sign_in(browser, token="guess", next="/a?b=1#c")
    assert (refused.status_code, "set-cookie" in refused.headers) == (401, False)
    assert "That is not the token." in refused.text
    assert 'name="next" value="/a?b=1#c"' in refused.text


def test_too_many_wrong_tokens_are_told_on_the_page(browser: httpx.Client) -> None:
    replies = [sign_in(browser, token="guess", next="/a") for _ in range(TRIES_MAX + 1)]
    assert replies[-1].status_code == 429
    assert 1 <= int(replies[-1].headers["retry-after"]) <= 60
    assert "Too many wrong tokens" in replies[-1].text
    assert sign_in(browser).status_code == 303, "guesses do not lock the operator out"


def test_one_sign_in_opens_the_console_and_every_system_and_signing_out_closes_all(browser: httpx.Client) -> None:
    pages = ("/one/", "/two/x", "/console/jobs")
    assert sign_in(browser).status_code == 303
    assert [browser.get(path, headers=HTML).status_code for path in pages] == [200, 200, 200]
    kept = {"cookie": f"{COOKIE}={browser.cookies[COOKIE]}", **HTML}
    assert browser.post("/two/sign-out", headers=HTML).headers["location"] == "./"
    assert [browser.get(path, headers=kept).status_code for path in pages] == [303, 303, 401]


def test_the_console_s_sign_in_opens_the_systems(browser: httpx.Client) -> None:
    entered = browser.post("/console/enter", data={"token": TOKEN}, headers={**HTML, "origin": ADDRESS})
    assert entered.status_code == 303
    assert browser.get("/one/", headers=HTML).status_code == 200


def test_whoever_has_signed_in_already_goes_straight_on(browser: httpx.Client) -> None:
    sign_in(browser)
    assert browser.get("/two/sign-in?next=/x", headers=HTML).headers["location"] == "./x"


def test_the_cookie_is_kept_from_scripts_and_other_sites(store: Store, browser: httpx.Client) -> None:
    cookie = sign_in(browser).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_S}"} <= set(cookie.split("; "))
    assert (TOKEN in cookie, "Secure" in cookie) == (False, False)
    with visiting(site(store, address="https://ops.test")) as behind_a_proxy:
        assert "Secure" in sign_in(behind_a_proxy).headers["set-cookie"]


def test_another_token_ends_every_session(store: Store, browser: httpx.Client) -> None:
    sign_in(browser)
    kept = {"cookie": f"{COOKIE}={browser.cookies[COOKIE]}", **HTML}
    with visiting(site(store, token="another")) as later:
        assert later.get("/one/", headers=kept).status_code == 303


@pytest.mark.parametrize("path", ["sign-in", "sign-out"])
@pytest.mark.parametrize("foreign", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_no_page_of_another_site_signs_anybody_in_or_out(
    browser: httpx.Client, path: str, foreign: dict[str, str]
) -> None:
    sign_in(browser)
    reply = browser.post(f"/one/{path}", data={"token": TOKEN}, headers=foreign)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert browser.get("/one/", headers=HTML).status_code == 200


def test_no_form_breaks_the_sign_in(browser: httpx.Client) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded"}
    many = "&".join(f"f{number}=1" for number in range(50))
    statuses = [
        browser.post("/one/sign-in", content=body, headers=kind).status_code
        for body in (many, b"token=%ff\xff", b"", b"token=" + b"x" * 9_000)
    ]
    assert statuses == [401, 401, 401, 413]
    assert browser.put("/one/sign-in").status_code == 405
    assert browser.get("/one/sign-out").headers["location"] == "./"


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="chromium is not installed: the page was NOT looked at")
def test_a_person_comes_back_to_the_very_place_with_what_is_behind_the_hash(store: Store) -> None:
    with served(site(store)) as port, sync_playwright() as play:
        url = f"http://127.0.0.1:{port}"
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=PATIENCE_MS)
        page = chromium.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        page.set_default_timeout(PATIENCE_MS)
        troubles: list[str] = []
        page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
        page.goto(f"{url}/one/a?b=1#run_7")
        assert page.evaluate("document.activeElement.id") == "token"
        page.get_by_label("Operator’s token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{url}/one/a?b=1#run_7")
        assert troubles == []
        page.goto(f"{url}/two/")
        expect(page.get_by_text("/two/?")).to_be_visible()
        chromium.close()
