"""Live updates in a real browser: what a person sees after an action is what the action did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.store import Store
from holdfast.worker import Jobs

from .browser import CHROMIUM, browser
from .standing import standing
from .test_versions import still

PATIENCE_MS = 60_000
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="NO BROWSER: install Chromium to run the console's browser tests")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as one:
        yield one


@pytest.fixture
def page(chromium: Any, tmp_path: Any) -> Iterator[Any]:
    store = Store.open(f"sqlite:///{tmp_path / 'versions.db'}")
    store.migrate()
    jobs = Jobs(store)
    jobs.enqueue("a", queue="mail")
    with standing(store) as here:
        still(here)
        context = chromium.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(here.console.link)
        yield page
        context.close()
    jobs.close()
    store.close()


def test_a_queue_that_was_paused_and_resumed_never_shows_what_it_was_before(page: Any) -> None:
    states = "states"
    page.add_init_script(f"""
      sessionStorage.{states} = "";
      addEventListener("DOMContentLoaded", () => new MutationObserver(() => {{
        sessionStorage.{states} += " " + document.querySelector("#queues tbody .badge").textContent;
      }}).observe(document.querySelector("main"), {{childList: true, subtree: true, attributes: true}}));
    """)
    page.reload()
    page.wait_for_function("sessionStorage.states")  # the first parts have come
    for press, state, others in (("Pause", "paused", "no worker"), ("Resume", "no worker", "paused")):
        page.locator("summary", has_text="Pause, resume, probe").click()
        if press == "Pause":
            page.get_by_label("Why").fill("maintenance")
        page.get_by_role("button", name=press).click()
        page.get_by_text(f"Done: {press.lower()}").wait_for()
        page.wait_for_function("sessionStorage.states")
        seen = page.evaluate("sessionStorage.states") + page.locator("#queues tbody .badge").inner_text()
        assert state in seen
        assert others not in seen


def test_a_part_that_is_older_than_the_one_shown_is_dropped(page: Any) -> None:
    page.wait_for_selector("#live-state.on")
    shown = int(page.locator("#queues").get_attribute("data-version"))
    told = [(shown - 1, "an old state"), (shown + 2, "a new state"), (shown + 1, "late")]
    parts = [{"id": "queues", "version": version, "html": f"<div id=queues>{text}</div>"} for version, text in told]
    body = "".join(f"event: part\ndata: {json.dumps(one)}\n\n" for one in parts)
    page.route("**/live?**", lambda route: route.fulfill(content_type="text/event-stream", body=body))
    page.evaluate("""() => {
      window.seen = [];
      new MutationObserver(() => seen.push(document.getElementById("queues").textContent))
        .observe(document.querySelector("main"), {childList: true, subtree: true});
      dispatchEvent(new Event("pagehide"));
      dispatchEvent(new Event("pageshow"));
    }""")
    page.locator("#queues", has_text="a new state").wait_for()
    page.wait_for_selector("#live-state.off")  # all has been read
    assert page.evaluate("seen.filter((text) => text !== 'a new state')") == []


def test_a_part_that_came_while_text_was_chosen_is_shown_afterwards(page: Any) -> None:
    page.wait_for_selector("#live-state.on")
    shown = int(page.locator("#queues").get_attribute("data-version"))
    part = {"id": "queues", "version": shown + 1, "html": "<div id=queues>a new state</div>"}
    body = f"event: part\ndata: {json.dumps(part)}\n\n"
    # It comes once: whoever asks again gets nothing.
    page.route("**/live?**", lambda route: route.abort())
    page.route("**/live?**", lambda route: route.fulfill(content_type="text/event-stream", body=body), times=1)
    page.evaluate("""() => {
      getSelection().selectAllChildren(document.querySelector("#queues h2"));
      dispatchEvent(new Event("pagehide"));
      dispatchEvent(new Event("pageshow"));
    }""")
    page.wait_for_selector("#live-state.off")  # all has been read
    assert "a new state" not in page.locator("#queues").inner_text()
    page.evaluate("getSelection().removeAllRanges()")
    page.locator("#queues", has_text="a new state").wait_for()
