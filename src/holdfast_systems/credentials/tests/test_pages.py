"""The page in a real browser: signing in, reading it, on a phone and in the dark; and that nothing shows without it."""

from __future__ import annotations

import re
import shutil
from html import escape, unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
import pytest

from holdfast.base import Secret, bus
from holdfast.console import console
from holdfast.http.front import Front, Mount
from holdfast.http.sessions import COOKIE
from holdfast.store import Store
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.proxy import FaultProxy
from holdfast_systems.credentials.faults import CREDENTIALS

from .live import OPERATOR, PATIENCE_S, TOKEN, Live, Straight, about, called, created, evidence, running, vouch

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

LAUNCH_MS = 90_000
TITLES = ("Planted 200 seedlings", "Led a workshop", "Brought rice to the warehouse")


def fill(live: Live) -> None:
    people = (("ibu_nurni", "Ibu Nurni"), ("budi", "Budi Farmer"), ("siti", "Dr Siti"))
    for place, (user, name) in enumerate(people):
        for number in range(3 - place):
            made = created(f"evt_{user}_{number}", f"contrib_{user}_{number}", user=user)
            made["actor"]["username"] = name
            made["subject"]["title"] = TITLES[number]
            live.send(made)
            live.send(evidence(f"evt_{user}_{number}_e", f"contrib_{user}_{number}"))
    live.send(about("contribution_verified", "evt_verified", "contrib_ibu_nurni_0"))
    live.send(about("contribution_rejected", "evt_rejected", "contrib_budi_1"))
    live.send(vouch("evt_vouch", "siti", "strong"))
    live.send(created("evt_long", "contrib_long", user="W" * 200))
    live.send(evidence("evt_early", "contrib_not_there_yet"))


HTML = {"accept": "text/html"}
PERSON = "/engine/people/gotong_royong/user123"


def test_without_signing_in_nothing_is_shown_but_the_way_to_the_form(live: Live) -> None:
    live.send(created("evt_1"))
    for path, way in (("/engine/", "./sign-in"), (PERSON, "../../sign-in?next=/people/gotong_royong/user123")):
        asked = live.http.get(path, headers=HTML)
        assert (asked.status_code, asked.headers["location"], asked.text) == (303, way, "")
        program = live.http.get(path)
        assert (program.status_code, program.json()["error"]) == (401, "You are not signed in.")
    form = live.http.get("/engine/sign-in", headers=HTML)
    assert (form.status_code, "Operator’s token" in form.text, "user123" in form.text) == (200, True, False)


def test_the_token_itself_opens_the_pages_too(live: Live) -> None:
    live.send(created("evt_1"))
    assert live.ask("GET", PERSON).status_code == 200


def test_a_forged_cookie_is_none(live: Live) -> None:
    forged = {"cookie": f"{COOKIE}=9999999999.{'0' * 64}"}
    assert live.http.get("/engine/", headers=forged).status_code == 401


def test_signed_in_no_script_runs_in_the_pages(live: Live) -> None:
    page = live.http.get("/engine/", headers=signed_in(live))
    assert "Credentials" in page.text
    assert "script" not in page.headers["content-security-policy"]


def test_text_of_users_is_shown_and_never_run(live: Live) -> None:
    made = created("evt_1", user="<b>u</b>")
    made["actor"]["username"] = "<script>alert(1)</script>"
    live.send(made)
    cookie = signed_in(live)
    page = live.http.get("/engine/", headers=cookie).text
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    link = page.partition('href="people/')[2].partition('"')[0]
    assert live.http.get(f"/engine/people/{link}", headers=cookie).status_code == 200


def signed_in(live: Live) -> dict[str, str]:
    reply = live.http.post("/engine/sign-in", data={"token": TOKEN})
    return {"cookie": reply.headers["set-cookie"].partition(";")[0]}


def test_each_person_has_a_page_of_their_own_whatever_their_id(live: Live) -> None:
    ids = ("a/b", "100%", "%2e", "100%25", "x?y#z", "é☃")
    for place, user in enumerate(ids):
        live.send(created(f"evt_{place}", user=user))
    cookie = signed_in(live)
    page = live.http.get("/engine/", headers=cookie).text
    for link in re.findall(r'href="(people/[^"]+)"', page):
        shown = live.http.get(f"/engine/{unescape(link)}", headers=cookie).text
        assert f"<h1>{escape(unquote(link.rpartition('/')[2]))}</h1>" in shown
    assert page.count('href="people/') == len(ids)


def test_somebody_who_is_not_known_gets_a_page_that_says_so(live: Live) -> None:
    for path in ("gotong_royong/nobody", "nowhere/user123", "gotong_royong/a%2Fb", "x"):
        reply = live.http.get(f"/engine/people/{path}", headers=signed_in(live))
        assert (reply.status_code, "Nothing is known of this user" in reply.text) == (404, True)
        assert f'href="{"../" * path.count("/")}../style.css"' in reply.text


def test_no_form_and_no_address_breaks_the_page(live: Live) -> None:
    many = "&".join(f"f{number}=1" for number in range(50))
    assert live.http.get(f"/engine/?{many}", headers=signed_in(live)).status_code == 200


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("path", ["/platform/", "/platform/events/evt_1", "/engine/", PERSON])
def test_while_the_database_is_away_a_person_gets_a_page_and_a_program_a_code(
    database_url: str, live: Live, tmp_path: Path, path: str
) -> None:
    parts = urlsplit(database_url)
    assert parts.port is not None
    told: list[tuple[object, object]] = []
    end = bus.listen(lambda verb, facts: told.append((verb, facts.get("code"))))
    with FaultProxy(parts.port) as proxy:
        store = Store.open(f"{PostgresAddress(proxy.port).dsn(parts.path[1:])}?wait_s=0.3")
        with called(store, tmp_path) as away:
            proxy.set(refuse=True, reset=True)
            page = away.ask("GET", path, headers=HTML)
            program = away.ask("GET", path)
        store.close()
    end()
    assert (page.status_code, page.headers["retry-after"]) == (503, "1")
    assert page.headers["content-type"].startswith("text/html")
    assert "Unable to connect to database" in page.text
    assert (program.status_code, program.json()["code"]) == (503, "DATABASE_CONNECTION_ERROR")
    assert told.count(("request.served", "DATABASE_CONNECTION_ERROR")) == 2, "the log has the code of both"


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: the page was NOT looked at in a browser")
def test_a_person_signs_in_and_reads_the_page_on_a_phone_in_the_dark(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    store = Store.open(f"sqlite:///{tmp_path / 'page.db'}")
    store.migrate()
    with running(store, tmp_path) as live, sync_playwright() as play:
        fill(live)
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LAUNCH_MS)
        troubles: list[str] = []
        for name, size, scheme in (("wide", (1_200, 900), "light"), ("phone", (390, 844), "dark")):
            context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
            context.set_default_timeout(PATIENCE_S * 1_000)
            page = context.new_page()
            page.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
            page.goto(f"{live.url}/engine/")
            page.get_by_label("Operator’s token").fill(TOKEN)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("heading", name="Credentials").wait_for()
            page.wait_for_load_state()
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
            number = page.get_by_role("row", name="Ibu Nurni").get_by_text("205")
            number.wait_for()
            assert number.evaluate("cell => cell.getClientRects().length && cell.offsetHeight") < 45  # on one line
            page.screenshot(path=str(tmp_path / f"{name}.png"), full_page=True)
            page.get_by_role("link", name="Ibu Nurni").click()
            page.get_by_role("heading", name="Ibu Nurni").wait_for()
            page.get_by_text("verified", exact=True).wait_for()
            page.get_by_role("button", name="Sign out").click()
            page.get_by_role("heading", name="Sign in").wait_for()
            context.close()
        browser.close()
    store.close()
    assert troubles == []


def test_several_platforms_are_chosen_between(store: Store, tmp_path: Path) -> None:
    from .live import settings_file

    text = '[platforms.other]\nsecrets = ["x"]\n'
    with called(store, tmp_path, environment=settings_file(tmp_path, text)) as live:
        page = live.http.get("/engine/?platform=other", headers=signed_in(live)).text
    assert 'href="./?platform=other" aria-current="page"' in page


def health_link(live: Live) -> str:
    """Where the page's link leads."""
    page = live.http.get("/engine/", headers=signed_in(live)).text
    return unescape(page.partition('href="/console/')[2].partition('"')[0])


@pytest.mark.parametrize("more", [False, True])
def test_the_health_link_leads_to_the_six_panels_of_the_endpoint_or_of_all(
    store: Store, tmp_path: Path, more: bool
) -> None:
    panels = ("Success rate", "Errors by status code", "Latency", "Dead letters", "Retries of a delivery",
              "Top error messages")  # fmt: skip
    with called(store, tmp_path) as live:
        if more:
            live.ask("POST", "/platform/v1/endpoints", json={"url": "https://hooks.example/in"})
        endpoints = live.ask("GET", "/platform/v1/endpoints").json()["endpoints"]
        link = health_link(live)
    page = console(store, Secret(TOKEN), [CREDENTIALS], address="http://127.0.0.1:9/console")
    with httpx.Client(transport=Straight(Front([Mount(path="/console", app=page.app)])), base_url="http://x") as client:
        reply = client.get(f"/console/{link}", headers=OPERATOR)
    page.close()
    assert reply.status_code == 200
    heading = "All endpoints" if more else f"Endpoint {endpoints[0]['endpoint_id']}"
    below = reply.text.partition(f">{heading}</h2>")[2]
    assert [title for title in panels if title not in below] == []
