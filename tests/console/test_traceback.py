"""The pages of a job and of dead letters tell where it failed, in words that cannot become part of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalog import Failure, Remote
from holdfast.catalog.core import BAD_GATEWAY
from holdfast.policy import Backoff, Retry
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Handlers, Job, Jobs, ledger
from holdfast.worker.attempt import attempt

from .asking import Asker
from .browser import CHROMIUM, browser
from .standing import standing

HIDDEN = "Zq7xK2mN9pR4tV6w"
HOSTILE = "<script>alert(1)</script>"
handlers = Handlers()
ONCE = Retry(attempts=1, attempts_unknown=1)
TWICE = Retry(attempts=2, attempts_unknown=2, backoff=Backoff.listed(0))
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}


def total_of(order: dict[str, int]) -> int:
    return order["total"]


def address_of(order: dict[str, int]) -> int:
    return order["a_name_of_a_field_that_is_so_long_that_it_does_not_fit_on_the_line_of_a_phone_at_all"]


@handlers.handle("order.charge", retry=TWICE)
def charge(job: Job) -> None:
    try:
        total_of({})
    except KeyError as missing:
        raise ValueError(f"{HOSTILE} password={HIDDEN}\nsecond line") from missing


@handlers.handle("order.send", retry=ONCE)
def send(job: Job) -> None:
    address_of({})


@handlers.handle("order.weigh", retry=ONCE)
def weigh(job: Job) -> None:
    total_of({})


@handlers.handle("card.charge", retry=ONCE)
def card(job: Job) -> None:
    raise Failure(BAD_GATEWAY, remote=Remote(422, job.payload, "Your card was refused."))


def die(store: Store, kind: str, payload: Any = None) -> str:
    made = Jobs(store).enqueue(kind, payload)
    while jobs := store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w-1", count=10)):
        outcomes = [attempt(handlers.get(job.kind), job) for job in jobs]
        store.atomic(lambda tx, outcomes=outcomes: ledger.settle(tx, "w-1", (), outcomes))  # type: ignore[misc]
    return made.id


def words(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_page_of_a_job_tells_where_it_failed(store: Store, inside: Asker) -> None:
    page = inside.get(f"/jobs/{die(store, 'order.charge')}").text
    panel = page.partition('id="traceback"')[2].partition("</section>")[0]
    told = words(panel)
    assert "ValueError" in told
    assert "KeyError" in told
    assert "It was caused by" in told
    assert told.index(" in charge") < told.index(" in total_of"), "what was raised last comes first"
    assert "return order[&quot;total&quot;]" in panel or 'return order["total"]' in panel
    assert f"{__name__}:charge" in words(page)
    assert page.count("<summary>Traceback</summary>") == 2, "each attempt has its own in the history"
    assert HIDDEN not in page
    assert HOSTILE not in page


def test_two_different_key_errors_are_two_groups_and_one_is_revived_alone(store: Store, inside: Asker) -> None:
    one, other = die(store, "order.weigh"), die(store, "order.send")
    page = inside.get("/dead").text
    assert "2 dead letters in 2 groups" in words(page)
    assert f"{__name__}:total_of" in page
    assert f"{__name__}:address_of" in page
    assert f"/jobs/{one}#traceback" in page
    group = Jobs(store).show(one)["fingerprint"]
    inside.act("/dead/revive", {"fingerprint": group})
    wait_until(lambda: Jobs(store).show(one)["state"] == "queued", within_s=30, what="the group is revived")
    assert Jobs(store).show(other)["state"] == "failed"


def test_dead_letters_are_filtered_by_the_upstreams_code(store: Store, inside: Asker) -> None:
    die(store, "card.charge", "stolen_card")
    lost = die(store, "card.charge", "lost_card")
    page = inside.get("/dead?remote_code=lost_card").text
    assert "1 dead letter in 1 group" in words(page)
    assert "stolen_card" not in page
    assert "2 dead letters" in words(inside.get("/dead?code=BAD_GATEWAY").text)
    assert "1 dead letter " in words(inside.get("/dead?text=LOST_card").text)
    shown = words(inside.get(f"/jobs/{lost}").text)
    assert "The upstream said 422 lost_card Your card was refused." in shown
    assert lost in inside.get("/jobs?remote_code=lost_card").text
    assert "Revive 1 dead letter" in words(inside.get("/dead/revive?remote_code=lost_card").text)


@pytest.fixture
def quiet_store(tmp_path: Path) -> Iterator[Store]:
    """What a person sees does not depend on the engine."""
    opened = Store.open(f"sqlite:///{tmp_path / 'console.db'}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as one:
        yield one


@pytest.mark.skipif(not CHROMIUM, reason="NO BROWSER: install Chromium to run the console's browser tests")
@pytest.mark.parametrize(("size", "scheme"), [(DESK, "light"), (PHONE, "dark")])
def test_a_traceback_is_readable_on_a_desk_and_on_a_phone(
    quiet_store: Store, chromium: Any, size: dict[str, int], scheme: str
) -> None:
    sent, charged = die(quiet_store, "order.send"), die(quiet_store, "order.charge")
    with standing(quiet_store) as here:
        page = chromium.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce").new_page()
        page.goto(here.console.link)
        page.goto(f"{here.address}/jobs/{sent}#traceback")
        source = page.locator("#traceback .calls pre").first
        assert "does_not_fit_on_the_line" in source.inner_text()
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= size["width"], "nothing has to be scrolled sideways"
        page.goto(f"{here.address}/jobs/{charged}")
        history = page.locator(".timeline details").first
        assert not history.locator(".raised").first.is_visible()
        history.locator("summary").first.click()
        assert history.locator(".raised").first.is_visible()
