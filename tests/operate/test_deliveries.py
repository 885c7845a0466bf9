"""Deliveries that were given up: one event is replayed, the oldest are reprocessed or discarded in batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.catalog import Failure
from holdfast.delivery import Deliveries
from holdfast.operate import Actor
from holdfast.operate import deliveries as operate_deliveries
from holdfast.operate.audit_log import Entry
from holdfast.operate.bulk import Verb
from holdfast.operate.delivery_list import DeliveryFilter, list_deliveries
from holdfast.store import Store

Audit = Callable[[], list[Entry]]
Die = Callable[[str], list[str]]
URL = "http://127.0.0.1:9/hook"


def test_one_event_is_replayed_with_its_row(
    store: Store, actor: Actor, audit: Audit, deliveries: Deliveries, die: Die
) -> None:
    one, other = deliveries.endpoints.add(URL), deliveries.endpoints.add(URL)
    deliveries.publish("order.paid", {}, id="evt_1")
    die("webhooks")
    assert operate_deliveries.replay(store, "evt_1", actor=actor, endpoint_id=one.id)[1] == 1
    deliveries.endpoints.disable(other.id, reason="it moved")
    with pytest.raises(Failure, match="ENDPOINT_DISABLED"):
        operate_deliveries.replay(store, "evt_1", actor=actor)
    with pytest.raises(Failure, match="JOB_NOT_FOUND"):
        operate_deliveries.replay(store, "evt_1", actor=actor, tenant="zeta")
    assert [(row.verb, row.subject, row.state, row.result) for row in audit()] == [
        ("replay", "event:evt_1", "done", "done"),
        ("replay", "event:evt_1", "refused", "ENDPOINT_DISABLED"),
        ("replay", "event:evt_1", "refused", "JOB_NOT_FOUND"),
    ]


def test_the_oldest_are_moved_in_batches_and_what_is_blocked_does_not_count_against_the_limit(
    store: Store,
    actor: Actor,
    audit: Audit,
    deliveries: Deliveries,
    die: Die,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operate_deliveries, "BATCH", 3)
    gone, here = deliveries.endpoints.add(URL, tenant="acme"), deliveries.endpoints.add(URL, tenant="acme")
    foreign = deliveries.endpoints.add(URL, tenant="zeta")
    for number in range(5):
        deliveries.publish("order.paid", {}, id=f"evt_{number}", tenant="acme")
    deliveries.publish("order.paid", {}, id="evt_0", tenant="zeta")
    die("webhooks")
    deliveries.endpoints.remove(gone.id)
    moved = operate_deliveries.move_oldest(store, Verb.REVIVE, actor=actor, tenant="acme", limit=4)
    assert (moved.done, sorted(moved.event_ids)) == (4, [f"evt_{number}" for number in range(4)])
    assert {name: why.code for name, (_, why) in moved.rejected.items()} == {gone.id: "ENDPOINT_REMOVED"}
    rest = operate_deliveries.move_oldest(store, Verb.REVIVE, actor=actor, tenant="acme")
    assert (rest.done, rest.rejected[gone.id][0]) == (1, 5)
    with pytest.raises(Failure, match=gone.id):
        operate_deliveries.move_oldest(store, Verb.REVIVE, actor=actor, tenant="acme", endpoint_id=gone.id)
    cleared = operate_deliveries.move_oldest(store, Verb.DISCARD, actor=actor, tenant="acme", endpoint_id=gone.id)
    assert cleared.done == 5
    assert deliveries.undelivered.count() == 1, "another tenant's stays"
    assert [(row.verb, row.state, row.done) for row in audit()] == [
        ("reprocess", "done", 4), ("reprocess", "done", 1), ("reprocess", "refused", 0), ("discard", "done", 5),
    ]  # fmt: skip
    assert (here.enabled, foreign.enabled) == (True, True)


def test_a_list_goes_event_by_event_and_page_by_page(store: Store, deliveries: Deliveries, die: Die) -> None:
    ends = [deliveries.endpoints.add(URL).id for _ in range(2)]
    for number in range(3):
        deliveries.publish("order.paid", {}, id=f"evt_{number}")
    die("webhooks")
    everything = DeliveryFilter()
    first = store.atomic(lambda tx: list_deliveries(tx, everything, count=3), write=False)
    assert first.next is not None
    rest = store.atomic(lambda tx: list_deliveries(tx, everything, place=first.next or (), count=50), write=False)
    found = [(one["event_id"], one["endpoint_id"]) for one in (*first.rows, *rest.rows)]
    assert sorted(found) == sorted((f"evt_{number}", end) for number in range(3) for end in ends)
    failed = DeliveryFilter(state="failed", endpoint=ends[0])
    assert len(store.atomic(lambda tx: list_deliveries(tx, failed), write=False).rows) == 3
