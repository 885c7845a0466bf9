"""Every link of the console leads to a page; a code that no catalog here declares is not a link."""

from __future__ import annotations

import html
import re

import pytest

from holdfast.catalog import CORE, Catalog
from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.worker import Jobs, Queues

from .asking import Asker, asker
from .making import finish, hold, kill
from .standing import ROOT
from .test_actions import dead_deliveries, open_breaker

SHOP = Catalog("shop")
ORDER_LOST = SHOP.fault("ORDER_LOST", status=409, says="The order is gone.", related=("RETURN_LOST", "NOT_FOUND"))
PAGES_MAX = 400


def links(page: str) -> set[str]:
    """The addresses of a page below the root, without what stands after #."""
    found = (html.unescape(one).partition("#")[0] for one in re.findall(r'href="([^"]+)"', page))
    return {one.removeprefix(ROOT) for one in found if one.startswith(f"{ROOT}/")}


def lived(store: Store, jobs: Jobs) -> str:
    [lost] = kill(store, jobs, fault=ORDER_LOST, queue="shop")
    kill(store, jobs, 2)
    finish(store, jobs)
    hold(store, jobs)
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add("http://127.0.0.1:9/hook")
    dead_deliveries(store, deliveries, 2)
    Queues(store).pause("mail", "moving")
    open_breaker(store, "mail")
    return lost


@pytest.mark.parametrize("declared", [False, True])
def test_a_code_is_a_link_where_it_has_a_page(store: Store, jobs: Jobs, *, declared: bool) -> None:
    lost = lived(store, jobs)
    visitor = asker(store, (CORE, SHOP) if declared else (CORE,)).enter()
    for path in ("/", "/jobs?state=failed", "/dead", f"/jobs/{lost}"):
        text = visitor.get(path).text
        assert "ORDER_LOST" in text, path
        assert ("/faults/ORDER_LOST" in links(text)) is declared, path
    assert visitor.get("/faults/ORDER_LOST").status == (200 if declared else 404)
    if declared:
        told = visitor.get("/faults/ORDER_LOST").text
        assert {"/faults/NOT_FOUND"} == {one for one in links(told) if one.startswith("/faults/")}


def test_every_link_leads_to_a_page(store: Store, jobs: Jobs, inside: Asker) -> None:
    lived(store, jobs)
    inside.act("/queues/resume", {"name": "mail"})
    to_see, seen = ["/"], {"/"}
    while to_see and len(seen) < PAGES_MAX:
        path = to_see.pop()
        answer = inside.get(path)
        assert answer.status == 200, path
        if answer.headers["content-type"].startswith("text/html"):
            fresh = links(answer.text) - seen
            # The steps of a chart are many addresses of one page.
            to_see += [one for one in fresh if "until=" not in one]
            seen |= fresh
    assert {"/audit", "/dead/discard", "/faults/NOT_FOUND"} <= seen
