"""`jobs show` and `dead show` tell where a handler failed; dead letters are found by what the upstream said."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.catalog import Failure, Remote
from holdfast.catalog.core import BAD_GATEWAY
from holdfast.policy import Retry
from holdfast.store import Store
from holdfast.worker import Handlers, Job, Jobs, ledger
from holdfast.worker.attempt import attempt

HIDDEN = "Zq7xK2mN9pR4tV6w"
handlers = Handlers()
ONCE = Retry(attempts=1, attempts_unknown=1)


def total_of(order: dict[str, int]) -> int:
    return order["total"]


@handlers.handle("order.charge", retry=ONCE)
def charge(job: Job) -> None:
    try:
        total_of({})
    except KeyError as missing:
        raise ValueError(f"no total\x1b[2J password={HIDDEN}") from missing


@handlers.handle("card.charge", retry=ONCE)
def card(job: Job) -> None:
    raise Failure(BAD_GATEWAY, remote=Remote(422, job.payload, "Your card was refused."))


def die(store: Store, kind: str, payload: Any = None) -> str:
    made = Jobs(store).enqueue(kind, payload)
    for job in store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w-1", count=10)):
        outcome = attempt(handlers.get(job.kind), job)
        store.atomic(lambda tx, outcome=outcome: ledger.settle(tx, "w-1", (), [outcome]))  # type: ignore[misc]
    return made.id


@pytest.mark.parametrize("command", ["jobs", "dead"])
def test_show_tells_the_own_calls_first_the_last_one_on_top(hand: Any, store: Store, command: str) -> None:
    job_id = die(store, "order.charge")
    text = hand.answer(command, "show", job_id)
    told = text.partition("Traceback of attempt 1, the last call first:\n")[2].splitlines()
    assert told[0] == "  ValueError: no total\\x1b[2J password=***"
    assert told[1].endswith("tests/cli/test_traceback.py:30 in charge")
    cause = next(number for number, line in enumerate(told) if "caused by KeyError: 'total'" in line)
    assert told[cause + 1].endswith("in total_of")
    assert told[cause + 2].strip() == 'return order["total"]'
    assert told[cause + 3].endswith("in charge")
    assert f"{__name__}:charge" in text
    assert HIDDEN not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("command", ["jobs", "dead"])
def test_show_as_json_has_the_traceback_of_every_attempt(hand: Any, store: Store, command: str) -> None:
    job_id = die(store, "order.charge")
    shown = hand.document(command, "show", job_id)
    (chain,) = [event["traceback"] for event in shown["timeline"] if event["traceback"]]
    assert [(one["type"], one["link"]) for one in chain] == [("ValueError", ""), ("KeyError", "cause")]
    assert chain[1]["frames"][-1] | {"file": "", "line": 0} == {
        "file": "", "line": 0, "function": "total_of", "source": 'return order["total"]', "own": True,
    }  # fmt: skip
    assert HIDDEN not in str(shown)


def test_dead_letters_are_found_and_grouped_by_what_the_upstream_said(hand: Any, store: Store) -> None:
    stolen, lost = die(store, "card.charge", "stolen_card"), die(store, "card.charge", "lost_card")
    found = hand.documents("dead", "list", "--remote-code", "lost_card")
    assert [one["id"] for one in found] == [lost]
    assert (found[0]["remote_status"], found[0]["remote_message"]) == (422, "Your card was refused.")
    assert [one["id"] for one in hand.documents("dead", "list", "--text", "STOLEN_card")] == [stolen]
    assert {one["remote_code"]: one["count"] for one in hand.documents("dead", "groups")} == {
        "stolen_card": 1,
        "lost_card": 1,
    }
    assert "422 lost_card: Your card was refused." in hand.answer("dead", "show", lost)
    hand.answer("dead", "revive", "--all-matching", "--remote-code", "lost_card", "--yes")
    assert [Jobs(store).show(one)["state"] for one in (stolen, lost)] == ["failed", "queued"]


def test_two_places_are_two_groups(hand: Any, store: Store) -> None:
    die(store, "order.charge")
    groups = hand.documents("dead", "groups")
    assert [one["place"] for one in groups] == [f"{__name__}:charge"]
    assert f"{__name__}:charge" in hand.answer("dead", "groups")
