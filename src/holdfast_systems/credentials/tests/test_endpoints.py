"""Endpoints over the API: added, changed, disabled, removed; and what they may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.operate.audit_log import entries
from holdfast.store import Store
from holdfast_systems.credentials.model import EventType

from .live import Live, called


def test_endpoints_are_added_changed_disabled_and_given_new_secrets(live: Live) -> None:
    asked = {"url": "https://hooks.example/in", "event_types": ["por_evidence"]}
    made = live.ask("POST", "/platform/v1/endpoints", json=asked)
    assert made.status_code == 201
    place = f"/platform/v1/endpoints/{made.json()['endpoint_id']}"
    shown = live.ask("GET", place).json()
    assert "secret" not in shown
    assert (shown["delays_s"], shown["timeout_s"]) == ([1, 2, 4, 8], 10)
    changed = live.ask("PATCH", place, json={"url": "https://hooks.example/other"}).json()
    assert changed["url"] == "https://hooks.example/other"
    rotated = live.ask("POST", f"{place}/rotate-secret").json()
    assert rotated["secret"] != made.json()["secret"]
    assert not live.ask("POST", f"{place}/disable").json()["enabled"]
    assert live.ask("GET", place).json()["disabled_reason"] == "disabled by an operator"
    assert live.ask("POST", f"{place}/enable").json()["enabled"]
    assert len(live.ask("GET", "/platform/v1/endpoints").json()["endpoints"]) == 2


def test_an_endpoint_that_was_removed_is_not_listed_and_not_there(live: Live) -> None:
    made = live.ask("POST", "/platform/v1/endpoints", json={"url": "https://hooks.example/in"}).json()
    place = f"/platform/v1/endpoints/{made['endpoint_id']}"
    assert live.ask("DELETE", place).status_code == 204
    assert made["endpoint_id"] not in live.ask("GET", "/platform/v1/endpoints").text
    for method, path in (("GET", place), ("DELETE", place), ("POST", f"{place}/enable"), ("POST", f"{place}/disable")):
        gone = live.ask(method, path)
        assert (gone.status_code, gone.json()["code"]) == (404, "ENDPOINT_NOT_FOUND")


def test_the_engine_s_endpoint_is_there_again_after_the_next_start_when_it_was_removed(
    store: Store, tmp_path: Path
) -> None:
    with called(store, tmp_path) as live:
        (home,) = live.ask("GET", "/platform/v1/endpoints").json()["endpoints"]
        live.ask("DELETE", f"/platform/v1/endpoints/{home['endpoint_id']}")
    with called(store, tmp_path) as live:
        (again,) = live.ask("GET", "/platform/v1/endpoints").json()["endpoints"]
    assert (again["url"], again["enabled"]) == (home["url"], True)
    assert again["endpoint_id"] != home["endpoint_id"]


@pytest.mark.parametrize("wrong", ["credential.created", "contribution.*", "Por_Evidence", "", "*", "w" * 200])
def test_a_subscription_to_a_type_that_cannot_occur_is_refused_with_the_field_and_the_types(
    live: Live, wrong: str
) -> None:
    types = ["por_evidence", wrong]
    added = live.ask("POST", "/platform/v1/endpoints", json={"url": "https://hooks.example/in", "event_types": types})
    (home,) = live.ask("GET", "/platform/v1/endpoints").json()["endpoints"]
    place = f"/platform/v1/endpoints/{home['endpoint_id']}"
    for reply in (added, live.ask("PATCH", place, json={"event_types": types})):
        body = reply.json()
        assert (reply.status_code, body["code"]) == (400, "INVALID_EVENT_TYPE")
        assert (body["details"]["field"], body["details"]["reason"]) == ("event_types.1", "unknown")
        assert body["details"]["allowed"] == [one.value for one in EventType]
        assert "event_types.1" in body["error"]
        assert "vouch_submitted" in body["error"]
    assert live.ask("GET", place).json() == home, "nothing was changed"


def test_an_endpoint_inside_our_own_network_is_refused(live: Live) -> None:
    for url in ("http://127.0.0.1:1/x", "http://169.254.169.254/", "ftp://x", "http://10.0.0.1/"):
        reply = live.ask("POST", "/platform/v1/endpoints", json={"url": url})
        assert (reply.status_code, reply.json()["code"]) == (400, "ADDRESS_REFUSED")


def test_changes_of_endpoints_are_in_the_audit_with_their_reason(store: Store, tmp_path: Path) -> None:
    with called(store, tmp_path) as live:
        made = live.ask("POST", "/platform/v1/endpoints?reason=new", json={"url": "http://127.0.0.1:9/hook"}).json()
        path = f"/platform/v1/endpoints/{made['endpoint_id']}"
        live.ask("PATCH", f"{path}?reason=less", json={"event_types": ["por_evidence"]})
        live.ask("POST", f"{path}/disable?reason=gone")
        live.ask("POST", f"{path}/enable?reason=back")
        live.ask("POST", f"{path}/rotate-secret?reason=leaked")
        live.ask("DELETE", path)
    rows = [row for row in store.atomic(entries, write=False) if row.subject == f"endpoint:{made['endpoint_id']}"]
    assert [(row.verb, row.reason) for row in rows][::-1] == [
        ("add", "new"), ("update", "less"), ("disable", "gone"), ("enable", "back"), ("rotate_secret", "leaked"),
        ("remove", None),
    ]  # fmt: skip
