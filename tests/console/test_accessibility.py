"""Every page of the console in a real browser, on a desk and a phone, by day and by night: axe-core finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.routes import ROUTES, Shows
from holdfast.operate import Actor, ActorKind
from holdfast.operate.bulk import Verb, begin
from holdfast.store import Store
from holdfast.testing.accessibility import LOOKS, axe_script, findings, small_targets, troubles
from holdfast.testing.npm import NotInstalled
from holdfast.worker import DeadFilter, DeadLetters

from .browser import CHROMIUM, browser
from .scene import deeds, live_an_hour
from .standing import TOKEN, Standing, standing

PATIENCE_MS = 60_000
pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason="NO BROWSER: the console's accessibility is NOT TESTED"),
    pytest.mark.timeout(900),
]
SHAPES = [f"{look['color_scheme']}, {look['viewport']['width']} px" for look in LOOKS]


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> str:
    try:
        return axe_script(request.config.rootpath / "build")
    except NotInstalled as missing:
        pytest.skip(f"accessibility NOT TESTED: {missing}")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path_factory.mktemp('accessible') / 'console.db'}")
    opened.migrate()
    live_an_hour(opened)
    deeds(opened)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def here(store: Store) -> Iterator[Standing]:
    with standing(store) as one:
        yield one


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as one:
        yield one


@pytest.fixture(params=LOOKS, ids=SHAPES)
def page(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    context = chromium.new_context(**request.param)
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_MS)
    yield opened
    context.close()


def enter(page: Any, here: Standing) -> None:
    page.goto(f"{here.address}/")
    page.fill("input[name=token]", TOKEN)
    page.click("button")
    page.wait_for_selector("nav.menu")


def pages(store: Store) -> dict[str, list[str]]:
    """Every page by its route, with data and without."""
    letter = DeadLetters(store).list(DeadFilter(queue="webhooks"), count=1).letters[0]["id"]
    job = DeadLetters(store).list(DeadFilter(queue="mail"), count=1).letters[0]["id"]
    work = begin(store, Verb.DISCARD, DeadFilter(queue="none"), actor=Actor(ActorKind.CONSOLE, "ann"))
    return {
        "GET /": ["/", "/?scope=endpoint:", "/?scope=link:&range=24h", "/?scope=request:", "/?range=forever"],
        "GET /table/{name}": ["/table/latency"],
        "GET /jobs": ["/jobs", "/jobs?state=failed", "/jobs?queue=none", "/jobs?state=odd&since=yesterday"],
        "GET /jobs/{job_id}": [f"/jobs/{letter}", f"/jobs/{job}", "/jobs/none"],
        "GET /deliveries": ["/deliveries", "/deliveries?since=soon"],
        "GET /dead": ["/dead", "/dead?until=x", "/dead?queue=none"],
        "GET /dead/revive": ["/dead/revive", "/dead/revive?queue=none"],
        "GET /dead/discard": ["/dead/discard"],
        "GET /dead/progress/{action_id}": [f"/dead/progress/{work.action.id}"],
        "GET /faults": ["/faults", "/faults?text=time"],
        "GET /faults/{code}": ["/faults/NETWORK_TIMEOUT", "/faults/RATE_LIMIT_EXCEEDED", "/faults/NO_SUCH_CODE"],
        "GET /breakers": ["/breakers"],
        "GET /limits": ["/limits"],
        "GET /alerts": ["/alerts"],
        "GET /audit": ["/audit", "/audit?kind=door"],
    }


def test_every_page_is_free_of_serious_findings(store: Store, here: Standing, page: Any, script: str) -> None:
    page.goto(f"{here.address}/jobs")
    assert troubles(page, script) == [], "the way in"
    enter(page, here)
    known = pages(store)
    assert set(known) == {route.written for route in ROUTES.routes if isinstance(route.answer, Shows)}
    wrong = {}
    for paths in known.values():
        for path in paths:
            page.goto(here.address + path)
            if found := troubles(page, script):
                wrong[path] = found
    assert wrong == {}


def test_a_form_that_came_too_late_is_free_of_serious_findings(here: Standing, page: Any, script: str) -> None:
    enter(page, here)
    page.locator("summary", has_text="Pause, resume, probe").click()
    page.get_by_label("Why").first.fill("maintenance")
    page.context.clear_cookies()
    page.get_by_role("button", name="Pause").first.click()
    page.get_by_text("The session has ended.").wait_for()
    assert troubles(page, script) == []
    page.fill("input[name=token]", TOKEN)
    page.get_by_role("button", name="Enter").click()
    page.get_by_text("Nothing was done yet.").wait_for()
    assert troubles(page, script) == []


def test_what_is_wrong_with_a_page_is_found(page: Any, script: str) -> None:
    page.set_content("<title>x</title><main><h1>x</h1><img src=x><p>See <a href=/>this page</a>.</p><a href=/b>b</a>")
    assert any("image-alt" in one for one in findings(page, script))
    [small] = small_targets(page)
    assert "/b" in small, "a link within a sentence is as high as its line"


def test_nothing_of_axe_is_kept_in_the_repository(request: pytest.FixtureRequest) -> None:
    ignored = (request.config.rootpath / ".gitignore").read_text().splitlines()
    assert "build/" in ignored
    assert not list(Path(request.config.rootpath / "src").rglob("axe*.js"))
