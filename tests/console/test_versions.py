"""After an action nothing puts the old state back: not what was made before it, nor what another process made."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.console import live
from holdfast.store import Store
from holdfast.worker import Jobs

from .asking import Asker
from .standing import TOKEN, Standing, standing
from .test_live import Stream

NEVER_S = 100_000.0
"""Nothing is made again by itself: what a stream sends first is all that it sends."""


def still(here: Standing) -> Standing:
    here.console._app.streams._look_s = NEVER_S
    return here


@pytest.fixture
def here(store: Store) -> Iterator[Standing]:
    Jobs(store).enqueue("a", queue="mail")
    with standing(store) as one:
        yield still(one)


class Person:
    """Somebody at one of the consoles."""

    def __init__(self, here: Standing) -> None:
        self.origin = f"http://127.0.0.1:{here.port}"
        self.asker = Asker(here.console, headers={"host": f"127.0.0.1:{here.port}"})
        self.asker.cookie = self.asker.post("/enter", {"token": TOKEN}, origin=self.origin).cookie

    def pause(self) -> int:
        """Pause a queue; the version of the page that is shown then."""
        csrf = self.asker.get("/").csrf
        form = {"csrf": csrf, "name": "mail", "reason": "the provider sleeps"}
        assert self.asker.post("/queues/pause", form, origin=self.origin).status == 303
        return int(re.findall(r'data-version="(\d+)"', self.asker.get("/").text)[0])


def part(stream: Stream, name: str) -> dict[str, Any]:
    while (found := stream.part())["id"] != name:
        pass
    return found


def first(here: Standing, name: str = "queues", since: int = 0) -> dict[str, Any]:
    """What a new stream says first of a part."""
    stream = Stream(here, f"/&since={since}")
    try:
        return part(stream, name)
    finally:
        stream.close()


def test_what_was_made_before_an_action_is_not_shown_after_it(here: Standing) -> None:
    assert "the provider sleeps" not in first(here)["html"]
    Person(here).pause()
    assert "the provider sleeps" in first(here)["html"], "also to a page that was opened before"


def test_what_another_process_made_before_an_action_is_not_shown_after_it(here: Standing, store: Store) -> None:
    with standing(store) as other:
        still(other)
        before = first(other)
        assert "the provider sleeps" not in before["html"]
        shown = Person(here).pause()
        after = first(other, since=shown)
        assert "the provider sleeps" in after["html"]
        assert before["version"] < shown <= after["version"]


def test_versions_go_forward_also_where_the_clock_was_set_back(here: Standing) -> None:
    ahead = 9_000_000_000_000_000
    assert first(here, since=ahead)["version"] >= ahead
    assert first(here, since=ahead)["version"] >= ahead


def test_a_browser_that_asks_again_names_what_it_has_seen(here: Standing) -> None:
    ahead = 9_000_000_000_000_000
    headers = {"authorization": f"Bearer {TOKEN}", "last-event-id": str(ahead)}
    stream = Stream(here, "/", **headers)
    assert part(stream, "queues")["version"] >= ahead
    stream.close()


@pytest.mark.parametrize("since", ["", "x", "-1", "9" * 40, "1.5"])
def test_a_version_that_is_none_counts_as_none(here: Standing, since: str) -> None:
    stream = Stream(here, f"/&since={since}")
    assert part(stream, "queues")["version"] < 9_000_000_000_000_000
    stream.close()


def test_what_was_begun_before_an_action_is_not_kept_for_others(
    here: Standing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read before the action and is ready only after it."""
    real, person = live.page_for, Person(here)
    acted = threading.Event()

    def slow(*given: Any) -> Any:
        page = real(*given)
        if not acted.is_set():
            acted.set()
            person.asker.console._app.streams.forget()
        return page

    monkeypatch.setattr(live, "page_for", slow)
    first(here)
    assert acted.is_set()
    assert here.console._app.streams._made == {}
