"""Authorize, settle and release over HTTP: §3.4 of the seed, and what a wallet looks like after each."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.store import Store

from .live import SERVICE, Live
from .shop import PLANE, authorize, bought, code, held, release, settle, wallet


def test_3_4_authorize_reserves_the_budget(live: Live) -> None:
    made = bought(live)
    reply = authorize(live, made["instanceId"], "r1", 25).json()
    assert reply == {"allowed": True, "reservationId": reply["reservationId"], "budget": 25}
    assert wallet(live, made["walletId"]) == (75, 25, 0, 100)


def test_3_4_authorize_says_allowed_false_when_credits_do_not_suffice(live: Live) -> None:
    made = bought(live)
    held(live, made["instanceId"], "r1", 88)
    reply = authorize(live, made["instanceId"], "r2", 25)
    assert (reply.status_code, reply.json()) == (
        200,
        {"allowed": False, "code": "INSUFFICIENT_CREDITS", "balance": 12, "requiredBudget": 25},
    )
    assert wallet(live, made["walletId"]) == (12, 88, 0, 100)


def test_3_4_authorize_with_the_same_body_is_the_same_reservation_also_when_settled(live: Live) -> None:
    made = bought(live)
    first = authorize(live, made["instanceId"], "r1").json()
    assert authorize(live, made["instanceId"], "r1").json() == first
    settle(live, first["reservationId"], 3)
    assert authorize(live, made["instanceId"], "r1").json() == first
    assert code(authorize(live, made["instanceId"], "r1", 6)) == (409, "IDEMPOTENCY_PAYLOAD_MISMATCH")
    assert wallet(live, made["walletId"]) == (97, 0, 3, 100)


def test_7_settle_idempotency_the_same_reservation_gives_the_same_ledger_entry(live: Live) -> None:
    made = bought(live)
    reservation = held(live, made["instanceId"], "r1")
    first = settle(live, reservation, 2)
    assert first.status_code == 200
    assert (first.json()["charged"], first.json()["ledgerEntryId"][:4]) == (2, "led_")
    assert {settle(live, reservation, 2).text for _ in range(5)} == {first.text}
    assert wallet(live, made["walletId"]) == (98, 0, 2, 100)
    entries = live.get(PLANE, f"/wallets/{made['walletId']}/entries").json()["entries"]
    assert [(one["kind"], one["credits"]) for one in entries] == [("charge", 2), ("purchase", 100)]
    assert entries[0]["runId"] == "r1"


def test_settle_again_with_another_amount_is_a_mismatch(live: Live) -> None:
    made = bought(live)
    reservation = held(live, made["instanceId"], "r1")
    settle(live, reservation, 2)
    assert code(settle(live, reservation, 3)) == (409, "IDEMPOTENCY_PAYLOAD_MISMATCH")
    assert wallet(live, made["walletId"]) == (98, 0, 2, 100)


def test_more_than_reserved_is_never_charged(live: Live) -> None:
    made = bought(live)
    reservation = held(live, made["instanceId"], "r1")
    reply = settle(live, reservation, 6)
    assert code(reply) == (422, "SETTLE_EXCEEDS_RESERVATION")
    assert reply.json()["error"]["details"]["reserved"] == 5
    assert wallet(live, made["walletId"]) == (95, 5, 0, 100)
    assert settle(live, reservation, 5).status_code == 200


def test_a_run_that_cost_nothing_has_an_entry_of_zero(live: Live) -> None:
    made = bought(live)
    reservation = held(live, made["instanceId"], "r1")
    assert settle(live, reservation, 0).json()["charged"] == 0
    assert wallet(live, made["walletId"]) == (100, 0, 0, 100)


def test_release_gives_everything_back_once_and_nothing_can_be_charged_after_it(live: Live) -> None:
    made = bought(live)
    reservation = held(live, made["instanceId"], "r1")
    assert release(live, reservation).json() == release(live, reservation).json()
    assert wallet(live, made["walletId"]) == (100, 0, 0, 100)
    assert code(settle(live, reservation, 1)) == (409, "RESERVATION_RELEASED")


def test_what_was_settled_cannot_be_released(live: Live) -> None:
    made = bought(live)
    reservation = held(live, made["instanceId"], "r1")
    settle(live, reservation, 1)
    assert code(release(live, reservation)) == (409, "RESERVATION_SETTLED")


def test_a_paused_instance_holds_nothing_but_what_runs_is_settled(live: Live) -> None:
    made = bought(live)
    reservation = held(live, made["instanceId"], "r1")
    assert live.post(PLANE, f"/instances/{made['instanceId']}/pause").json()["status"] == "paused"
    assert code(authorize(live, made["instanceId"], "r2")) == (403, "INSTANCE_PAUSED")
    assert settle(live, reservation, 1).status_code == 200
    assert live.post(PLANE, f"/instances/{made['instanceId']}/resume").json()["status"] == "active"
    assert authorize(live, made["instanceId"], "r2").json()["allowed"]


def test_what_is_not_there_is_404(live: Live) -> None:
    assert code(authorize(live, "inst_x", "r1")) == (404, "INSTANCE_NOT_FOUND")
    assert code(settle(live, "res_x", 1)) == (404, "RESERVATION_NOT_FOUND")
    assert code(release(live, "res_x")) == (404, "RESERVATION_NOT_FOUND")


def test_a_service_that_speaks_for_another_tenant_finds_nothing(live: Live) -> None:
    made = bought(live)
    reservation = held(live, made["instanceId"], "r1")
    other, own = ({**SERVICE, "X-Tenant": tenant} for tenant in ("u2", "u1"))
    assert code(authorize(live, made["instanceId"], "r2", token=other)) == (404, "INSTANCE_NOT_FOUND")
    assert code(settle(live, reservation, 1, token=other)) == (404, "RESERVATION_NOT_FOUND")
    assert code(release(live, reservation, token=other)) == (404, "RESERVATION_NOT_FOUND")
    assert code(live.get(PLANE, f"/wallets/{made['walletId']}", token=other)) == (404, "WALLET_NOT_FOUND")
    assert settle(live, reservation, 1, token=own).status_code == 200


@pytest.mark.parametrize("budget", [0, -1, 1.5, "5", True, 10**10])
def test_a_budget_that_is_not_a_positive_whole_number_is_400(live: Live, budget: Any) -> None:
    made = bought(live)
    assert code(authorize(live, made["instanceId"], "r1", budget)) == (400, "INVALID_REQUEST")


def test_the_database_refuses_a_wallet_that_does_not_add_up_and_any_change_of_the_ledger(
    live: Live, store: Store
) -> None:
    bought(live)
    for statement in (
        "UPDATE holdfast_commerce_wallet SET available = available + 1",
        "UPDATE holdfast_commerce_wallet SET available = -1, held = 101",
        "UPDATE holdfast_commerce_entry SET credits = 1000",
        "DELETE FROM holdfast_commerce_entry",
    ):
        with pytest.raises(Exception, match="holdfast_commerce"), store.database.transaction(write=True) as execute:
            execute(statement, {})
