"""Events and deliveries as lists: pages, filters, and the reason of a failed attempt, also of TLS and of names."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.store import Store
from holdfast.testing.certificates import Authority, Certificate
from holdfast.testing.processes import wait_until

from .live import PATIENCE_S, Live, created, running, settings_file
from .receiver import Say, receiving

NO_HOST = "no-such-host.invalid"


@contextmanager
def listening_with(kind: Certificate) -> Iterator[int]:
    """A server on loopback with such a certificate; its port."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    ports: list[int] = []

    async def serve() -> None:
        context = Authority().serving(kind, hosts=("127.0.0.1",))
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        async with server:
            await stopping.wait()

    stopping = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(PATIENCE_S)
        loop.close()


@contextmanager
def sending_to(store: Store, folder: Path, url: str, *targets: str, delays: str = "[0, 0, 0, 0]") -> Iterator[Live]:
    """The platform with its worker; events go to this URL."""
    text = f"[sender]\ndelays_s = {delays}\ntimeout_s = 5\nallowed_targets = {list(targets)}\n"
    environment = {
        **settings_file(folder, text),
        "HOLDFAST_CREDENTIALS_PARTS": "platform",
        "HOLDFAST_CREDENTIALS_ENGINE_URL": url,
    }
    with running(store, folder, environment=environment, worker=True) as live:
        yield live


def test_what_is_wrong_with_a_certificate_is_told_by_the_event_the_delivery_and_the_dead_letter(
    store: Store, tmp_path: Path
) -> None:
    with (
        listening_with(Certificate.SELF_SIGNED) as port,
        sending_to(store, tmp_path, f"https://127.0.0.1:{port}/") as live,
    ):
        live.ask("POST", "/platform/v1/events", json=created("evt_1"))
        event = live.wait_event("evt_1", "failed")
        (delivery,) = event["deliveries"]
        (attempt,) = delivery["attempts"]
        assert delivery["error_message"] == "A secure connection could not be made: self-signed certificate."
        assert (attempt["error_code"], "self-signed certificate" in attempt["reason"]) == ("TLS_ERROR", True)
        (listed,) = live.ask("GET", "/platform/v1/deliveries?status=failed").json()["deliveries"]
        assert (listed["error_code"], "self-signed certificate" in listed["reason"]) == ("TLS_ERROR", True)
        (letter,) = live.ask("GET", "/platform/v1/dead-letters").json()["dead_letters"]
        assert (letter["status_code"], "self-signed certificate" in letter["reason"]) == (None, True)


def test_why_a_name_was_not_found_is_told_while_the_event_waits(store: Store, tmp_path: Path) -> None:
    url = f"http://{NO_HOST}/in"
    with sending_to(store, tmp_path, url, f"{NO_HOST}:80", delays="[600]") as live:
        live.ask("POST", "/platform/v1/events", json=created("evt_1"))

        def first() -> dict[str, Any]:
            return dict(live.ask("GET", "/platform/v1/deliveries").json()["deliveries"][0])

        wait_until(lambda: first()["reason"] is not None, within_s=PATIENCE_S, what="the first attempt")
        assert (first()["status"], first()["attempts"]) == ("pending", 1)
        assert NO_HOST in first()["reason"]
        assert first()["next_attempt_at"] is not None
        (attempt,) = live.event("evt_1")["deliveries"][0]["attempts"]
        assert (attempt["error_code"], attempt["outcome"]) == ("DNS_FAILED", "retried")
        assert NO_HOST in attempt["reason"]


def walked(live: Live, path: str, name: str) -> list[str]:
    """The ids on all pages of a list."""
    found: list[str] = []
    place = ""
    for _ in range(100):
        page = live.ask("GET", f"{path}&before={place}").json()
        found += [one["event_id"] for one in page[name]]
        place = page["next"]
        if place is None:
            return found
    raise AssertionError("the list never ends")


def test_events_and_deliveries_are_listed_newest_first_page_by_page_each_once(store: Store, tmp_path: Path) -> None:
    with receiving() as receiver, sending_to(store, tmp_path, receiver.url) as live:
        receiver.answers.extend([Say(404)])
        ids = [f"evt_{number:02}" for number in range(7)]
        for name in ids:
            live.ask("POST", "/platform/v1/events", json=created(name))
            live.wait_event(name, "failed" if name == ids[0] else "delivered")
        assert walked(live, "/platform/v1/events?count=2", "events") == ids[::-1]
        assert walked(live, "/platform/v1/deliveries?count=2", "deliveries") == ids[::-1]
        assert walked(live, "/platform/v1/deliveries?count=2&status=failed", "deliveries") == ids[:1]
        assert walked(live, "/platform/v1/events?count=2&event_type=por_evidence", "events") == []
        told = {one["event_id"]: one["status"] for one in live.ask("GET", "/platform/v1/events").json()["events"]}
        assert told == {name: "failed" if name == ids[0] else "delivered" for name in ids}
        for query in ("before=x", "before=1", "before=9:%00", "count=0"):
            for path in ("events", "deliveries"):
                refused = live.ask("GET", f"/platform/v1/{path}?{query}")
                assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_PAYLOAD")


@pytest.mark.parametrize("path", ["deliveries?status=nonsense", "deliveries?endpoint_id=%00"])
def test_a_filter_that_cannot_be_meant_is_refused(live: Live, path: str) -> None:
    refused = live.ask("GET", f"/platform/v1/{path}")
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_PAYLOAD")
