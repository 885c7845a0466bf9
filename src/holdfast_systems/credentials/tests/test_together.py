"""Events that arrive together are processed together, and come to what they would have come to one by one."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.store import Store
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.model import Event
from holdfast_systems.credentials.payload import read_event
from holdfast_systems.credentials.steps import Processor, process

from .live import about, created

AT_US = 1_770_000_000_000_000


def read(platform: str, document: dict[str, Any]) -> Event:
    return read_event(platform, document["event_id"], document, AT_US)


def vouched(event_id: str, vouchee: str) -> dict[str, Any]:
    return {
        "event_id": event_id,
        "event_type": "vouch_submitted",
        "actor": {"user_id": "v", "username": "v"},
        "subject": {"vouchee_id": vouchee, "skill_id": "s"},
    }


DOCUMENTS = [
    created("evt_1", "c1", "ann"),
    created("evt_2", "c2", "ann"),
    created("evt_3", "c3", "bob"),
    created("evt_1", "c1", "ann"),
    created("evt_4", "c1", "eve"),
    about("contribution_verified", "evt_5", "c1"),
    about("contribution_rejected", "evt_6", "c3"),
    about("contribution_verified", "evt_7", "c9"),
    vouched("evt_8", "ann"),
    vouched("evt_9", "ann"),
]
"""Two by one person, a repeat, a contribution that is known already, statements about those and about one to come."""


def standings(store: Store, platform: str) -> list[dict[str, Any]]:
    return list(store.atomic(lambda tx: tables.members(tx, platform, count=50), write=False))


def test_a_batch_comes_to_the_same_as_its_events_one_by_one(store: Store) -> None:
    tables.prepare(store)
    single = [asyncio.run(Processor(store).process(read("single", one))) for one in DOCUMENTS]
    batch = store.atomic(lambda tx: process(tx, [read("batch", one) for one in DOCUMENTS]))
    assert batch == single
    assert [one.repeated for one in batch] == [False] * 3 + [True] + [False] * 6
    assert [one.result["status"] for one in batch] == [
        "applied", "applied", "applied", "applied", "known", "applied", "applied", "parked", "applied", "applied",
    ]  # fmt: skip
    assert standings(store, "batch") == standings(store, "single") != []


def test_a_batch_that_comes_again_changes_nothing_and_gets_the_same_answers(store: Store) -> None:
    tables.prepare(store)
    events = [read("p", one) for one in DOCUMENTS]
    first = store.atomic(lambda tx: process(tx, events))
    before = standings(store, "p")
    again = store.atomic(lambda tx: process(tx, list(reversed(events))))
    assert [one.result for one in reversed(again)] == [one.result for one in first]
    assert all(one.repeated for one in again)
    assert standings(store, "p") == before


def test_what_waited_for_a_contribution_is_released_by_a_batch(store: Store) -> None:
    tables.prepare(store)
    store.atomic(lambda tx: process(tx, [read("p", about("contribution_verified", "evt_1", "c1"))]))
    (outcome,) = store.atomic(lambda tx: process(tx, [read("p", created("evt_2", "c1", "ann"))]))
    assert (outcome.result["status"], outcome.result["released"]) == ("applied", 1)
    (ann,) = standings(store, "p")
    assert (ann["verified_count"], ann["contribution_count"]) == (1, 1)
