"""`holdfast breakers` on both engines: the same verbs as on the console's page."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.worker.breakers import SharedBreaker, Tally
from holdfast.worker.queues import Queues

RULE = Breaker(failure_ratio=0.5, calls_min=4, window_s=120, open_s=30, probes=2)


def fail(store: Store, name: str) -> None:
    """Enough failures to open it."""
    breaker = SharedBreaker(name, RULE)
    store.atomic(lambda tx: breaker.report(tx, Tally(calls=4, failures=4, code="BAD_GATEWAY")))


def states(store: Store) -> dict[str, str]:
    return {one.name: one.state for one in Queues(store).breakers()}


def test_a_breaker_is_probed_recovered_and_tripped(hand: Any, store: Store) -> None:
    fail(store, "bank")
    assert hand.answer("breakers", "probe", "bank") == "One may try bank.\n"
    assert states(store) == {"bank": "half_open"}
    assert hand.answer("breakers", "recover", "bank", "--reason", "it is back") == "Recovered bank.\n"
    assert states(store) == {"bank": "closed"}
    assert hand.answer("breakers", "recover", "bank") == "bank is closed already.\n"
    assert hand.document("breakers", "trip", "bank", "--for", "60") == {"breaker": "bank", "tripped": True}
    assert states(store) == {"bank": "open"}
    assert hand.answer("breakers", "trip", "bank") == "bank is open already.\n"


def test_what_is_open_is_listed_first_with_its_reason(hand: Any, store: Store) -> None:
    assert hand("breakers", "list").stderr == "No breaker has ever moved.\n"
    for name in ("a", "b"):
        fail(store, name)
    hand.answer("breakers", "recover", "a")
    open_, closed = hand.documents("breakers", "list")
    assert (open_["name"], open_["state"], closed["name"]) == ("b", "open", "a")
    assert "4 of 4 jobs failed" in hand.answer("breakers", "list")


@pytest.mark.parametrize("verb", ["trip", "recover"])
def test_a_breaker_that_does_not_exist_is_one_line(hand: Any, verb: str) -> None:
    ended = hand("breakers", verb, "bnak")
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert ended.stderr.startswith("holdfast: BREAKER_NOT_FOUND: There is no breaker named bnak.")


def test_how_long_is_bounded(quick: Any) -> None:
    assert quick("breakers", "trip", "bank", "--for", "0").exit_code == 2
