"""Load is shed by the queueing delay that is measured."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast_systems.records import companies
from holdfast_systems.records.shedding import QueueingDelay

from .live import running


def test_a_burst_passes_and_a_lasting_delay_sheds() -> None:
    delay = QueueingDelay(target_s=0.2, interval_s=0.5)
    assert delay.overloaded(0.0) is None
    first = delay.arrive(0.0)
    assert delay.overloaded(0.1) is None  # below the target
    assert delay.overloaded(0.3) is None  # above it, for a moment
    assert delay.overloaded(0.9) == 0.9  # above it for a whole interval
    delay.begin(first)
    assert delay.overloaded(0.91) is None


def test_delays_that_were_seen_only_late_count_from_their_beginning() -> None:
    delay = QueueingDelay(target_s=0.2, interval_s=0.5)
    delay.arrive(0.0)
    assert delay.overloaded(5.0) == 5.0


def test_many_short_waits_do_not_shed() -> None:
    delay = QueueingDelay(target_s=0.2, interval_s=0.5)
    for number in range(1_000):
        waiting = delay.arrive(number * 0.01)
        assert delay.overloaded(number * 0.01 + 0.005) is None
        delay.begin(waiting)


def test_requests_that_would_wait_too_long_are_refused_at_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, inside = threading.Event(), threading.Semaphore(0)
    page = companies.page

    def slow(*given: Any, **more: Any) -> Any:
        inside.release()
        assert go_on.wait(30)
        return page(*given, **more)

    monkeypatch.setattr(companies, "page", slow)
    settings = {"THREADS": "1", "QUEUEING_TARGET_S": "0.05", "QUEUEING_INTERVAL_S": "0.05"}
    with running(store, tmp_path, **settings) as live:
        account = live.account()
        headers = {"Authorization": f"Bearer {account.key}"}

        def ask() -> None:
            with httpx.Client(base_url=live.url, timeout=60, headers=headers) as http:
                http.get("/records/v1/companies")

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert inside.acquire(timeout=30)  # one works, the other waits
        replies: list[httpx.Response] = []

        def refused() -> bool:
            with (
                httpx.Client(base_url=live.url, timeout=0.5, headers=headers) as http,
                suppress(httpx.TimeoutException),
            ):
                replies.append(http.get("/records/v1/companies"))
            return bool(replies)

        wait_until(refused, within_s=30, what="a request is refused")
        go_on.set()
        for thread in threads:
            thread.join(30)
        shed = replies[0]
        assert (shed.status_code, shed.json()["error_code"]) == (503, "SERVICE_OVERLOADED")
        assert shed.json()["details"]["queueing_delay_ms"] > shed.json()["details"]["target_ms"] == 50
        assert shed.json()["retry_after"] >= 1
        assert account.seen("/companies", lambda found: "companies" in found)
