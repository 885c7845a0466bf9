"""§5 at the gateway: limits for each instance and for each website, shared by all processes; and §3.3's 429."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.store import Store
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until
from holdfast_systems.commerce.main import build

from .live import COMMERCE, PATIENCE_S, Live, front_of, ground, on_server, running
from .widget import Bought, buy, code


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Live]:
    with running(store, tmp_path / "commerce") as live:
        yield live


def plan_with(live: Live, **limits: int) -> Bought:
    """Pay for a plan with these limits."""
    plan = live.get("control-plane", "/plans/agent-basic").json()
    document = {name: plan[name] for name in plan if name not in ("sku", "updatedAt")}
    document["limits"] = {**document["limits"], **limits}
    reply = live.put("control-plane", "/plans/agent-limited", document)
    assert reply.is_success, reply.text
    return buy(live, "u7", "agent-limited", "O7")


def refused(reply: Any, expected: str) -> None:
    assert code(reply) == (429, expected)
    assert int(reply.headers["retry-after"]) >= 1
    assert reply.json()["error"]["details"]["limit"]


def test_5_per_instance_requests_per_minute(served: Live) -> None:
    bought = plan_with(served, requestsPerMinute=3, chatsPerMinute=1000)
    widget = bought.widget()
    assert [widget.run(f"c{number}").status_code for number in range(3)] == [200, 200, 200]
    refused(widget.run("c3"), "RATE_LIMITED")
    assert buy(served, "u8", order="O8").widget().run("c1").status_code == 200, "another instance has its own"


def test_5_per_instance_concurrent_runs(served: Live) -> None:
    bought = plan_with(served, concurrentRuns=2)
    widget = bought.widget()
    served.fault("langflow", delay_s=5, times=2)
    with ThreadPoolExecutor(2) as pool:
        under_way = [pool.submit(widget.run, f"c{number}") for number in range(2)]
        wait_until(lambda: bought.wallet()["held"] == 10, within_s=PATIENCE_S, what="both runs hold their budget")
        refused(widget.run("c2"), "CONCURRENT_RUNS_EXCEEDED")
        assert [one.result().status_code for one in under_way] == [200, 200]
    assert widget.run("c2").status_code == 200


def test_5_per_widget_origin_session_init_per_minute(served: Live) -> None:
    bought = plan_with(served, sessionsPerMinute=3)
    assert [bought.session(f"v{number}").status_code for number in range(3)] == [200, 200, 200]
    refused(bought.session("v3"), "RATE_LIMITED")
    assert bought.session("v4", "http://127.0.0.1:9000").status_code == 200, "another website has its own"


def test_5_the_default_is_sixty_sessions_a_minute(served: Live) -> None:
    bought = buy(served)
    replies = [bought.session(f"v{number}").status_code for number in range(75)]
    assert replies[:60] == [200] * 60
    assert 429 in replies


def test_5_per_widget_origin_chat_per_minute(served: Live) -> None:
    bought = plan_with(served, chatsPerMinute=2)
    one, two = bought.widget("ann"), bought.widget("bob")
    assert (one.run("c1").status_code, two.run("c1").status_code) == (200, 200)
    refused(one.run("c2"), "RATE_LIMITED")
    elsewhere = bought.widget("ann", "http://127.0.0.1:9000")
    assert elsewhere.run("c3").status_code == 200, "another website has its own"


def test_5_limits_are_shared_by_all_processes(store: Store, tmp_path: Path) -> None:
    """Two gateways on one store: together they let through what one would."""
    with running(store, tmp_path / "commerce") as live, ExitStack() as stack:
        listener = listening_socket()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = {"control_plane_url": live.urls["control-plane"], "runner_url": live.urls["runner"]}
        second = build(ground(store, tmp_path / "second", address, parts=["gateway"], settings=settings))
        stack.enter_context(on_server(front_of(second), listener))
        stack.callback(second.stop)
        bought = plan_with(live, requestsPerMinute=4)
        widget = bought.widget()
        path = f"/v1/instances/{bought.instance_id}/runs"
        replies = []
        for number in range(8):
            place = live.urls["gateway"] if number % 2 else f"{address}{COMMERCE}/gateway"
            body = {"input": "Hello", "clientRunId": f"c{number}"}
            replies.append(live.http.post(place + path, json=body, headers=widget.headers).status_code)
        assert replies[:4] == [200] * 4
        assert 429 in replies[4:]


def test_a_place_of_a_run_whose_process_died_is_free_after_its_lease(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path / "commerce", worker=False) as live:
        bought = plan_with(live, concurrentRuns=1)
        widget = bought.widget()
        assert widget.run("c0").status_code == 200
        _leave_behind(store, bought, lease_us=3_600_000_000)
        assert code(widget.run("c1")) == (429, "CONCURRENT_RUNS_EXCEEDED")
        _end_leases(store)
        assert widget.run("c1").status_code == 200


def _leave_behind(store: Store, bought: Bought, *, lease_us: int) -> None:
    """A run that some other process has begun."""
    store.atomic(
        lambda tx: tx.run(
            "gateway.begin",
            id="run_dead",
            key="ui:v:i:dead",
            tenant=bought.tenant,
            instance_id=bought.instance_id,
            user_id="v",
            input="Hello",
            input_hash="x",
            budget=5,
            lease_us=lease_us,
        )
    )


def _end_leases(store: Store) -> None:
    """Let the lease of every run be over."""
    with store.database.transaction(write=True) as execute:
        execute("UPDATE holdfast_commerce_run SET lease_until_us = 1 WHERE lease_until_us IS NOT NULL", {})
