"""The platform's pages: endpoints and their health, events, deliveries, dead letters, and what is done about them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import httpx
import pytest

from holdfast.http.sessions import COOKIE
from holdfast.operate.audit_log import entries
from holdfast.store import Store
from holdfast.testing.processes import wait_until

from .live import OPERATOR, PATIENCE_S, TOKEN, Live, called, created
from .receiver import Receiver, Say
from .scene import dead, filled

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LAUNCH_MS = 90_000
HTML = {"accept": "text/html"}
PAGES = ("", "events", "events/evt_1", "deliveries", "dead-letters", "dead-letters/reprocess",
         "dead-letters/discard?event_id=evt_1")  # fmt: skip


@pytest.fixture
def scene(store: Store, tmp_path: Path) -> Iterator[tuple[Live, Receiver]]:
    with filled(store, tmp_path) as made:
        yield made


def signed_in(live: Live) -> dict[str, str]:
    reply = live.http.post("/platform/sign-in", data={"token": TOKEN})
    live.http.cookies.clear()
    return {**HTML, "cookie": reply.headers["set-cookie"].partition(";")[0]}


def page(live: Live, path: str, headers: dict[str, str]) -> str:
    reply = live.http.get(f"/platform/{path}", headers=headers)
    assert reply.status_code == 200, reply.text
    return reply.text


def csrf(text: str) -> str:
    return text.partition('name="csrf" value="')[2].partition('"')[0]


def send(live: Live, path: str, headers: dict[str, str], **form: str) -> httpx.Response:
    """Send a form of a page as its browser does."""
    asked = page(live, f"{path}?{httpx.QueryParams({k: v for k, v in form.items() if k != 'reason'})}", headers)
    return live.http.post(f"/platform/{path}", data={**form, "csrf": csrf(asked)}, headers=headers)


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_a_person_is_led_to_the_sign_in_and_a_program_is_refused(live: Live, path: str) -> None:
    asked = live.http.get(f"/platform/{path}", headers=HTML)
    up = "../" * path.partition("?")[0].count("/") or "./"
    assert (asked.status_code, asked.headers["location"].partition("?")[0]) == (303, f"{up}sign-in")
    program = live.http.get(f"/platform/{path}")
    assert (program.status_code, program.json()["error"]) == (401, "You are not signed in.")
    assert live.http.get(f"/platform/{path}", headers={"authorization": "Bearer guess"}).status_code == 401


def test_the_overview_shows_each_endpoint_with_its_url_and_health(scene: tuple[Live, Receiver]) -> None:
    live, receiver = scene
    text = page(live, "", signed_in(live))
    rows = text.split("<tr>")
    (good,) = [row for row in rows if receiver.url in row]
    (bad,) = [row for row in rows if "gotong_royong/broken" in row]
    assert "4 of 5" in good
    assert all(words in bad for words in ("failing", "vouch_submitted", "0 of 3"))
    endpoint = next(one for one in endpoints(live) if "broken" in one["url"])
    live.ask("POST", f"/platform/v1/endpoints/{endpoint['endpoint_id']}/disable?reason=moved")
    assert '>disabled</span><span class="detail">moved<' in page(live, "", signed_in(live))
    live.ask("DELETE", f"/platform/v1/endpoints/{endpoint['endpoint_id']}")
    assert "gotong_royong/broken" not in page(live, "", signed_in(live))


def endpoints(live: Live) -> list[dict[str, str]]:
    return list(live.ask("GET", "/platform/v1/endpoints").json()["endpoints"])


def test_an_event_opens_with_its_payload_and_every_attempt(scene: tuple[Live, Receiver]) -> None:
    live, _ = scene
    text = unescape(page(live, "events/evt_vouch", signed_in(live)))
    assert '"vouchee_id": "siti"' in text
    assert text.count(">retried<") == 2
    assert "The endpoint answered 500" in text
    assert 'href="../dead-letters?event_id=evt_vouch"' in text
    found = live.http.get("/platform/events?event_id=evt_vouch", headers=signed_in(live))
    assert (found.status_code, found.headers["location"]) == (303, "events/evt_vouch")


def test_what_is_not_there_and_what_cannot_be_meant_is_told_on_a_page(live: Live) -> None:
    cases = {"events/evt_none": 404, "deliveries?status=x": 400, "dead-letters?after=x": 400, "events?before=%00": 400,
             "dead-letters/discard": 400, "?" + "&".join(f"f{n}=1" for n in range(50)): 400}  # fmt: skip
    for path, status in cases.items():
        reply = live.http.get(f"/platform/{path}", headers=signed_in(live))
        assert (reply.status_code, "text/html" in reply.headers["content-type"]) == (status, True), path


def test_the_list_of_deliveries_is_narrowed_by_endpoint_and_state(scene: tuple[Live, Receiver]) -> None:
    live, receiver = scene
    headers = signed_in(live)
    every, failed = page(live, "deliveries", headers), page(live, "deliveries?status=failed", headers)
    assert [name in every for name in ("evt_good_0", "evt_refused")] == [True, True]
    assert [name in failed for name in ("evt_good_0", "evt_refused")] == [False, True]
    home = next(one["endpoint_id"] for one in endpoints(live) if one["url"] == receiver.url)
    of_one = page(live, f"deliveries?endpoint_id={home}&status=failed", headers)
    assert ("evt_refused" in of_one, "evt_vouch" in of_one) == (True, False)


def test_dead_letters_are_shown_by_cause_and_one_is_reprocessed_with_its_reason_in_the_audit(
    scene: tuple[Live, Receiver], store: Store
) -> None:
    live, _ = scene
    headers = signed_in(live)
    text = unescape(page(live, "dead-letters", headers))
    assert all(words in text for words in ("NOT_FOUND", "UPSTREAM_ERROR", "no such webhook", "database is locked"))
    question = page(live, "dead-letters/reprocess?event_id=evt_refused", headers)
    assert "Deliver 1 dead letter again?" in question
    moved = send(live, "dead-letters/reprocess", headers, event_id="evt_refused", reason="route is back")
    assert (moved.status_code, moved.headers["location"]) == (303, "../dead-letters?reprocessed=1")
    live.wait_event("evt_refused", "delivered")
    assert "1 are delivered again" in page(live, "dead-letters?reprocessed=1", headers)
    row = store.atomic(entries, write=False)[0]
    assert (row.verb, row.reason, row.actor_kind, row.done) == ("reprocess", "route is back", "console", 1)


def test_dead_letters_are_discarded(scene: tuple[Live, Receiver]) -> None:
    live, _ = scene
    headers = signed_in(live)
    moved = send(live, "dead-letters/discard", headers, event_id="evt_vouch")
    assert (moved.status_code, moved.headers["location"]) == (303, "../dead-letters?discarded=1")
    assert dead(live) == 1


def test_what_no_endpoint_would_receive_is_told_before_and_stays_as_it_is(scene: tuple[Live, Receiver]) -> None:
    live, receiver = scene
    headers = signed_in(live)
    broken = next(one["endpoint_id"] for one in endpoints(live) if "broken" in one["url"])
    live.ask("DELETE", f"/platform/v1/endpoints/{broken}")
    receiver.always = Say(200)
    question = unescape(page(live, "dead-letters/reprocess", headers))
    assert "Deliver 1 dead letter again?" in question
    assert f"1 dead letter of {broken} with UPSTREAM_ERROR will stay as they are: the endpoint was removed." in question
    assert send(live, "dead-letters/reprocess", headers).headers["location"].endswith("?reprocessed=1&rejected=1")
    refused = live.http.post(
        "/platform/dead-letters/reprocess",
        data={"endpoint_id": broken, "csrf": csrf(question)},
        headers=headers,
    )
    assert (refused.status_code, "was removed" in refused.text) == (409, True)
    wait_until(lambda: dead(live) == 1, within_s=PATIENCE_S, what="one is left")


def test_nothing_is_done_without_a_form_of_our_own(scene: tuple[Live, Receiver]) -> None:
    live, _ = scene
    headers = signed_in(live)
    token = csrf(page(live, "dead-letters/reprocess", headers))
    path = "/platform/dead-letters/reprocess"
    foreign = {**headers, "origin": "https://evil.example"}
    refused = [
        live.http.post(path, data={}, headers=headers),
        live.http.post(path, data={"csrf": "0" * 64}, headers=headers),
        live.http.post(path, data={"csrf": token}, headers=foreign),
    ]
    assert [reply.status_code for reply in refused] == [403, 403, 403]
    assert live.http.post(path, data={}).status_code == 401
    assert dead(live) == 2


def test_a_form_sent_after_the_session_ended_is_asked_again_with_everything_in_it(scene: tuple[Live, Receiver]) -> None:
    live, _ = scene
    form = {"event_id": "evt_refused", "reason": "route is back, see #7", "csrf": "old"}
    gone = live.http.post("/platform/dead-letters/reprocess", data=form, headers=HTML)
    assert gone.status_code == 303
    asked = httpx.URL(f"{live.url}/platform/dead-letters/reprocess").join(gone.headers["location"])
    entered = live.http.post(str(asked.copy_with(query=None)), data={"token": TOKEN, "next": asked.params["next"]})
    there = httpx.URL(str(asked)).join(entered.headers["location"])
    headers = {**HTML, "cookie": f"{COOKIE}={live.http.cookies[COOKIE]}"}
    again = live.http.get(str(there), headers=headers)
    assert "Deliver 1 dead letter again?" in again.text
    assert 'value="route is back, see #7"' in again.text
    assert dead(live) == 2, "nothing was done meanwhile"


def test_text_of_others_is_shown_and_never_run(store: Store, tmp_path: Path) -> None:
    with called(store, tmp_path) as live:
        made = created("evt_1")
        made["subject"]["title"] = "<script>alert(1)</script>"
        live.ask("POST", "/platform/v1/events", json=made)
        reply = live.http.get("/platform/events/evt_1", headers={**OPERATOR, **HTML})
    assert "<script>" not in reply.text
    assert "&lt;script&gt;" in reply.text
    assert "script" not in reply.headers["content-security-policy"]


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: the pages were NOT looked at in a browser")
def test_a_person_finds_out_why_and_sends_again_on_a_desktop_and_on_a_phone_in_the_dark(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    store = Store.open(f"sqlite:///{tmp_path / 'page.db'}")
    store.migrate()
    with filled(store, tmp_path) as (live, _), sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=LAUNCH_MS)
        troubles: list[str] = []
        for size, scheme, event_id in (((1_200, 900), "light", "evt_refused"), ((390, 844), "dark", "evt_vouch")):
            context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
            context.set_default_timeout(PATIENCE_S * 1_000)
            tab = context.new_page()
            tab.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
            tab.goto(f"{live.url}/platform/dead-letters?event_id={event_id}")
            tab.get_by_label("Operator’s token").fill(TOKEN)
            tab.get_by_role("button", name="Sign in").click()
            tab.wait_for_url(f"{live.url}/platform/dead-letters?event_id={event_id}")
            assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
            tab.get_by_role("link", name="Discard these" if event_id == "evt_vouch" else "Reprocess these").click()
            tab.get_by_label(re.compile("Reason")).fill("looked at it")
            tab.get_by_role("button", name=re.compile("dead letter")).click()
            tab.get_by_role("status").wait_for()
            for path in ("", "events", f"events/{event_id}", "deliveries", "dead-letters"):
                tab.goto(f"{live.url}/platform/{path}")
                tab.get_by_role("heading", level=1).wait_for()
                assert tab.evaluate("document.documentElement.scrollWidth") <= size[0], path
            # One sign-in is enough for the engine's pages too.
            tab.goto(f"{live.url}/engine/")
            tab.get_by_role("heading", name="Credentials").wait_for()
            context.close()
        browser.close()
        live.wait_event("evt_refused", "delivered")
        assert dead(live) == 0
    store.close()
    assert troubles == []
