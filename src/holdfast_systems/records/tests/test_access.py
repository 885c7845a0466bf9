"""Who may come in: keys with scopes and an end, the operator, quotas, rates and maintenance."""

from __future__ import annotations

import re

import pytest

from holdfast.base import now_us, utc_text
from holdfast.http.wrong_tokens import TRIES_MAX
from holdfast_systems.records.quotas import resets_us

from .live import OPERATOR, TOKEN, Live

KEY = re.compile(r"rdb_[0-9A-Za-z]{32}\Z")
DAY_S = 86_400


def test_a_key_is_shown_once_and_hashed_at_rest(live: Live) -> None:
    reply = live.operate("POST", "/keys", json={"account_id": "acct_acme", "scopes": ["read", "write"]})
    made = reply.json()
    assert reply.status_code == 201
    assert KEY.match(made["api_key"])
    listed = live.operate("GET", "/keys?account_id=acct_acme").json()["keys"]
    assert [(one["key_id"], one["scopes"], one["revoked_at"]) for one in listed] == [
        (made["key_id"], ["read", "write"], None)
    ]
    assert made["api_key"] not in str(listed)
    stored = live.store.atomic(lambda tx: str(tx.records("api_key.list", tenant="acct_acme", after="", count=9)))
    assert made["api_key"] not in stored
    expires = made["expires_at"]
    assert utc_text(now_us() + 89 * DAY_S * 1_000_000) < expires < utc_text(now_us() + 91 * DAY_S * 1_000_000)


def test_a_key_comes_as_a_bearer_token_or_in_its_own_header(live: Live) -> None:
    account = live.account()
    for headers in ({"Authorization": f"Bearer {account.key}"}, {"X-API-Key": account.key}):
        assert live.http.get("/records/v1/companies", headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"X-API-Key": "rdb_" + "a" * 32}, {"Authorization": "Bearer nonsense"}])
def test_without_a_key_nobody_comes_in(solo: Live, headers: dict[str, str]) -> None:
    reply = solo.http.get("/records/v1/companies", headers=headers)
    assert (reply.status_code, reply.json()["error_code"]) == (401, "INVALID_API_KEY")
    assert reply.json()["details"] == {
        "key_format": "Expected format: rdb_[32_chars]",
        "expiration_policy": "Keys expire after 90 days",
    }
    assert reply.headers["www-authenticate"] == "Bearer"


def test_a_key_that_was_revoked_is_no_longer_known(live: Live) -> None:
    account = live.account()
    assert live.operate("DELETE", f"/keys/{account.key_id}").json()["status"] == "revoked"
    assert account.get("/companies").json()["error_code"] == "INVALID_API_KEY"
    again = live.operate("DELETE", f"/keys/{account.key_id}")
    assert (again.status_code, again.json()["error_code"]) == (404, "KEY_NOT_FOUND")


def test_a_key_that_expired_says_when_and_where_to_renew(live: Live) -> None:
    account = live.account(expires_at=utc_text(now_us() + 1_500_000))
    assert account.get("/companies").status_code == 200
    reply = account.seen("/companies", lambda body: "error_code" in body)
    assert reply["error_code"] == "API_KEY_EXPIRED"
    assert reply["details"].keys() == {"expired_at", "renewal_url"}
    assert reply["details"]["renewal_url"] == f"{live.url}/records/"


def test_a_key_does_only_what_its_scopes_say(live: Live) -> None:
    reader = live.account(scopes=["read"])
    assert reader.get("/companies").status_code == 200
    refused = reader.post("/companies", {"name": "Acme"})
    assert (refused.status_code, refused.json()["error_code"]) == (403, "INSUFFICIENT_PERMISSIONS")
    assert refused.json()["details"] == {"required_scope": "write", "granted_scopes": ["read"]}
    assert live.account(scopes=["write"]).get("/companies").json()["details"]["required_scope"] == "read"


def test_the_operators_routes_take_the_operators_token_alone(live: Live) -> None:
    account = live.account()
    for method, path in (("GET", "/keys?account_id=a"), ("POST", "/keys"), ("PUT", "/maintenance")):
        reply = account.ask(method, f"/admin{path}")
        assert (reply.status_code, reply.json()["error_code"]) == (401, "INVALID_API_KEY")
    also = live.http.get("/records/admin/keys?account_id=acct_acme", headers=OPERATOR)
    assert len(also.json()["keys"]) == 1


def test_the_operator_may_speak_for_any_account(live: Live) -> None:
    uid = live.account().company()
    headers = {**OPERATOR, "X-Account-Id": "acct_acme"}
    assert live.http.get(f"/records/v1/companies/{uid}", headers=headers).status_code == 200
    without = live.http.get(f"/records/v1/companies/{uid}", headers=OPERATOR)
    assert (without.status_code, without.json()["details"]["errors"][0]["field"]) == (400, "X-Account-Id")


def test_a_quota_ends_with_the_request_that_uses_it_up(live: Live) -> None:
    account = live.account()
    assert account.get("/companies").status_code == 200
    set_to = live.operate("PUT", f"/quotas/{account.account_id}", json={"daily": 4, "monthly": 100})
    assert (set_to.status_code, set_to.json()["daily"]) == (200, 4)
    assert [account.get("/companies").status_code for _ in range(4)] == [200, 200, 200, 429]
    reply = account.get("/companies")
    body = reply.json()
    assert body["error_code"] == "QUOTA_EXCEEDED"
    assert body["details"] == {
        "quota": "daily",
        "limit": 4,
        "used": 4,
        "resets_at": utc_text(resets_us("daily", now_us())),
    }
    assert 0 < int(reply.headers["retry-after"]) <= DAY_S
    assert live.operate("GET", f"/quotas/{account.account_id}").json()["used"] == {"daily": 4, "monthly": 4}
    live.operate("PUT", f"/quotas/{account.account_id}", json={"monthly": 5})
    assert account.get("/companies").status_code == 200
    assert account.get("/companies").json()["details"]["quota"] == "monthly"
    live.operate("PUT", f"/quotas/{account.account_id}", json={})
    assert account.get("/companies").status_code == 200


@pytest.mark.parametrize(
    ("quota", "at", "resets"),
    [
        ("daily", "2024-08-28T15:30:00Z", "2024-08-29T00:00:00Z"),
        ("monthly", "2024-08-28T15:30:00Z", "2024-09-01T00:00:00Z"),
        ("monthly", "2024-12-31T23:59:59Z", "2025-01-01T00:00:00Z"),
    ],
)
def test_a_quota_resets_at_the_end_of_its_period(quota: str, at: str, resets: str) -> None:
    from holdfast_systems.records.api_admin import moment_us

    at_us = moment_us(at)
    assert at_us is not None
    assert resets_us(quota, at_us) == moment_us(resets)


def test_a_rate_is_limited_for_each_account(live: Live) -> None:
    account = live.account()
    live.operate("PUT", f"/quotas/{account.account_id}", json={"per_minute": 2})
    replies = [account.get("/companies") for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    body = replies[2].json()
    assert body["error_code"] == "RATE_LIMIT_EXCEEDED"
    assert body["details"]["limit"] == 2
    assert body["retry_after"] == int(replies[2].headers["retry-after"]) > 0
    assert replies[0].headers["ratelimit-policy"] == '"account";q=2;w=60'
    assert live.account("acct_other").get("/companies").status_code == 200


def test_maintenance_closes_the_api_and_says_until_when(live: Live) -> None:
    account = live.account()
    from_us, until_us = now_us() - 60_000_000, now_us() + 3_600_000_000
    window = {"from": utc_text(from_us), "until": utc_text(until_us)}
    announced = live.operate("PUT", "/maintenance", json=window)
    assert announced.status_code == 200
    reply = account.get("/companies")
    assert (reply.status_code, reply.json()["error_code"]) == (503, "TEMPORARY_UNAVAILABLE")
    assert reply.json()["details"] == {
        "maintenance_window": f"{window['from']} to {window['until']}",
        "expected_resolution": window["until"],
    }
    assert 3_500 < reply.json()["retry_after"] <= 3_600
    assert live.operate("DELETE", "/maintenance").json()["status"] == "open"
    assert account.get("/companies").status_code == 200
    wrong = live.operate("PUT", "/maintenance", json={"from": window["until"], "until": window["from"]})
    assert (wrong.status_code, wrong.json()["error_code"]) == (400, "VALIDATION_ERROR")


def test_a_window_that_has_not_begun_closes_nothing(live: Live) -> None:
    account = live.account()
    window = {"from": utc_text(now_us() + 60_000_000), "until": utc_text(now_us() + 120_000_000)}
    live.operate("PUT", "/maintenance", json=window)
    assert account.get("/companies").status_code == 200


def test_signing_out_ends_the_session_on_the_server(live: Live) -> None:
    entered = live.http.post("/records/sign-in", data={"token": TOKEN})
    cookie = entered.headers["set-cookie"].split(";")[0]
    asked = {"Cookie": cookie, "X-Records-Page": "1", "X-Account-Id": "acct_acme"}
    live.http.cookies.clear()
    assert live.http.get("/records/v1/companies", headers=asked).status_code == 200
    assert live.http.post("/records/sign-out", headers=asked).status_code == 303
    live.http.cookies.clear()
    assert live.http.get("/records/v1/companies", headers=asked).status_code == 401


def test_wrong_operators_tokens_are_counted_and_api_keys_are_not_taken_for_them(live: Live) -> None:
    account = live.account()
    for _ in range(TRIES_MAX + 5):
        assert account.get("/companies").status_code == 200
    statuses = [
        live.http.get("/records/v1/admin/keys", headers={"Authorization": "Bearer guess"}).status_code
        for _ in range(TRIES_MAX + 1)
    ]
    assert statuses == [*[401] * TRIES_MAX, 429]
    assert live.operate("GET", "/keys?account_id=acct_acme").status_code == 200
