"""The engine dies at any point: after it, each event has one effect, and the sender gets an answer."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from holdfast.store import Store
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.steps import Processor

DYING = """
import asyncio, json, os, sys
from holdfast.store import Store
from holdfast_systems.credentials import steps, tables
from holdfast_systems.credentials.payload import read_event

url, where, document = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
store = Store.open(url)
tables.prepare(store)
event = read_event("p", document["event_id"], document, 1_770_000_000_000_000)

def die(*_, **__):
    os._exit(9)

if where == "after the dedupe row":
    tables.arrive = die
elif where == "after the effect":
    tables.finish = die
asyncio.run(steps.Processor(store).process(event))
os._exit(9)  # committed, and nobody was told
"""
DOCUMENT = {
    "event_id": "evt_1",
    "event_type": "contribution_created",
    "actor": {"user_id": "u", "username": "u"},
    "subject": {"contribution_id": "c1", "contribution_type": "x", "title": "t"},
}


@pytest.mark.parametrize("where", ["after the dedupe row", "after the effect", "after the commit"])
def test_a_crash_anywhere_leaves_one_effect_and_the_repeat_gets_its_result(
    store: Store, database_url: str, where: str
) -> None:
    from holdfast_systems.credentials.payload import read_event

    command = [sys.executable, "-c", DYING, database_url, where, json.dumps(DOCUMENT)]
    assert subprocess.run(command, timeout=60, check=False).returncode == 9
    tables.prepare(store)
    event = read_event("p", "evt_1", DOCUMENT, 1_770_000_000_000_000)
    outcome = asyncio.run(Processor(store).process(event))
    assert outcome.repeated == (where == "after the commit")
    assert (outcome.result["status"], outcome.result["reputation_delta"]) == ("applied", 50)
    found = store.atomic(lambda tx: tables.member(tx, "p", "u"), write=False)
    assert found is not None
    assert (found["contribution_count"], found["reputation"]) == (1, 50)


def test_one_event_that_fails_does_not_take_its_neighbours_along(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast_systems.credentials import steps
    from holdfast_systems.credentials.payload import read_event

    tables.prepare(store)
    documents = [
        {**DOCUMENT, "event_id": f"evt_{n}", "subject": {**DOCUMENT["subject"], "contribution_id": f"c{n}"}}
        for n in range(3)
    ]
    events = [read_event("p", one["event_id"], one, 1_770_000_000_000_000) for one in documents]
    real = steps.process

    def sometimes(tx, events):
        if any(event.id == "evt_1" for event in events):
            raise RuntimeError("this one only")
        return real(tx, events)

    monkeypatch.setattr(steps, "process", sometimes)
    told = Processor(store)._flush(events)
    assert [type(one).__name__ for one in told] == ["Outcome", "RuntimeError", "Outcome"]
    assert store.atomic(lambda tx: tables.totals(tx, "p"), write=False)["events"] == 2
