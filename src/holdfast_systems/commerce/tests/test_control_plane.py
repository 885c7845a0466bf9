"""The control plane's routes: §1.2 of the seed line by line, who sees what, and buyers' sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from holdfast.http.wrong_tokens import WRONG_TOKENS
from holdfast.operate.audit_log import entries
from holdfast.store import Store

from .live import OPERATOR, SERVICE, Live
from .shop import PLANE, authorize, bought, code, held, line

JSON_ERRORS = (b"{", b'{"credits": 1, "credits": 2}', b"\xff", b"[" * 2_000)


@pytest.fixture(autouse=True)
def _forget_wrong_tokens() -> Iterator[None]:
    WRONG_TOKENS.forget()
    yield
    WRONG_TOKENS.forget()


def buyer(live: Live, user: str) -> dict[str, str]:
    session = live.post(PLANE, "/buyers/sessions", {"userId": user}, token=SERVICE).json()
    return {"Authorization": f"Bearer {session['token']}"}


@pytest.mark.parametrize("body", JSON_ERRORS)
def test_1_2_400_for_a_body_that_is_not_json(live: Live, body: bytes) -> None:
    made = bought(live)
    headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}
    reply = live.ask("POST", PLANE, f"/wallets/{made['walletId']}/topups", content=body, headers=headers)
    assert code(reply) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("token", [{}, {"Authorization": "Bearer of nothing"}, {"Authorization": "Basic Zm9v"}])
def test_1_2_401_for_a_missing_or_invalid_token(live: Live, token: dict[str, str]) -> None:
    for method, path in (("GET", "/wallets/wal_x"), ("POST", "/billing/authorize"), ("PUT", "/plans/x")):
        assert code(live.ask(method, PLANE, path, token=token)) == (401, "UNAUTHORIZED")


def test_1_2_403_for_a_token_that_is_not_entitled(live: Live) -> None:
    made = bought(live)
    own = buyer(live, "u1")
    assert code(authorize(live, made["instanceId"], "r1", token=own)) == (403, "NOT_ENTITLED")
    assert code(live.put(PLANE, "/plans/agent-basic", {}, token=own)) == (403, "NOT_ENTITLED")
    assert code(live.get(PLANE, f"/instances/{made['instanceId']}/bindings", token=own)) == (403, "NOT_ENTITLED")


def test_1_2_404_for_an_instance_an_offering_a_binding_a_plan_or_a_wallet(live: Live) -> None:
    made = bought(live)
    for path, told in (
        ("/instances/inst_x", "INSTANCE_NOT_FOUND"),
        ("/offerings/nothing", "OFFERING_NOT_FOUND"),
        (f"/instances/{made['instanceId']}/bindings/nothing", "BINDING_NOT_FOUND"),
        ("/plans/nothing", "PLAN_NOT_FOUND"),
        ("/wallets/wal_x", "WALLET_NOT_FOUND"),
    ):
        assert code(live.get(PLANE, path)) == (404, told)
    assert code(live.post(PLANE, "/instances", {"tenant": "u1", "plan": "nothing"}, key="k1")) == (
        404,
        "PLAN_NOT_FOUND",
    )


def test_1_2_409_for_the_same_key_with_another_payload(live: Live) -> None:
    body = {"tenant": "u1", "planSku": "agent-basic"}
    first = live.post(PLANE, "/instances", body, key="make-1")
    assert first.status_code == 201
    assert live.post(PLANE, "/instances", body, key="make-1").text == first.text
    other = live.post(PLANE, "/instances", {**body, "name": "Other"}, key="make-1")
    assert code(other) == (409, "IDEMPOTENCY_PAYLOAD_MISMATCH")
    assert len(live.get(PLANE, "/instances?tenant=u1").json()["instances"]) == 1


def test_1_2_429_has_a_retry_after(live: Live) -> None:
    wrong = {"Authorization": "Bearer a guess"}
    replies = [live.get(PLANE, "/plans", token=wrong) for _ in range(25)]
    assert code(replies[0]) == (401, "UNAUTHORIZED")
    assert code(replies[-1]) == (429, "RATE_LIMITED")
    assert int(replies[-1].headers["retry-after"]) >= 1
    assert live.get(PLANE, "/plans").status_code == 200


def test_1_2_500_says_nothing_of_what_went_wrong_inside(live: Live, store: Store) -> None:
    with store.database.transaction(write=True) as execute:
        execute("DROP TABLE holdfast_commerce_binding", {})
    made = live.get(PLANE, "/instances/x/bindings")
    assert made.status_code == 404
    reply = live.post(PLANE, "/integrations/saleor/order-paid", line(), key="saleor:O1:L1")
    assert reply.status_code == 500
    assert "holdfast_commerce_binding" not in reply.text
    assert reply.json()["error"]["traceId"]


def everything(live: Live, made: dict[str, Any], reservation: str) -> list[tuple[str, str, Any]]:
    """Every route of the control plane that takes an id, with the ids of one tenant."""
    instance, wallet_id = made["instanceId"], made["walletId"]
    return [
        ("GET", f"/instances/{instance}", None),
        ("POST", f"/instances/{instance}/pause", None),
        ("POST", f"/instances/{instance}/resume", None),
        ("GET", f"/instances/{instance}/allowlist", None),
        ("PUT", f"/instances/{instance}/allowlist", {"tools": []}),
        ("GET", f"/instances/{instance}/bindings", None),
        ("GET", f"/instances/{instance}/bindings/weather.read", None),
        ("PUT", f"/instances/{instance}/bindings/weather.read", {}),
        ("GET", f"/instances/{instance}/entitlements", None),
        ("PUT", f"/instances/{instance}/entitlements", {"overrides": {}}),
        ("GET", f"/wallets/{wallet_id}", None),
        ("GET", f"/wallets/{wallet_id}/entries", None),
        ("POST", f"/wallets/{wallet_id}/topups", {"credits": 1}),
        ("POST", "/billing/authorize", {"instanceId": instance, "requestedBudget": 1, "runId": "crossing"}),
        ("POST", "/billing/settle", {"reservationId": reservation, "amount": 0}),
        ("POST", "/billing/release", {"reservationId": reservation}),
    ]


def same(reply: httpx.Response, unknown: httpx.Response, mine: str, theirs: str) -> bool:
    """Whether two refusals say the same but for the id that was asked for and the request's own."""
    mine_error, other_error = reply.json()["error"], unknown.json()["error"]
    for error, identifier in ((mine_error, mine), (other_error, theirs)):
        error.pop("traceId")
        error["details"] = str(error.get("details")).replace(identifier, "…")
    return bool(reply.status_code == unknown.status_code and mine_error == other_error)


def test_no_tenant_reaches_anything_of_another_by_any_kind_of_id(live: Live, store: Store) -> None:
    made = bought(live)
    bought(live, user="u2", order="O2")
    reservation = held(live, made["instanceId"], "r1")
    unknown = {"instanceId": "inst_unknown", "walletId": "wal_unknown"}
    before = live.get(PLANE, f"/wallets/{made['walletId']}").json()
    for token in (buyer(live, "u2"), {**SERVICE, "X-Tenant": "u2"}, {**OPERATOR, "X-Tenant": "u2"}):
        theirs = zip(everything(live, made, reservation), everything(live, unknown, "res_unknown"), strict=True)
        for number, ((method, path, body), (_, nowhere, nothing)) in enumerate(theirs):
            given = {"token": token, "headers": {"Idempotency-Key": f"cross-{number}"}}
            crossed = live.ask(method, PLANE, path, json=body, **given)
            missing = live.ask(method, PLANE, nowhere, json=nothing, **given)
            assert crossed.status_code in (403, 404), (method, path, crossed.text)
            identifiers = [(made[name], unknown[name]) for name in unknown if made[name] in f"{path}{body}"]
            identifiers = identifiers or [(reservation, "res_unknown")]
            assert same(crossed, missing, *identifiers[0]), (method, path, crossed.text, missing.text)
        body, key = line(order="O3", user="u1"), {"Idempotency-Key": "saleor:O3:L1"}
        bought_for = live.ask("POST", PLANE, "/integrations/saleor/order-paid", json=body, token=token, headers=key)
        assert code(bought_for) == (403, "NOT_ENTITLED")
    too_long = {**SERVICE, "X-Tenant": "u1" + "x" * 300}
    assert code(live.get(PLANE, f"/wallets/{made['walletId']}", token=too_long)) == (404, "WALLET_NOT_FOUND")
    assert live.get(PLANE, f"/wallets/{made['walletId']}").json() == before
    assert live.get(PLANE, f"/instances/{made['instanceId']}").json()["status"] == "active"


def test_a_tenant_lists_only_its_own_instances(live: Live) -> None:
    made = bought(live)
    bought(live, user="u2", order="O2")
    own = live.get(PLANE, "/instances", token=buyer(live, "u1")).json()["instances"]
    assert [one["instanceId"] for one in own] == [made["instanceId"]]
    crossed = live.get(PLANE, "/instances?tenant=u1", token=buyer(live, "u2")).json()["instances"]
    assert crossed == []


def test_a_buyer_sees_the_own_wallet_and_pauses_and_resumes(live: Live, store: Store) -> None:
    made = bought(live)
    own = buyer(live, "u1")
    me = live.get(PLANE, "/buyers/me", token=own).json()
    assert (me["wallet"]["walletId"], me["instances"][0]["instanceId"]) == (made["walletId"], made["instanceId"])
    assert live.post(PLANE, f"/instances/{made['instanceId']}/pause", token=own).json()["status"] == "paused"
    assert live.post(PLANE, f"/instances/{made['instanceId']}/pause", token=own).json()["status"] == "paused"
    assert live.post(PLANE, f"/instances/{made['instanceId']}/resume", token=own).json()["status"] == "active"
    done = [(row.verb, row.actor) for row in store.atomic(entries, write=False)]
    assert done == [("resume", "buyer:u1"), ("pause", "buyer:u1"), ("pause", "buyer:u1")]


def test_a_ticket_opens_a_session_once(live: Live) -> None:
    bought(live)
    ticket = live.post(PLANE, "/buyers/sessions", {"userId": "u1"}, token=SERVICE).json()["ticket"]
    entered = live.post(PLANE, "/buyers/enter", {"ticket": ticket}, token={})
    assert entered.json()["tenant"] == "u1"
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly; SameSite=Strict" in cookie
    assert "Path=/commerce;" in cookie
    given = {"Cookie": cookie.partition(";")[0]}
    assert live.get(PLANE, "/buyers/me", token=given).json()["tenant"] == "u1"
    assert code(live.post(PLANE, "/buyers/enter", {"ticket": ticket}, token={})) == (401, "UNAUTHORIZED")
    live.http.cookies.clear()


def test_another_website_cannot_change_anything_with_the_cookie_of_a_buyer(live: Live) -> None:
    made = bought(live)
    token = buyer(live, "u1")["Authorization"].removeprefix("Bearer ")
    cookie = {"Cookie": f"holdfast_commerce_buyer={token}"}
    path = f"/instances/{made['instanceId']}/pause"
    for forged in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert code(live.post(PLANE, path, token={**cookie, **forged})) == (403, "NOT_ENTITLED")
    assert live.post(PLANE, path, token={**cookie, "Origin": "http://127.0.0.1:9"}).status_code == 200


def test_bindings_allowlists_and_entitlements_are_kept(live: Live) -> None:
    made = bought(live)
    place = f"/instances/{made['instanceId']}"
    binding = {"status": "disabled", "fields": {"region": "no"}, "secretPath": "tools/weather"}
    assert live.put(PLANE, f"{place}/bindings/own.tool", binding).status_code == 200
    kept = live.get(PLANE, f"{place}/bindings/own.tool").json()
    assert {name: kept[name] for name in binding} == binding
    lists = {"tools": ["own.tool"], "origins": ["https://shop.example"]}
    assert live.put(PLANE, f"{place}/allowlist", lists).json() == {"instanceId": made["instanceId"], **lists}
    assert live.get(PLANE, place).json()["origins"] == ["https://shop.example"]
    wanted = {"overrides": {"rag": False, "beta": True}}
    assert live.put(PLANE, f"{place}/entitlements", wanted).json()["capabilities"] == ["beta", "tools"]
    assert live.get(PLANE, f"{place}/entitlements").json()["overrides"] == wanted["overrides"]
    for path, body in (
        ("/allowlist", {"tools": ["no spaces"]}),
        ("/allowlist", {"tools": [], "origins": ["shop.example"]}),
        ("/bindings/x", {"secretPath": "../etc?"}),
        ("/bindings/x", {"fields": {"a": {"b": 1}}}),
        ("/entitlements", {"overrides": {"rag": "maybe"}}),
    ):
        assert code(live.put(PLANE, f"{place}{path}", body)) == (400, "INVALID_REQUEST")


def test_an_instance_without_an_order_brings_no_credits(live: Live) -> None:
    made = live.post(PLANE, "/instances", {"tenant": "u5", "planSku": "agent-trial"}, key="make-1").json()
    assert (made["plan"], made["softFail"], made["runBudget"]) == ("agent-trial", True, 2)
    assert live.get(PLANE, f"/wallets/{made['walletId']}").json()["paidIn"] == 0
    refused = live.post(PLANE, "/instances", {"tenant": "u5", "planSku": "credits-100"}, key="make-2")
    assert code(refused) == (403, "NOT_ENTITLED")


def test_a_change_by_an_operator_is_in_the_audit(live: Live, store: Store) -> None:
    plan = {"kind": "topup", "title": "Many", "credits": 5}
    assert live.put(PLANE, "/plans/many?reason=season", plan).status_code == 200
    assert code(live.put(PLANE, "/plans/more?reason=typo", {**plan, "offering": "nothing"}))[0] == 404
    rows = store.atomic(entries, write=False)
    assert [(row.verb, row.subject, row.reason, row.state) for row in rows] == [
        ("put", "plan:more", "typo", "refused"),
        ("put", "plan:many", "season", "done"),
    ]
