"""Live updates: what changes is sent, streams are bounded, and they end when they should."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from holdfast.console import live
from holdfast.store import Store
from holdfast.worker import Jobs, Queues

from .asking import Asker
from .standing import ROOT, TOKEN, Standing, standing

PATIENCE_S = 60.0
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def here(store: Store) -> Iterator[Standing]:
    with standing(store) as one:
        one.console._app.streams._look_s = 0.05
        yield one


class Stream:
    """One open stream, read line by line."""

    def __init__(self, here: Standing, of: str, **headers: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", here.port, timeout=PATIENCE_S)
        self.connection.request("GET", f"{ROOT}/live?of={of}", headers=headers or BEARER)
        self.reply = self.connection.getresponse()

    def part(self) -> dict[str, str]:
        """The next part that is sent."""
        while True:
            line = self.reply.readline()
            assert line, "the stream ended"
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    def close(self) -> None:
        self.reply.close()
        self.connection.close()


def test_what_changes_on_the_page_is_sent(here: Standing, store: Store) -> None:
    Jobs(store).enqueue("a", queue="mail")
    stream = Stream(here, "/")
    assert stream.reply.status == 200
    assert stream.reply.headers["content-type"].startswith("text/event-stream")
    assert "script-src 'self'" in stream.reply.headers["content-security-policy"]
    Queues(store).pause("mail", "the provider sleeps")
    while True:
        part = stream.part()
        if part["id"] == "queues" and "the provider sleeps" in part["html"]:
            break
    stream.close()


def test_only_what_changed_is_sent_again(here: Standing, store: Store) -> None:
    Jobs(store).enqueue("a", queue="mail")
    stream = Stream(here, "/limits")
    first = stream.part()
    assert first["id"] == "limits"
    store.atomic(
        lambda tx: tx._execute("INSERT INTO holdfast_rate_limit VALUES ('per key', 'k', 9000000000000000)", {})
    )
    second = stream.part()
    assert (second["id"], "per key" in second["html"], "per key" in first["html"]) == ("limits", True, False)
    stream.close()


def test_there_are_so_many_streams_and_no_more(here: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "STREAMS_MAX", 2)
    open_ones = [Stream(here, "/limits") for _ in range(2)]
    for one in open_ones:
        one.part()
    refused = Stream(here, "/limits")
    assert refused.reply.status == 503
    assert b"CONSOLE_BUSY" in refused.reply.read()
    for one in (*open_ones, refused):
        one.close()
    while True:  # a browser that goes makes room
        again = Stream(here, "/limits")
        if again.reply.status == 200:
            break
        again.close()
    again.part()
    again.close()


def test_streams_end_when_the_console_is_closed(here: Standing) -> None:
    stream = Stream(here, "/limits")
    stream.part()
    here.console.close()
    assert b"data:" not in stream.reply.read(), "it ends, and nothing more comes"
    refused = Stream(here, "/limits")
    assert refused.reply.status == 503
    stream.close()
    refused.close()


def test_whoever_leaves_sees_nothing_more(here: Standing, store: Store) -> None:
    visitor = Asker(here.console, headers={"host": f"127.0.0.1:{here.port}"})
    origin = f"http://127.0.0.1:{here.port}"
    visitor.cookie = visitor.post("/enter", {"token": TOKEN}, origin=origin).cookie
    stream = Stream(here, "/limits", cookie=visitor.cookie)
    stream.part()
    assert visitor.post("/leave", {"csrf": visitor.get("/").csrf}, origin=origin).status == 303
    store.atomic(
        lambda tx: tx._execute("INSERT INTO holdfast_rate_limit VALUES ('per key', 'k', 9000000000000000)", {})
    )
    assert b"per key" not in stream.reply.read(), "the stream ends"
    stream.close()


@pytest.mark.parametrize(("of", "status"), [("/nowhere", 404), ("/jobs?state=odd", 400)])
def test_a_page_that_is_not_there_has_no_stream(here: Standing, of: str, status: int) -> None:
    stream = Stream(here, quote(of))
    assert stream.reply.status == status
    stream.close()


def test_a_silent_stream_shows_that_it_is_alive(here: Standing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.1)
    stream = Stream(here, "/limits")
    stream.part()
    while (line := stream.reply.readline()) != b": alive\n":
        assert line
    stream.close()
