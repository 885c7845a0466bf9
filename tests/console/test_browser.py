"""A person at the console: real clicks in a real browser, on a real worker that really fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.catalog.core import BAD_GATEWAY
from holdfast.policy import Backoff, Breaker, Retry
from holdfast.store import Store
from holdfast.worker import DeadLetters, Handlers, Job, Jobs, QueueSettings, Worker

from .browser import CHROMIUM, browser
from .standing import Standing, standing

PATIENCE_MS = 60_000
PATIENCE_S = 60.0
BREAKER = Breaker(failure_ratio=0.5, calls_min=3, window_s=60, open_s=300, probes=1)

# The summary of a run names every skip and why.
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="NO BROWSER: install Chromium to run the console's browser tests")


class Target:
    """What the handler calls: down until somebody repairs it."""

    def __init__(self) -> None:
        self.up = threading.Event()

    def call(self, job: Job) -> None:
        if not self.up.is_set():
            raise BAD_GATEWAY(upstream_status=502)


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:
    """What a person sees does not depend on the engine: the other tests look at both."""
    opened = Store.open(f"sqlite:///{tmp_path / 'console.db'}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def here(store: Store) -> Iterator[Standing]:
    with standing(store) as one:
        one.console._app.streams._look_s = 0.1
        yield one


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as one:
        yield one


@pytest.fixture
def page(chromium: Any, here: Standing) -> Iterator[Any]:
    """A person who has opened the link."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    one = context.new_page()
    one.set_default_timeout(PATIENCE_MS)
    trouble: list[str] = []
    one.on("pageerror", lambda error: trouble.append(str(error)))
    one.on("console", lambda message: trouble.append(message.text) if message.type == "error" else None)
    one.goto(here.console.link)
    yield one
    context.close()
    assert trouble == [], "the browser complained, about the content security policy for instance"


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def worker(store: Store, target: Target) -> Iterator[Worker]:
    handlers = Handlers()
    handlers.handle("charge", retry=Retry(attempts=1, backoff=Backoff.constant(0)))(target.call)
    queues = [QueueSettings("payments", concurrency=1, breaker=BREAKER), QueueSettings("plain", concurrency=2)]
    one = Worker(store, handlers, queues=queues, grace_s=5)
    one.start()
    yield one
    one.stop()
    assert one.join(PATIENCE_S)


def test_an_outage_opens_a_breaker_and_the_page_shows_the_hold(
    page: Any, worker: Worker, target: Target, store: Store
) -> None:
    page.wait_for_selector("#live-state.on")
    jobs = Jobs(store)
    for number in range(9):
        jobs.enqueue("charge", {"order": number}, queue="payments")
    row = page.locator("#queues tr", has_text="payments")
    row.get_by_text("holding").wait_for()  # by itself: nobody loads the page again
    said = row.inner_text()
    assert "jobs failed in the last 60 s, the last with BAD_GATEWAY" in said
    assert "next look at" in said
    row.get_by_role("link", name="breaker", exact=True).click()
    page.get_by_role("heading", name="payments").wait_for()
    page.locator("main").get_by_text("Jobs stay queued and spend no attempt.").wait_for()
    target.up.set()
    page.get_by_role("button", name="Probe: let one through").click()
    page.get_by_text("Done: probe").wait_for()
    page.locator("#breaker-0 .badge", has_text="closed").wait_for()
    page.get_by_role("link", name="Overview").click()
    page.locator("#queues tr", has_text="payments").get_by_text("running", exact=True).wait_for()
    jobs.close()


def test_a_group_of_dead_letters_is_revived_and_drains(page: Any, worker: Worker, target: Target, store: Store) -> None:
    jobs = Jobs(store)
    ids = [jobs.enqueue("charge", {"order": number}, queue="plain").id for number in range(12)]
    page.get_by_role("link", name="Dead letters").first.click()
    group = page.locator("#dead tr", has_text="BAD_GATEWAY")
    group.get_by_role("link", name="12", exact=True).wait_for()
    target.up.set()
    group.get_by_role("link", name="Revive …").click()
    page.get_by_role("heading", name="Revive 12 dead letters?").wait_for()
    page.get_by_label("Why").fill("the bank is back")
    page.get_by_role("button", name="Revive 12 dead letters").click()
    page.get_by_role("heading", name="12 dead letters revived of 12").wait_for()
    for job_id in ids:
        jobs.wait(job_id, PATIENCE_S)
    page.get_by_role("link", name="Dead letters").first.click()
    page.get_by_text("No dead letter matches.").wait_for()
    assert DeadLetters(store).count() == 0
    page.get_by_role("link", name="Audit").click()
    page.locator("#audit", has_text="the bank is back").wait_for()
    page.goto(f"{page.url.rpartition('/')[0]}/jobs/{ids[0]}")
    page.get_by_text("Revived by hand").wait_for()
    jobs.close()


def test_a_fault_page_shows_its_schedule(page: Any) -> None:
    page.get_by_role("link", name="Faults").click()
    page.get_by_label("Code or words").fill("did not answer in time")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**/faults?text=*")
    page.get_by_role("link", name="NETWORK_TIMEOUT").click()
    page.get_by_role("heading", name="NETWORK_TIMEOUT", exact=True).wait_for()
    attempts = page.get_by_role("img", name="attempt 3 starts after 16 s – 24 s")
    attempts.wait_for()
    assert attempts.bounding_box()["width"] > 100
    page.locator("main").get_by_text("Retried as the caller's own rule says.").wait_for()
    page.get_by_role("link", name="GATEWAY_TIMEOUT").click()
    page.get_by_role("heading", name="GATEWAY_TIMEOUT").wait_for()


def test_a_queue_is_paused_with_the_keyboard_alone(page: Any, store: Store) -> None:
    jobs = Jobs(store)
    jobs.enqueue("charge", queue="later", delay_s=600)
    page.reload()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.locator("summary", has_text="Pause, resume, probe").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("maintenance")
    page.keyboard.press("Enter")
    page.get_by_text("Done: pause").wait_for()
    page.locator("#queues", has_text="maintenance").wait_for()
    jobs.close()


def test_no_page_is_wider_than_a_telephone(chromium: Any, here: Standing, store: Store) -> None:
    jobs = Jobs(store)
    job_id = jobs.enqueue("a-kind-with-a-very-long-name." * 4, {"a": "b" * 500}, queue="q" * 100).id
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(here.console.link)
    paths = ("/", "/jobs", "/dead", "/deliveries", "/faults", "/faults/NETWORK_TIMEOUT", "/limits", "/alerts", "/audit",
             "/breakers", f"/jobs/{job_id}")  # fmt: skip
    for path in paths:
        page.goto(here.address + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    context.close()
    jobs.close()


def test_pages_work_without_script(chromium: Any, here: Standing, store: Store) -> None:
    context = chromium.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(here.console.link)
    page.get_by_role("link", name="Jobs").click()
    page.get_by_role("textbox", name="Queue").fill("mail")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**queue=mail*")
    page.get_by_text("No job matches.").wait_for()
    page.get_by_role("button", name="Leave").click()
    page.get_by_label("Token").wait_for()
    context.close()
