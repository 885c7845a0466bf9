"""What operators do here is in the audit: who, through which door, from where, why, and in the change's transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.base import Secret, now_us, utc_text
from holdfast.catalog.core import DATABASE_ERROR
from holdfast.http.sessions import COOKIE, OPERATOR, Sessions
from holdfast.operate.audit_log import Entry, entries
from holdfast_systems.records.api_admin import REASON_CHARS_MAX
from holdfast_systems.records.session import FROM_PAGE

from .live import TOKEN, Live

SCOPES = ["read", "write"]


def audit(live: Live) -> list[Entry]:
    """Every entry, the oldest first."""
    return list(live.store.atomic(entries, write=False))[::-1]


def window() -> dict[str, str]:
    return {"from": utc_text(now_us() - 1_000_000), "until": utc_text(now_us() + 60_000_000)}


def test_every_change_of_an_operator_leaves_its_row(live: Live) -> None:
    made = live.operate("POST", "/keys?reason=for+the+importer", json={"account_id": "acct_acme", "scopes": SCOPES})
    key_id = made.json()["key_id"]
    live.operate("PUT", "/quotas/acct_acme", json={"daily": 4, "monthly": 100})
    live.operate("PUT", "/quotas/acct_acme?reason=trial+is+over", json={})
    said = window()
    live.operate("PUT", "/maintenance", json=said)
    live.operate("DELETE", "/maintenance?reason=done+early")
    live.operate("DELETE", f"/keys/{key_id}?reason=leaked")
    found = audit(live)
    assert [(row.verb, row.subject, row.reason) for row in found] == [
        ("create", f"api_key:{key_id}", "for the importer"),
        ("set", "quota:acct_acme", "daily 4, monthly 100"),
        ("set", "quota:acct_acme", "trial is over"),
        ("announce", "maintenance:records", f"{said['from']} to {said['until']}"),
        ("end", "maintenance:records", "done early"),
        ("revoke", f"api_key:{key_id}", "leaked"),
    ]
    assert {(row.actor_kind, row.actor, row.address, row.state) for row in found} == {
        ("api", "operator", "127.0.0.1", "done")
    }
    assert made.json()["api_key"] not in repr(found)


def test_what_is_refused_or_changes_nothing_is_written_down_as_that(live: Live) -> None:
    account = live.account()
    assert live.operate("DELETE", "/maintenance").status_code == 200
    assert live.operate("DELETE", f"/keys/{account.key_id}").status_code == 200
    assert live.operate("DELETE", f"/keys/{account.key_id}").status_code == 404
    assert live.operate("DELETE", "/keys/0190aaaa-0000-7000-8000-000000000000").status_code == 404
    assert [(row.verb, row.state, row.result) for row in audit(live)[1:]] == [
        ("end", "refused", "NOTHING_CHANGED"),
        ("revoke", "done", "done"),
        ("revoke", "refused", "NOTHING_CHANGED"),
        ("revoke", "refused", "KEY_NOT_FOUND"),
    ]


@pytest.mark.parametrize(
    ("act", "unchanged"),
    [
        (
            lambda live, _: live.operate("POST", "/keys", json={"account_id": "acct_new", "scopes": SCOPES}),
            lambda live, _: live.operate("GET", "/keys?account_id=acct_new").json()["keys"] == [],
        ),
        (
            lambda live, key_id: live.operate("DELETE", f"/keys/{key_id}"),
            lambda live, _: live.operate("GET", "/keys?account_id=acct_acme").json()["keys"][0]["revoked_at"] is None,
        ),
        (
            lambda live, _: live.operate("PUT", "/quotas/acct_acme", json={"daily": 4}),
            lambda live, _: live.operate("GET", "/quotas/acct_acme").json()["daily"] is None,
        ),
        (
            lambda live, _: live.operate("PUT", "/maintenance", json=window()),
            lambda live, key: live.http.get("/records/v1/companies", headers={"X-API-Key": key}).status_code == 200,
        ),
    ],
    ids=["issue", "revoke", "quota", "maintenance"],
)
def test_a_change_whose_row_cannot_be_written_does_not_happen(
    live: Live,
    act: Callable[[Live, str], Any],
    unchanged: Callable[[Live, str], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account = live.account()

    def broken(*_: Any, **__: Any) -> None:
        raise DATABASE_ERROR()

    with monkeypatch.context() as patched:
        patched.setattr("holdfast.operate.audit.write", broken)
        assert act(live, account.key_id).status_code == 500
    assert unchanged(live, account.key)


def test_who_signed_in_on_the_page_is_told_apart_from_a_program(solo: Live) -> None:
    session = Sessions(solo.store, Secret(TOKEN)).begin(OPERATOR)
    headers = {FROM_PAGE: "1", "Cookie": f"{COOKIE}={session}"}
    reply = solo.http.put("/records/v1/admin/quotas/acct_acme", json={"daily": 1}, headers=headers)
    assert reply.status_code == 200
    assert [(row.actor_kind, row.actor) for row in audit(solo)] == [("console", "operator")]


def test_a_reason_that_is_too_long_is_refused_and_nothing_is_done(solo: Live) -> None:
    long = "x" * (REASON_CHARS_MAX + 1)
    refused = solo.operate("PUT", f"/quotas/acct_acme?reason={long}", json={"daily": 1})
    assert (refused.status_code, refused.json()["error_code"]) == (400, "VALIDATION_ERROR")
    assert solo.operate("GET", "/quotas/acct_acme").json()["daily"] is None
    assert audit(solo) == []


def test_the_command_shows_them(solo: Live) -> None:
    from holdfast.cli.command import application

    solo.operate("PUT", "/quotas/acct_acme?reason=trial", json={"daily": 1})
    database = f"sqlite:///{solo.folder.parent / 'alone.db'}"
    shown = CliRunner().invoke(application, ["audit", "--database", database, "--json"])
    assert shown.exit_code == 0, shown.output
    assert "quota:acct_acme" in shown.output
    assert "trial" in shown.output
