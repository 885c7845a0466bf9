"""Paid orders at the control plane: §2 and §3.2 of the seed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.store import Store

from .live import Live
from .shop import PLANE, bought, code, line, pay, wallet

PATH = "/integrations/saleor/order-paid"
KEY = "saleor:O1:L1"


def test_a_line_that_buys_an_agent_makes_one_instance_and_one_entry(live: Live) -> None:
    made = bought(live, quantity=2)
    assert made["status"] == "created"
    assert [made[name][:4] for name in ("instanceId", "walletId", "ledgerEntryId")] == ["inst", "wal_", "led_"]
    assert wallet(live, made["walletId"]) == (200, 0, 0, 200)
    (entry,) = live.get(PLANE, f"/wallets/{made['walletId']}/entries").json()["entries"]
    assert (entry["kind"], entry["credits"], entry["orderId"]) == ("purchase", 200, "O1")
    assert entry["ledgerEntryId"] == made["ledgerEntryId"]
    instance = live.get(PLANE, f"/instances/{made['instanceId']}").json()
    assert (instance["tenant"], instance["plan"], instance["status"]) == ("u1", "agent-basic", "active")
    assert (instance["softFail"], instance["runBudget"], instance["flow"]) == (False, 5, "assistant")


def test_a_top_up_makes_an_entry_and_no_instance(live: Live) -> None:
    first = bought(live)
    made = bought(live, number="L2", sku="credits-100")
    assert (made["instanceId"], made["walletId"]) == (None, first["walletId"])
    assert wallet(live, made["walletId"]) == (200, 0, 0, 200)


def test_a_repeat_is_already_processed_with_the_same_ids(live: Live) -> None:
    made = bought(live)
    again = pay(live)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == {**made, "status": "already_processed"}
    assert wallet(live, made["walletId"]) == (100, 0, 0, 100)


def test_a_repeat_after_the_key_was_forgotten_is_already_processed(live: Live, store: Store) -> None:
    made = bought(live)
    with store.database.transaction(write=True) as execute:
        execute("DELETE FROM holdfast_idempotency", {})
    assert bought(live) == {**made, "status": "already_processed"}
    with store.database.transaction(write=True) as execute:
        execute("DELETE FROM holdfast_idempotency", {})
    assert code(pay(live, quantity=3)) == (409, "IDEMPOTENCY_PAYLOAD_MISMATCH")
    assert wallet(live, made["walletId"]) == (100, 0, 0, 100)


def test_2_2_an_idempotent_endpoint_stores_hash_body_ids_and_when_it_was_seen(live: Live, store: Store) -> None:
    made = bought(live)
    pay(live)

    asked = {"tenant": "platform", "operation": f"POST {PATH}", "key": KEY}
    (row,) = store.atomic(lambda tx: tx.records("idempotency.show", **asked), write=False)
    assert len(row["request_hash"]) == 64
    assert made["instanceId"] in row["resources"]
    assert made["ledgerEntryId"] in row["resources"]
    assert row["last_seen_us"] > row["first_seen_us"] > 0
    with store.database.transaction(write=False) as execute:
        ((body,),) = execute("SELECT body FROM holdfast_idempotency", {}).fetchall()
    assert json.loads(bytes(body)) == {**made, "status": "already_processed"}


def test_2_3_the_same_key_with_another_payload_is_a_mismatch(live: Live) -> None:
    made = bought(live)
    reply = live.post(PLANE, PATH, line(quantity=2), key=KEY)
    assert code(reply) == (409, "IDEMPOTENCY_PAYLOAD_MISMATCH")
    assert wallet(live, made["walletId"]) == (100, 0, 0, 100)


def test_a_missing_key_is_refused_with_what_to_send(live: Live) -> None:
    for path, body in ((PATH, line()), ("/instances", {"tenant": "u1", "planSku": "agent-basic"})):
        reply = live.post(PLANE, path, body)
        assert code(reply) == (400, "IDEMPOTENCY_KEY_REQUIRED")
        assert "Idempotency-Key" in reply.json()["error"]["message"]
    made = bought(live)
    reply = live.post(PLANE, f"/wallets/{made['walletId']}/topups", {"credits": 5})
    assert code(reply) == (400, "IDEMPOTENCY_KEY_REQUIRED")


def test_2_1_the_key_of_an_order_names_the_order_and_its_line(live: Live) -> None:
    reply = live.post(PLANE, PATH, line(), key="saleor:O1:L9")
    assert code(reply) == (400, "IDEMPOTENCY_KEY_MALFORMED")
    assert reply.json()["error"]["details"]["expected"] == KEY


def test_a_product_that_is_not_sold_is_422_until_there_is_a_plan(live: Live) -> None:
    reply = pay(live, sku="agent-gold")
    assert code(reply) == (422, "UNKNOWN_SKU")
    plan = {"kind": "agent", "title": "Gold", "credits": 7, "offering": "assistant"}
    assert live.put(PLANE, "/plans/agent-gold", plan).status_code == 200
    assert wallet(live, bought(live, sku="agent-gold")["walletId"]) == (7, 0, 0, 7)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"quantity": 0}, "quantity"),
        ({"quantity": "1"}, "quantity"),
        ({"orderId": ""}, "orderId"),
        ({"lineId": "a\x00b"}, "lineId"),
        ({"user": {}}, "user.id"),
        ({"more": 1}, "more"),
    ],
)
def test_1_2_a_request_that_is_not_valid_is_400_with_its_fields(live: Live, change: Any, field: str) -> None:
    reply = live.post(PLANE, PATH, {**line(), **change}, key=KEY)
    assert code(reply) == (400, "INVALID_REQUEST")
    assert field in reply.text


def test_a_top_up_by_an_operator_counts_once_and_is_audited(live: Live, store: Store) -> None:
    made = bought(live)
    path = f"/wallets/{made['walletId']}/topups"
    first = live.post(PLANE, f"{path}?reason=gift", {"credits": 40}, key="gift-1")
    assert first.status_code == 201
    assert live.post(PLANE, f"{path}?reason=gift", {"credits": 40}, key="gift-1").json() == first.json()
    assert code(live.post(PLANE, f"{path}?reason=gift", {"credits": 41}, key="gift-1"))[0] == 409
    assert wallet(live, made["walletId"]) == (140, 0, 0, 140)
    from holdfast.operate.audit_log import entries

    rows = store.atomic(entries, write=False)
    assert [(row.verb, row.subject, row.reason) for row in rows] == [("top_up", f"wallet:{made['walletId']}", "gift")]


def test_the_ledger_is_listed_page_by_page_with_cursors_that_cannot_be_made_up(live: Live) -> None:
    made = bought(live)
    path = f"/wallets/{made['walletId']}"
    for number in range(4):
        assert live.post(PLANE, f"{path}/topups", {"credits": 1}, key=f"t{number}").status_code == 201
    seen: list[int] = []
    cursor = ""
    while True:
        page = live.get(PLANE, f"{path}/entries?limit=2{cursor}").json()
        seen += [entry["number"] for entry in page["entries"]]
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert seen == [5, 4, 3, 2, 1]
    assert code(live.get(PLANE, f"{path}/entries?cursor=3.abc")) == (400, "INVALID_REQUEST")
    other = bought(live, user="u2", order="O2")["walletId"]
    assert code(live.get(PLANE, f"/wallets/{other}/entries?limit=2{cursor}"))[0] == 400
