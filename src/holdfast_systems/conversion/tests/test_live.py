"""Live status: a stream tells every change, rests when all is done, and there are only so many."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from holdfast.worker import Queues
from holdfast_systems.conversion import live

from .system import PATIENCE_S, Person, Running, holding, pdf

Site = Callable[..., Running]


def told(reply: httpx.Response) -> Iterator[tuple[str, Any]]:
    """The events of a stream: their names and what they carry."""
    name = ""
    for line in reply.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def stream(me: Person) -> Any:
    return me.http.stream("GET", "/api/events", timeout=PATIENCE_S)


def test_a_stream_tells_each_state_and_then_rests(solo: Site) -> None:
    seen: list[str] = []
    with ExitStack() as stack:
        gateway, go_on = stack.enter_context(holding())
        here = solo(GATEWAY=gateway)
        me = here.person()
        job_id = me.uploaded()
        reply = stack.enter_context(stream(me))
        assert reply.headers["content-type"].startswith("text/event-stream")
        events = told(reply)
        assert next(events)[1]["jobs"][0]["status"] == "queued"
        with here.working():
            for name, listing in events:
                if name == "rest":
                    break
                assert [job["id"] for job in listing["jobs"]] == [job_id]
                seen.append(listing["jobs"][0]["status"])
                if seen[-1] == "processing":
                    go_on.set()
    assert seen == ["processing", "complete"]


def test_a_page_where_nothing_is_going_on_keeps_no_stream(solo: Site) -> None:
    me = solo().person()
    with stream(me) as reply:
        assert [name for name, _ in told(reply)] == ["jobs", "rest"]


def test_a_change_by_another_process_is_told(solo: Site) -> None:
    here = solo()
    me = here.person()
    first = me.uploaded()
    with stream(me) as reply:
        events = told(reply)
        next(events)
        second = me.uploaded(pdf("another"))
        assert {job["id"] for job in next(events)[1]["jobs"]} == {first, second}


def test_a_stream_tells_nothing_about_others(solo: Site) -> None:
    here = solo()
    me, other = here.person(), here.person()
    other.uploaded()
    with stream(me) as reply:
        assert next(told(reply))[1]["jobs"] == []


def test_streams_are_limited_and_given_back(solo: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "STREAMS_PER_OWNER_MAX", 2)
    here = solo()
    me = here.person()
    me.uploaded()
    with ExitStack() as stack:
        held = [told(stack.enter_context(stream(me))) for _ in range(2)]
        for events in held:
            next(events)
        refused = me.http.get("/api/events")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "CONCURRENCY_EXCEEDED")
        assert refused.headers["retry-after"] == "5"
    monkeypatch.setattr(live, "STREAM_S", 0.0)
    with here.working():
        me.settled(me.listing()["jobs"][0]["id"])
    while (reply := me.http.get("/api/events")).status_code == 429:
        pass  # the server notices in its own time that the others have gone
    assert reply.status_code == 200


def test_a_stream_ends_by_itself_after_a_while(solo: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "STREAM_S", 0.3)
    me = solo().person()
    me.uploaded()
    with stream(me) as reply:
        assert [name for name, _ in told(reply)] == ["jobs"], "it says no rest: the browser asks again"


def test_that_the_queue_is_held_is_told(solo: Site) -> None:
    here = solo()
    me = here.person()
    me.uploaded()
    with stream(me) as reply:
        events = told(reply)
        assert next(events)[1]["gateway"] == {"paused": False, "message": None}
        Queues(here.store).pause("conversion", "a test")
        assert next(events)[1]["gateway"] == {
            "paused": True,
            "message": "Conversions are paused. They will go on later.",
        }


def test_streams_end_when_the_server_is_about_to_stop(solo: Site) -> None:
    here = solo()
    me = here.person()
    me.uploaded()
    with stream(me) as reply:
        events = told(reply)
        assert next(events)[0] == "jobs"
        here.system.closing()
        assert [name for name, _ in events if name == "rest"] == []
