"""Switches: one truth for all processes, flipped by an alert or by hand, seen on two links."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.base import bus
from holdfast.catalog import Failure
from holdfast.catalog.core import SERVICE_UNAVAILABLE
from holdfast.guard import Link
from holdfast.guard.events import LinkEvent
from holdfast.policy import Retry
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.watch.alerts import Alerts
from holdfast.watch.series import StoreSeries
from holdfast.watch.switch import REMEMBERED_S, SUBJECT, Side, Switch
from holdfast.worker import Jobs

from .alert_scene import Process, open_sqlite, stand_at_a_slice

FAILED = {"code": "UPSTREAM_ERROR", "blame": "upstream", "reason": "attempts_used"}

PRIMARY, FALLBACK = "records → millionverifier", "records → zerobounce"
NAME = "email-verifier"


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        stand_at_a_slice(virtual)
        yield virtual


@pytest.fixture
def switch(time: VirtualTime, virtual_store: Store) -> Switch:
    one = Switch(virtual_store)
    one.declare(NAME, primary=PRIMARY, fallback=FALLBACK)
    return one


def test_an_outage_switches_the_provider_and_its_end_switches_back(
    switch: Switch, virtual_store: Store, time: VirtualTime
) -> None:
    down = True
    primary, fallback = (Link(name, retry=Retry(attempts=1)) for name in (PRIMARY, FALLBACK))
    process = Process(virtual_store)
    alerts = Alerts(virtual_store, StoreSeries(virtual_store))

    def millionverifier(address: str) -> str:
        if down:
            raise SERVICE_UNAVAILABLE()
        return f"million: {address}"

    def heard(event: LinkEvent) -> None:
        facts = {} if event.failure is None else event.failure.fault.facts
        process.tell(event.verb, link=event.link, attempt=event.attempt, reason=event.reason, **facts)

    primary.on(heard)
    fallback.on(heard)

    def verify(address: str) -> str:
        if switch.active(NAME) is Side.PRIMARY:
            return primary.call(millionverifier, address)
        return fallback.call(lambda given: f"zero: {given}", address)

    for _ in range(21):
        with pytest.raises(Failure):
            verify("a@example.com")
        time.advance(1)
    with bus.heard() as told:
        alerts.turn()
    assert [facts for verb, facts in told if verb == "switch.flipped"] == [
        {
            "name": NAME,
            "side": "fallback",
            "by": f"alert:external_service_down/{PRIMARY}",
            "reason": f"Warning: An outside service failed more than 20 times in 5 min. (link: {PRIMARY})",
        }
    ]
    time.advance(REMEMBERED_S)
    assert verify("a@example.com") == "zero: a@example.com"

    down = False
    time.advance(400)
    alerts.turn()
    time.advance(REMEMBERED_S)
    assert verify("a@example.com") == "million: a@example.com"
    verbs = [(row["verb"], row["reason"].split(" by ")[0]) for row in Jobs(virtual_store).history(SUBJECT + NAME)]
    assert verbs == [("flipped", "to fallback"), ("flipped", "to primary")]


def test_every_process_sees_the_flip_within_a_second(switch: Switch, virtual_store: Store, time: VirtualTime) -> None:
    other = Switch(virtual_store)
    assert other.active(NAME) == "primary"
    assert switch.flip(NAME, Side.FALLBACK, reason="maintenance")
    assert switch.active(NAME) == "fallback"
    assert switch.choose(NAME, primary=1, fallback=2) == 2
    assert other.active(NAME) == "primary"  # still remembered
    time.advance(REMEMBERED_S)
    assert other.active(NAME) == "fallback"


def test_an_alert_takes_back_only_what_it_did_itself(switch: Switch, virtual_store: Store, time: VirtualTime) -> None:
    process, alerts = Process(virtual_store), Alerts(virtual_store, StoreSeries(virtual_store))
    switch.flip(NAME, Side.FALLBACK, reason="cheaper this week")
    process.tell("link.gave_up", link=PRIMARY, **FAILED, times=21)
    alerts.turn()
    time.advance(400)
    alerts.turn()
    (status,) = switch.list()
    assert (status.side, status.flipped_by, status.reason) == (Side.FALLBACK, "hand", "cheaper this week")


def test_a_failing_fallback_flips_nothing(switch: Switch, virtual_store: Store, time: VirtualTime) -> None:
    process, alerts = Process(virtual_store), Alerts(virtual_store, StoreSeries(virtual_store))
    process.tell("link.gave_up", link=FALLBACK, **FAILED, times=21)
    assert [one.cause for one in alerts.turn()] == [FALLBACK]
    assert switch.active(NAME) is Side.PRIMARY


def test_flipping_to_where_it_stands_changes_nothing(switch: Switch, virtual_store: Store) -> None:
    assert not switch.flip(NAME, Side.PRIMARY, reason="again")
    assert Jobs(virtual_store).history(SUBJECT + NAME) == []


def test_declaring_again_keeps_the_side_and_other_links_begin_anew(switch: Switch, time: VirtualTime) -> None:
    switch.flip(NAME, Side.FALLBACK, reason="maintenance")
    switch.declare(NAME, primary=PRIMARY, fallback=FALLBACK)
    assert switch.active(NAME) is Side.FALLBACK
    switch.declare(NAME, primary="records → another", fallback=FALLBACK)
    assert switch.active(NAME) is Side.PRIMARY


def test_while_the_store_is_away_the_last_answer_holds(tmp_path: Path, time: VirtualTime) -> None:
    store = open_sqlite(tmp_path)
    switch = Switch(store)
    switch.declare(NAME, primary=PRIMARY, fallback=FALLBACK)
    switch.flip(NAME, Side.FALLBACK, reason="maintenance")
    assert switch.active(NAME) is Side.FALLBACK

    with sqlite3.connect(tmp_path / "alerts.db") as apart:
        apart.execute("DROP TABLE holdfast_switch")
    with pytest.raises(Failure):
        switch.list()
    time.advance(10)
    assert switch.active(NAME) is Side.FALLBACK
    assert Switch(store).active(NAME) is Side.PRIMARY  # one that never had an answer
    store.close()
    apart.close()


@pytest.mark.parametrize(
    ("name", "primary", "fallback", "field"),
    [("", "a", "b", "name"), ("n", "", "b", "primary"), ("n", "a", "x" * 121, "fallback"), ("n", "a", "a", "fallback")],
)
def test_a_wrong_declaration_is_refused(tmp_path: Path, name: str, primary: str, fallback: str, field: str) -> None:
    store = open_sqlite(tmp_path)
    with pytest.raises(Failure) as refused:
        Switch(store).declare(name, primary=primary, fallback=fallback)
    assert (refused.value.code, refused.value.details["field"]) == ("BAD_REQUEST", field)
    with pytest.raises(Failure) as unknown:
        Switch(store).flip("nobody", Side.FALLBACK, reason="x")
    assert unknown.value.code == "NOT_FOUND"
    store.close()
