"""Webhooks that are turned away before anybody looks into them: answered, told and counted like all others."""

from __future__ import annotations

import asyncio
import itertools
import logging
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import bus
from holdfast.store import Store
from holdfast_systems.credentials.main import build

from .live import OPERATOR, WEBHOOK, Live, called, created, ground, settings_file, signature

LARGE = b" " * 1_048_577
TURNED_AWAY = {
    "maintenance": ("maintenance = true", b"{}", 503, "SERVICE_UNAVAILABLE"),
    "another network": ('[platforms.gotong_royong]\nnetworks = ["::1/128"]', b"{}", 403, "FORBIDDEN"),
    "too large": ("", LARGE, 413, "PAYLOAD_TOO_LARGE"),
}


@pytest.mark.parametrize("case", TURNED_AWAY)
def test_what_is_turned_away_unread_is_told_on_the_bus_like_the_rest(store: Store, tmp_path: Path, case: str) -> None:
    text, body, status, code = TURNED_AWAY[case]
    with called(store, tmp_path, environment=settings_file(tmp_path, text)) as live, bus.heard() as told:
        assert live.send(body).status_code == status
    (facts,) = [said for verb, said in told if verb == "webhook.received"]
    assert (facts["source"], facts["code"], facts["event_id"]) == ("gotong_royong", code, None)
    assert facts["duration_s"] >= 0


def test_a_body_that_is_too_large_without_saying_so_is_told_too(live: Live) -> None:
    with bus.heard() as told:
        reply = live.http.post(WEBHOOK, content=iter([LARGE]), headers=signature(LARGE))  # in chunks, without a length
    assert reply.status_code == 413
    assert [said["code"] for verb, said in told if verb == "webhook.received"] == ["PAYLOAD_TOO_LARGE"]


def test_what_strangers_and_operators_ask_for_is_no_webhook(live: Live) -> None:
    with bus.heard() as told:
        live.http.post("/engine/v1/platforms/nobody/webhook", content=b"{}", headers=signature(b"{}"))
        live.http.get(WEBHOOK)
        live.ask("GET", "/engine/v1/platforms/gotong_royong/users/nobody")
    assert [verb for verb, _ in told if verb == "webhook.received"] == []


MISSPELT = ("/v1/platforms/gotong_royong/webhooks", "/v1/platforms/gotong_royong/webhook/", "/webhook", "/v2/x")


def test_a_misspelt_address_is_not_found_whatever_is_sent_there(live: Live) -> None:
    body = b"x" * 10_000
    for path in MISSPELT:
        reply = live.http.post(f"/engine{path}", content=body, headers=signature(body))
        assert (reply.status_code, reply.json()["code"]) == (404, "NOT_FOUND")


def test_what_operators_read_is_closed_to_every_method(live: Live) -> None:
    paths = ("/v1/platforms", "/v1/platforms/x/users", "/v1/platforms/gotong_royong/events/e", "/openapi.json")
    for method, path in itertools.product(("GET", "POST", "DELETE", "OPTIONS"), paths):
        reply = live.http.request(method, f"/engine{path}")
        assert (reply.status_code, reply.json()["code"]) == (401, "UNAUTHORIZED")
    assert live.http.get("/engine/v1/platforms", headers=OPERATOR).status_code == 200


def test_a_sender_that_hangs_up_in_the_middle_is_no_error_of_ours(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = build(ground(store, tmp_path, "http://127.0.0.1:9", {"HOLDFAST_CREDENTIALS_PARTS": "engine"})).parts["engine"]
    path = WEBHOOK.removeprefix("/engine")
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"", "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1), "headers": [(b"content-length", b"100")],
    }  # fmt: skip
    arriving = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])
    said: list[Any] = []

    async def receive() -> Any:
        return next(arriving)

    async def send(message: Any) -> None:
        said.append(message)

    with bus.heard() as told, caplog.at_level(logging.WARNING):
        asyncio.run(app(scope, receive, send))
    # What the pools of other tests say about their connections is not about this one.
    assert (said, [one for one in caplog.records if not one.name.startswith("psycopg")]) == ([], [])
    assert [facts["status"] for verb, facts in told if verb == "request.served"] == [499]


def test_an_address_that_cannot_be_told_is_refused_in_words(store: Store, tmp_path: Path) -> None:
    text = 'trusted_proxies = ["127.0.0.0/8"]\n[platforms.gotong_royong]\nnetworks = ["203.0.113.0/24"]'
    with called(store, tmp_path, environment=settings_file(tmp_path, text)) as live:
        silent = live.send(created("evt_1"))
        behind = live.send(created("evt_1"), **{"X-Forwarded-For": "203.0.113.9"})
    assert silent.json()["details"]["address"] == "an unknown address"
    assert behind.status_code == 200
