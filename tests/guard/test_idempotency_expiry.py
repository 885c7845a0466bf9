"""When idempotency keys were seen, when they expire, and how they are pruned."""

from __future__ import annotations

import pytest

from holdfast.base import decode
from holdfast.guard.idempotency import Answer, Begun, Keys, Started, request_hash
from holdfast.store import Store
from holdfast.testing import instant

MADE = Answer(201, body=b"made", resources={"instanceId": "inst_7", "ledgerEntryId": "led_9"})


def begun(keys: Keys, key: str = "k", *, request: object = "r") -> Begun:
    return keys.begin(operation="charge", key=key, request_hash=request_hash(body=request))


def make(started: Started) -> Answer:
    return MADE


def test_every_sighting_is_noted(virtual_store: Store) -> None:
    with instant() as time:
        keys = Keys(virtual_store)
        keys.once("charge", "k", "r", make)
        first = keys.show(operation="charge", key="k")
        assert first is not None
        for request in ("r", "another"):
            time.advance(5)
            begun(keys, request=request)
        seen = keys.show(operation="charge", key="k")
        assert seen is not None
        assert seen["first_seen_us"] == first["first_seen_us"] == first["last_seen_us"]
        assert seen["last_seen_us"] - seen["first_seen_us"] == 10_000_000
        assert decode(seen["resources"]) == MADE.resources


def test_an_expired_key_counts_as_new(virtual_store: Store) -> None:
    with instant() as time:
        keys = Keys(virtual_store, lease_s=10, expires_s=60)
        keys.once("charge", "k", "one", make)
        time.advance(59)
        assert keys.once("charge", "k", "one", make).replayed
        time.advance(1)
        assert not keys.once("charge", "k", "two", make).replayed
        shown = keys.show(operation="charge", key="k")
        assert shown is not None
        assert shown["first_seen_us"] == shown["last_seen_us"]


def test_pruning_deletes_what_has_expired_in_small_batches(virtual_store: Store) -> None:
    with instant() as time:
        keys = Keys(virtual_store, lease_s=10, expires_s=60)
        for number in range(5):
            keys.once("charge", f"old {number}", 1, make)
        begun(keys, "abandoned")
        time.advance(50)
        keys.once("charge", "young", 1, make)
        assert keys.prune() == 0
        time.advance(10)
        assert [keys.prune(count=4), keys.prune(count=4), keys.prune(count=4)] == [4, 2, 0]
        assert keys.once("charge", "young", 1, make).replayed
        assert keys.show(operation="charge", key="old 0") is None


@pytest.mark.parametrize("settings", [{"lease_s": 0}, {"expires_s": -1}, {"lease_s": float("nan")}])
def test_times_that_cannot_be_right_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="give a number of seconds above 0"):
        Keys(Store.open("sqlite://"), **settings)  # type: ignore[arg-type]
