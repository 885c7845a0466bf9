"""Requests that cannot be right: a clear 4xx with a code, whatever was sent."""

from __future__ import annotations

import html

import pytest

from holdfast.console.app import path_below_root
from holdfast.store import Store
from holdfast.worker import Queues

from .asking import Asker
from .standing import ROOT

UNREADABLE = (
    "/jobs?state=gone",
    "/jobs?since=yesterday",
    "/jobs?until=2026-13-01",
    "/jobs?before=nonsense",
    "/jobs?before=[1]",
    '/jobs?before=["a","b"]',
    '/jobs?state=failed&before=[99999999999999999999999,"a"]',
    "/jobs?state=queued&before=[1,2,3,4,5]",
    "/dead?before={}",
    "/dead?since=1x",
    "/deliveries?since=0001-01-01T00:00%2B14:00",
    "/dead/revive?until=9999-12-31T23:59-14:00",
    "/deliveries?state=odd",
    "/deliveries?before=[1,2]",
    "/?scope=planet:mars",
    "/?range=forever",
    "/jobs?" + "&".join(f"a{n}=1" for n in range(60)),
    "/jobs?text=" + "x" * 600,
    "/jobs?text=" + "x" * 5_000,
    "/live?of=/jobs%3Fbefore=nonsense",
    "/live?of=/jobs%3F" + "%26".join(f"a{n}=1" for n in range(60)),
)


def test_what_cannot_be_read_is_refused_with_a_code(inside: Asker) -> None:
    for path in UNREADABLE:
        answer = inside.get(path, accept="application/json")
        assert (answer.status, b"BAD_REQUEST" in answer.body) == (400, True), path
        assert inside.get(path).status == 400


MISSING = (
    "/nowhere",
    "/jobs/none",
    "/jobs/a/b/c",
    "/faults/NO_SUCH_CODE",
    "/dead/progress/none",
    "/table/none",
    "/static/secrets.txt",
    "/static/../app.py",
    "/jobs/\0",
)


def test_what_is_not_there_is_not_found(inside: Asker) -> None:
    assert {path: inside.get(path).status for path in MISSING} == dict.fromkeys(MISSING, 404)


ODD = (
    "/jobs?text=%00%FF%ED%A0%80",
    "/jobs?since=2h&until=1h",
    "/jobs?state=&queue=",
    "/jobs?state=complete&code=NOT_FOUND",
    "/jobs?since=999999999d",
    "/jobs?state=failed&until=999999999d",
    "/dead?since=999999999d",
    "/dead/revive?until=999999999d",
    "/deliveries?since=999999999d",
    "/deliveries?tenant=%27%20OR%201=1--",
    "/dead?fingerprint=none",
    "/?scope=link:nobody",
)


def test_odd_filters_find_nothing_and_break_nothing(inside: Asker) -> None:
    assert {path: inside.get(path).status for path in ODD} == dict.fromkeys(ODD, 200)


def test_a_queue_may_have_any_name(inside: Asker, store: Store) -> None:
    for name in ("a/b", "..", "ü?&=#%2F", "x" * 200):
        assert inside.act("/queues/pause", {"name": name, "reason": "r"}).status == 303
        assert f'value="{html.escape(name)}"' in inside.get("/").text
        assert inside.act("/queues/resume", {"name": name}).status == 303
    assert {one.name for one in Queues(store).status()} == {"a/b", "..", "ü?&=#%2F", "x" * 200}


REFUSED = (
    ("/queues/pause", {"name": "mail"}, 400),
    ("/queues/pause", {"name": "mail", "reason": "x" * 1_001}, 400),
    ("/queues/pause", {"name": "q" * 300, "reason": "r"}, 400),
    ("/queues/pause", {"reason": "r"}, 400),
    ("/queues/explode", {"name": "mail"}, 404),
    ("/queues/resume", {"name": "mial"}, 404),
    ("/jobs/none/revive", {}, 404),
    ("/jobs/none/cancel", {}, 404),
    ("/breakers/trip", {"name": "none", "open_s": "60"}, 404),
    ("/breakers/trip", {"name": "none", "open_s": "-1"}, 400),
    ("/breakers/probe", {"name": "none"}, 404),
    ("/dead/revive", {"since": "yesterday"}, 400),
    ("/nowhere", {}, 404),
)


def test_a_form_that_cannot_be_carried_out_says_why(inside: Asker) -> None:
    for path, form, status in REFUSED:
        assert inside.act(path, form).status == status, (path, form)


def test_a_form_is_bounded_and_of_one_kind(inside: Asker) -> None:
    assert inside.post("/queues/pause", {"name": "mail", "reason": "x" * 20_000}).status == 413
    assert inside.post("/queues/pause", {"name": "mail"}, content_type="application/json").status == 415
    refused = inside.ask("PUT", "/jobs")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
    assert inside.get("/queues/pause").headers["allow"] == "POST"
    assert inside.ask("HEAD", "/jobs").body == b""


def test_nobody_is_sent_to_another_site(inside: Asker) -> None:
    for back in ("//evil.test/", "https://evil.test/", "/\\evil.test", "javascript:alert(1)", ""):
        answer = inside.act("/queues/pause", {"name": "mail", "reason": "r", "back": back})
        assert answer.status == 303
        assert answer.headers["location"].startswith(f"{ROOT}/?said=")


@pytest.mark.parametrize(
    ("root", "path", "below"),
    [("/console", "/console/jobs", "/jobs"), ("/console", "/jobs", "/jobs"), ("/console", "/console", "/"),
     ("", "/jobs", "/jobs"), ("/c/", "/c/dead", "/dead"), ("/console", "/consoles", "/consoles")],
)  # fmt: skip
def test_the_root_is_taken_off_where_it_stands(root: str, path: str, below: str) -> None:
    assert path_below_root({"root_path": root, "path": path}) == below
