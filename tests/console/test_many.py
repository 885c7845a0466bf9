"""Pages with much to show: what matters stands first, what is folded or left out is said, and counts are of all."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from holdfast.catalog import Catalog
from holdfast.catalog.core import NOT_FOUND
from holdfast.console.pages.alerts import gathered
from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.watch.alert_state import AlertState, Phase
from holdfast.watch.alerts import Standing
from holdfast.watch.rules_builtin import RULES
from holdfast.worker import Jobs, Queues, ledger
from holdfast.worker.settlement import failed

from .asking import Asker, asker
from .making import kill

ODD = Catalog("odd")
BROKEN = ODD.fault("BROKEN", status=500, says="It is broken: {why}.", technical="{why}")


def serve(store: Store, queues: str) -> None:
    """Register a worker that does nothing."""
    known = {"id": "w1", "host": "here", "process": 1, "queues": queues, "lease_us": 600_000_000}
    store.atomic(lambda tx: tx.run("worker.register", **known))


def test_a_queue_that_no_worker_serves_says_so_and_is_not_green(store: Store, jobs: Jobs, inside: Asker) -> None:
    for name in ("served", "mispelt"):
        jobs.enqueue("tick", queue=name)
    serve(store, "served,other")
    rows = re.findall(r"<tr>.*?</tr>", inside.get("/").text, re.DOTALL)
    (alone,) = [row for row in rows if "queue%3Amispelt" in row]
    (served,) = [row for row in rows if "queue%3Aserved" in row]
    assert '<span class="badge bad">no worker</span>' in alone
    assert "no worker serves this queue" in alone
    assert '<span class="badge good">running</span>' in served


def test_the_queues_that_something_holds_stand_first_and_the_rest_is_folded(
    store: Store, jobs: Jobs, inside: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.console.pages.queues.SHOWN_MAX", 2)
    monkeypatch.setattr("holdfast.console.pages.queues.FOLDED_MAX", 2)
    for name in ("a", "b", "c", "d", "z"):
        jobs.enqueue("tick", queue=name)
    Queues(store).pause("z", "moving")
    serve(store, "a,b,c,d,z")
    text = inside.get("/").text
    names = re.findall(r'<th scope="row"[^>]*><a href="/console/\?scope=queue%3A(\w)', text)
    assert names == ["z", "a", "b", "c"]
    assert text.index("3 more queues") < text.index("scope=queue%3Ab")
    assert "1 more are not shown" in text


def test_groups_that_are_not_shown_are_counted(
    store: Store, jobs: Jobs, inside: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.operate.dead_groups.GROUPS_SHOWN_MAX", 1)
    kill(store, jobs, 2, fault=BROKEN, why="gears")
    kill(store, jobs, 1, fault=BROKEN, why="springs")
    text = inside.get("/dead").text
    assert "3 dead letters in 2 groups." in text
    assert "Shown are the 1 that died last" in text


def test_what_is_done_to_a_group_is_done_within_the_filter(store: Store, jobs: Jobs, inside: Asker) -> None:
    kill(store, jobs, 3, fault=BROKEN, why="gears", queue="one")
    kill(store, jobs, 2, fault=BROKEN, why="gears", queue="two")
    text = inside.get("/dead?queue=two").text
    [address] = re.findall(r'href="/console(/dead/revive\?[^"]*fingerprint=[^"]*)"', text)
    assert "Revive 2 dead letters?" in inside.get(html.unescape(address)).text
    [letters] = re.findall(r'href="/console(/jobs\?[^"]*fingerprint=[^"]*)"', text)
    assert "2 shown" in inside.get(html.unescape(letters)).text


@pytest.mark.parametrize("path", ["/", "/jobs?state=failed", "/dead", "job"])
def test_no_page_shows_the_secrets_of_a_failed_call(store: Store, jobs: Jobs, inside: Asker, path: str) -> None:
    [one] = kill(store, jobs, 1, fault=BROKEN, why="no answer from https://ada:hunter22@gateway/x?token=t0k3n-t0k3n")
    text = inside.get(f"/jobs/{one}" if path == "job" else path).text
    assert "no answer from https://ada:***@gateway" in text
    assert "hunter22" not in text
    assert "t0k3n" not in text


def test_a_rule_that_is_switched_off_says_so(store: Store) -> None:
    visitor = asker(store, rules=(replace(RULES[0], enabled=False), RULES[1])).enter()
    text = visitor.get("/alerts").text
    assert text.count('<span class="badge plain">off</span>') == 1
    assert text.count('<span class="badge plain">inactive</span>') == 1


def test_of_the_causes_that_are_well_only_the_one_nearest_to_its_threshold_is_shown() -> None:
    rule = next(one for one in RULES if one.per == "queue")
    low = Standing(rule=rule, cause="a", state=AlertState(), reading=1.0)
    high = Standing(rule=rule, cause="b", state=AlertState(), reading=200.0)
    unread = Standing(rule=rule, cause="c", state=AlertState())
    firing = replace(low, cause="d", state=AlertState(phase=Phase.FIRING))
    assert [(one.cause, one.reading) for one in gathered([low, high, unread, firing])] == [
        ("d", 1.0),
        ("b and 2 more", 200.0),
    ]
    below = next(one for one in RULES if one.below is not None)
    assert [one.reading for one in gathered([replace(low, rule=below), replace(high, rule=below)])] == [1.0]


def test_the_panel_of_all_endpoints_has_the_deliveries_of_every_sender_and_nothing_else(
    store: Store, jobs: Jobs, inside: Asker
) -> None:
    kill(store, jobs, 1, fault=BROKEN, why="gears", queue="webhooks")
    named = Deliveries(store, jobs, name="shop-webhook")
    named.endpoints.add("http://127.0.0.1:9/hook")
    named.publish("order.paid", {})
    [job] = store.atomic(lambda tx: ledger.claim(tx, queue=named.queue().name, worker="w-1", count=1))
    dead = failed(job, NOT_FOUND("The endpoint answered 404"), None, 5, blamed=False)
    store.atomic(lambda tx: ledger.settle(tx, "w-1", (), [dead]))
    panel = inside.get("/?scope=endpoint:").text.partition("Top error messages")[2]
    assert "The endpoint answered 404" in panel
    assert "gears" not in panel, "it is in a queue of that name, and is not a delivery"
