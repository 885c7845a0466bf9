"""Signing in leads to where one wanted to go, and a form that came too late is neither done nor lost."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.http.sessions import SESSION_S
from holdfast.store import Store
from holdfast.testing import instant
from holdfast.worker import Jobs, Queues

from .asking import Answer, Asker, asker
from .browser import CHROMIUM, browser
from .standing import ROOT, TOKEN, standing

PATIENCE_MS = 60_000
FORM = {"name": "mail & co", "reason": "the provider\u2019s <window>", "back": "/?scope=queue:mail"}


@pytest.fixture
def store(tmp_path: Any) -> Iterator[Store]:
    """Who may come in does not depend on the engine."""
    opened = Store.open(f"sqlite:///{tmp_path / 'signing-in.db'}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def outside(store: Store) -> Asker:
    return asker(store)


def fields(answer: Answer) -> dict[str, str]:
    """The hidden fields of the page's own forms, the last of a name."""
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', answer.text)
    return {html.unescape(name): html.unescape(value) for name, value in found}


def signed_in(outside: Asker, answer: Answer, **changes: str) -> Answer:
    return outside.post("/enter", {**fields(answer), "token": TOKEN, **changes})


@pytest.mark.parametrize("path", ["/jobs?state=failed&text=a%26b", "/jobs/1", "/dead", "/", "/?scope=queue:mail"])
def test_signing_in_leads_to_the_page_that_was_asked_for(outside: Asker, path: str) -> None:
    asked = outside.get(path)
    assert asked.status == 401
    there = signed_in(outside, asked).headers["location"]
    assert html.unescape(there).replace("%3A", ":") == ROOT + path


def test_a_wrong_token_does_not_forget_where_one_wanted_to_go(outside: Asker) -> None:
    asked = signed_in(outside, outside.get("/dead?queue=mail"), token="wrong")
    assert asked.status == 401
    assert signed_in(outside, asked).headers["location"] == f"{ROOT}/dead?queue=mail"


@pytest.mark.parametrize(
    "there",
    ["//evil.test/", "https://evil.test/", "/\\evil.test", "javascript:alert(1)", "", "/\tevil", "\\\\evil.test", "x"],
)
def test_nobody_is_sent_to_another_site(outside: Asker, there: str) -> None:
    answer = outside.post("/enter", {"token": TOKEN, "next": there})
    assert (answer.status, answer.headers["location"]) == (303, f"{ROOT}/")


@pytest.mark.parametrize("path", ["/live?of=/jobs", "/nowhere", "/enter?token=used"])
def test_what_is_not_a_page_leads_to_the_first_one(outside: Asker, path: str) -> None:
    outside.client = ("127.0.0.1", 5)
    assert signed_in(outside, outside.get(path)).headers["location"] == f"{ROOT}/"


def test_the_way_in_without_a_token_asks_for_it_and_leads_on_who_is_inside(outside: Asker) -> None:
    assert 'name="token"' in outside.get("/enter").text
    outside.enter()
    assert outside.get("/enter").headers["location"] == f"{ROOT}/"


def too_late(outside: Asker, path: str, form: dict[str, str]) -> Answer:
    """The reply to a form that is sent when the session has ended."""
    with instant() as time:
        outside.enter()
        csrf = outside.get("/").csrf
        time.advance(SESSION_S + 1)
        answer = outside.post(path, {"csrf": csrf, **form})
    outside.cookie = ""
    return answer


def test_a_form_that_comes_after_the_session_is_asked_for_again_and_loses_nothing(outside: Asker, store: Store) -> None:
    late = too_late(outside, "/queues/pause", FORM)
    assert late.status == 401
    assert "What you sent was not done" in late.text
    again = signed_in(outside, signed_in(outside, late, token="wrong"))
    assert again.status == 200
    assert "Nothing was done yet." in again.text
    assert Queues(store).status() == [], "nothing is done before the person sends it again"
    shown = fields(again)
    assert shown["name"] == FORM["name"]
    assert f'name="reason" value="{html.escape(FORM["reason"])}"' in again.text
    assert f'action="{ROOT}/queues/pause"' in again.text
    outside.cookie = again.cookie
    done = outside.post("/queues/pause", {**shown, "reason": FORM["reason"]})
    assert (done.status, done.headers["location"].partition("&said=")[0]) == (303, f"{ROOT}/?scope=queue:mail")
    [queue] = Queues(store).status()
    assert (queue.name, queue.paused_reason) == (FORM["name"], FORM["reason"])


def test_the_word_of_the_old_session_and_the_token_are_not_kept(outside: Asker) -> None:
    late = too_late(outside, "/queues/pause", {**FORM, "token": "my-secret"})
    assert {name for name in fields(late) if "csrf" in name or "token" in name} == set()
    assert "my-secret" not in late.text


def test_a_form_of_another_session_is_shown_again_instead_of_being_lost(outside: Asker, store: Store) -> None:
    """Signed in again in another window: the form that is open here has the word of the first session."""
    old = outside.enter().get("/").csrf
    outside.enter()
    answer = outside.post("/queues/pause", {**FORM, "csrf": old})
    assert answer.status == 403
    assert Queues(store).status() == []
    assert outside.post("/queues/pause", {**fields(answer), "reason": FORM["reason"]}).status == 303
    assert Queues(store).status()[0].paused


@pytest.mark.parametrize("origin", ["http://evil.test", "null", ""])
def test_nothing_is_kept_of_what_another_site_sends(outside: Asker, origin: str) -> None:
    answer = outside.post("/queues/pause", FORM, origin=origin)
    assert answer.status == 401
    assert FORM["name"] not in html.unescape(answer.text)
    outside.enter()
    answer = outside.post("/queues/pause", FORM, origin=origin)
    assert answer.status == 403
    assert FORM["name"] not in html.unescape(answer.text)


@pytest.mark.parametrize("action", ["/leave", "/enter", "/nowhere", "https://evil.test/", "/jobs", "//evil.test"])
def test_only_a_form_of_ours_is_shown_again(outside: Asker, action: str) -> None:
    answer = outside.post("/enter", {"token": TOKEN, "form_action": action, "form.name": "x"})
    assert answer.status == 303


def test_a_form_that_is_too_large_is_still_asked_for_the_token(outside: Asker) -> None:
    assert outside.post("/queues/pause", {"name": "x" * 20_000}).status == 401
    largest = {"name": "mail", "reason": "x" * 1_000, **{f"a{number}": "é" * 40 for number in range(40)}}
    assert signed_in(outside, too_late(outside, "/queues/pause", largest)).status == 200


UNREADABLE = (
    ("/jobs", {"state": "odd", "since": "yesterday", "queue": "mail", "text": "a b"}, {"state", "since"}),
    ("/dead", {"until": "soon", "code": "NOT_FOUND"}, {"until"}),
    ("/deliveries", {"since": "0x", "until": "1y", "type": "order.paid"}, {"since", "until"}),
    ("/audit", {"kind": "door", "who": "ann"}, {"kind"}),
)


@pytest.mark.parametrize(("path", "query", "wrong"), UNREADABLE)
def test_a_filter_that_cannot_be_read_is_kept_and_says_what_is_wrong(
    outside: Asker, path: str, query: dict[str, str], wrong: set[str]
) -> None:
    answer = outside.enter().get(path + "?" + "&".join(f"{name}={quote(value)}" for name, value in query.items()))
    assert answer.status == 400
    for name, value in query.items():
        field = re.search(rf'<(?:input|select)[^>]* name="{name}".*?</label>', answer.text, re.DOTALL)
        assert field is not None
        assert f'value="{value}"' in field[0], "what was filled in stands there"
        assert ('aria-invalid="true"' in field[0]) is (name in wrong)
        assert (f'id="problem-{name}"' in field[0]) is (name in wrong)
    assert f"{len(wrong)} field" in answer.text


@pytest.mark.parametrize("path", ["/jobs?state=odd", "/audit?kind=door", "/dead?since=x", "/deliveries?until=x"])
def test_programs_read_a_problem(outside: Asker, path: str) -> None:
    answer = outside.enter().get(path, accept="application/json")
    assert (answer.status, b"BAD_REQUEST" in answer.body) == (400, True)


def test_a_search_is_trimmed(outside: Asker, store: Store) -> None:
    Jobs(store).enqueue("mail.send", queue="mail")
    outside.enter()
    for path in ("/jobs?queue=%20mail%09", "/jobs?text=%20%20&kind=mail.send%0A", "/jobs?since=%201h%20"):
        assert "1 shown" in outside.get(path).text, path
    assert 'value="mail"' in outside.get("/jobs?queue=%20mail%20").text
    assert "NOT_FOUND" in outside.get("/faults?text=%20NOT_FOUND%20").text


@pytest.mark.skipif(not CHROMIUM, reason="NO BROWSER: install Chromium to run the console's browser tests")
def test_a_person_whose_session_ends_goes_on_where_they_were(store: Store) -> None:
    Jobs(store).enqueue("mail.send", queue="mail", delay_s=600)
    with standing(store) as here, browser() as chromium:
        page = chromium.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{here.address}/jobs?queue=mail#jobs")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Enter").click()
        page.wait_for_url("**/jobs?queue=mail#jobs")
        page.get_by_role("textbox", name="Since").fill("yesterday")
        page.get_by_role("button", name="Filter").click()
        field = page.get_by_role("textbox", name="Since")
        assert (field.input_value(), field.get_attribute("aria-invalid")) == ("yesterday", "true")
        page.locator("#problem-since").wait_for()
        page.get_by_role("link", name="Overview").click()
        page.locator("summary", has_text="Pause, resume, probe").click()
        page.get_by_label("Why").fill("maintenance")
        page.context.clear_cookies()
        page.get_by_role("button", name="Pause").click()
        page.get_by_text("The session has ended.").wait_for()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Enter").click()
        page.get_by_text("Nothing was done yet.").wait_for()
        assert page.get_by_label("Why").input_value() == "maintenance"
        assert not Queues(store).status()[0].paused
        page.get_by_role("button", name="Pause").click()
        page.get_by_text("Done: pause").wait_for()
        assert Queues(store).status()[0].paused_reason == "maintenance"


def test_the_forms_of_the_console_are_sent_to_ourselves(outside: Asker) -> None:
    late = too_late(outside, "/queues/pause", FORM)
    assert re.findall(r'action="([^"]*)"', late.text) == [f"{ROOT}/enter"]
