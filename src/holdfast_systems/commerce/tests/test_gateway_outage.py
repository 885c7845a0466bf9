"""§3.4 and §6.1: lost replies of the control plane, and a control plane that is away. On both databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy import FaultProxy
from holdfast_systems.commerce.main import build

from .live import COMMERCE, PATIENCE_S, SERVICE, Live, front_of, ground, on_server, running
from .widget import STREAM, Bought, Widget, buy, code

AUTHORIZE, SETTLE, RELEASE = "POST [^ ]*/billing/authorize", "POST [^ ]*/billing/settle", "POST [^ ]*/billing/release"


@contextmanager
def system(store: Store, folder: Path, **settings: str) -> Iterator[tuple[Live, FaultProxy]]:
    """All services, with a proxy that breaks on demand between the gateway and the control plane."""
    with FaultProxy(1) as proxy:
        between = f"http://127.0.0.1:{proxy.port}{COMMERCE}/control-plane"
        given = {"control_plane_url": between, "control_plane_timeout_s": "20", "sweep_every_s": "1", **settings}
        with running(store, folder / "commerce", **given) as live:
            proxy.upstream = ("127.0.0.1", int(live.url.rpartition(":")[2]))
            yield live, proxy


@pytest.fixture
def between(store: Store, tmp_path: Path) -> Iterator[tuple[Live, FaultProxy]]:
    with system(store, tmp_path) as made:
        yield made


def executions(live: Live) -> int:
    return int(live.http.get(live.standin("langflow") + "/health").json()["executions"])


# -- §3.4 ----------------------------------------------------------------------------------------------------------


def test_3_4_allowed_false_does_not_call_the_runner(between: tuple[Live, FaultProxy]) -> None:
    live, _ = between
    bought = buy(live)
    all_of_it = {"instanceId": bought.instance_id, "requestedBudget": 100, "runId": "holds-all"}
    assert live.post("control-plane", "/billing/authorize", all_of_it, token=SERVICE).json()["allowed"]
    assert code(bought.widget().run("c1")) == (403, "INSUFFICIENT_CREDITS")
    assert executions(live) == 0


def test_3_4_authorize_is_repeated_with_the_same_body_and_reserves_once(between: tuple[Live, FaultProxy]) -> None:
    live, proxy = between
    bought = buy(live)
    widget = bought.widget()
    proxy.set(lose_reply=AUTHORIZE, times=2)
    answer = widget.run("c1").json()
    assert (answer["charged"], answer["billing"]) == (2, "settled")
    assert bought.wallet()["held"] == 0, "the lost replies reserved nothing more"


@pytest.mark.parametrize("lost", [1, 3])
def test_3_4_settle_whose_reply_is_lost_is_retried_and_charges_once(
    between: tuple[Live, FaultProxy], lost: int
) -> None:
    live, proxy = between
    bought = buy(live)
    widget = bought.widget()
    proxy.set(lose_reply=SETTLE, times=lost)
    answer = widget.run("c1").json()
    assert (answer["charged"], answer["billing"]) == (2, "settled")
    entries = bought.charges()
    assert [entry["credits"] for entry in entries] == [2]
    assert widget.show(answer["runId"]).json()["ledgerEntryId"] == entries[0]["ledgerEntryId"]


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
def test_3_4_settle_that_never_comes_through_is_made_by_a_job(between: tuple[Live, FaultProxy], fault: str) -> None:
    live, proxy = between
    bought = buy(live)
    widget = bought.widget()
    proxy.set(**{fault: SETTLE})
    reply = widget.run("c1")
    assert reply.status_code == 200
    assert (reply.json()["charged"], reply.json()["billing"]) == (2, "pending")
    proxy.heal()
    bought.settled(2)
    assert len(bought.charges()) == 1
    wait_until(
        lambda: widget.show(reply.json()["runId"]).json()["billing"] == "settled",
        within_s=PATIENCE_S,
        what="the run knows its charge",
    )
    assert widget.run("c1").json()["charged"] == 2
    assert len(bought.charges()) == 1


# -- §6.1: paid plans ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, STREAM], ids=["plain", "stream"])
def test_6_1_cp_down_paid_plans_fail_closed(between: tuple[Live, FaultProxy], headers: dict[str, str]) -> None:
    live, proxy = between
    bought = buy(live)
    widget = bought.widget()
    proxy.set(refuse=True, reset=True)
    reply = widget.run("c1", **headers)
    assert code(reply) == (503, "BILLING_UNAVAILABLE")
    assert int(reply.headers["retry-after"]) >= 1
    proxy.heal()
    assert executions(live) == 0
    _again(widget, "c1")
    assert bought.settled(2)["available"] == 98


def test_6_1_a_reservation_whose_reply_was_lost_is_released(between: tuple[Live, FaultProxy]) -> None:
    live, proxy = between
    bought = buy(live)
    widget = bought.widget()
    proxy.set(lose_reply=AUTHORIZE)
    assert code(widget.run("c1")) == (503, "BILLING_UNAVAILABLE")
    wait_until(lambda: proxy.triggered >= 3, within_s=PATIENCE_S, what="all attempts lost their reply")
    proxy.heal()
    assert bought.settled(0)["available"] == 100
    assert executions(live) == 0
    assert bought.charges() == []


def _again(widget: Widget, client_run_id: str) -> None:
    """The same request, until the gateway has noticed that the control plane is back."""

    def runs() -> bool:
        reply = widget.run(client_run_id)
        assert reply.status_code in (200, 503, 409), reply.text
        return reply.status_code == 200

    wait_until(runs, within_s=PATIENCE_S, what="the run is allowed again")


# -- §6.1: trials --------------------------------------------------------------------------------------------------


def trial(live: Live) -> Bought:
    return buy(live, "t1", "agent-trial", "OT")


@pytest.mark.parametrize("fault", [{"refuse": True, "reset": True}, {"lose_reply": AUTHORIZE}], ids=["down", "silent"])
def test_6_1_cp_down_trial_soft_fails_and_is_reconciled(
    between: tuple[Live, FaultProxy], fault: dict[str, object]
) -> None:
    live, proxy = between
    bought = trial(live)
    widget = bought.widget()
    proxy.set(**fault)
    reply = widget.run("c1")
    assert reply.status_code == 200, reply.text
    assert (reply.json()["charged"], reply.json()["billing"]) == (0, "deferred")
    proxy.heal()
    bought.settled(2)
    run = widget.show(reply.json()["runId"])
    wait_until(
        lambda: widget.show(reply.json()["runId"]).json()["billing"] == "settled",
        within_s=PATIENCE_S,
        what="the run knows its charge",
    )
    assert run.json()["output"] == reply.json()["output"]
    assert [entry["runId"] for entry in bought.charges()] == [reply.json()["runId"]]
    assert executions(live) == 1


def test_6_1_cp_down_trial_runs_under_a_cap(store: Store, tmp_path: Path) -> None:
    with system(store, tmp_path, soft_fail_concurrency="1") as (live, proxy):
        bought = trial(live)
        widget = bought.widget()
        live.fault("langflow", delay_s=6, times=1, health=False)
        proxy.set(refuse=True, reset=True)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(widget.run, "c1")
            wait_until(lambda: _deferred(store) == 1, within_s=PATIENCE_S, what="the first runs")
            second = widget.run("c2")
            assert code(second) == (503, "BILLING_UNAVAILABLE")
            assert first.result().status_code == 200
        proxy.heal()
        bought.settled(2)


def _deferred(store: Store) -> int:
    found = store.atomic(lambda tx: tx.row("gateway.deferred"), write=False)
    assert found is not None
    return int(found[0])


def test_6_1_what_cannot_be_charged_afterwards_is_written_off(between: tuple[Live, FaultProxy]) -> None:
    live, proxy = between
    bought = trial(live)
    widget = bought.widget()
    proxy.set(refuse=True, reset=True)
    run_id = widget.run("c1").json()["runId"]
    # While the gateway cannot reach it, the control plane promises every credit to others.
    all_of_it = {"instanceId": bought.instance_id, "requestedBudget": 20, "runId": "holds-all"}
    direct = f"{live.url}{COMMERCE}/control-plane/billing/authorize"
    assert live.http.post(direct, json=all_of_it, headers=SERVICE).json()["allowed"]
    proxy.heal()
    wait_until(
        lambda: widget.show(run_id).json()["status"] == "written_off", within_s=PATIENCE_S, what="it is written off"
    )
    shown = widget.show(run_id).json()
    assert (shown["charged"], shown["billing"], shown["error"]) == (0, "written_off", "INSUFFICIENT_CREDITS")
    assert bought.charges() == []


def test_6_1_a_gateway_that_starts_during_the_outage_still_knows_the_trial(store: Store, tmp_path: Path) -> None:
    with system(store, tmp_path) as (live, proxy):
        bought, paid = trial(live), buy(live, "p1", order="OP")
        widgets = bought.widget(), paid.widget()
        proxy.set(refuse=True, reset=True)
        listener = listening_socket()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = {
            "control_plane_url": f"http://127.0.0.1:{proxy.port}{COMMERCE}/control-plane",
            "runner_url": live.urls["runner"],
        }
        fresh = build(ground(store, tmp_path / "fresh", address, parts=["gateway"], settings=settings))
        with on_server(front_of(fresh), listener):
            body = {"input": "Hello", "clientRunId": "c1"}
            place = f"{address}{COMMERCE}/gateway/v1/instances"
            ran = live.http.post(f"{place}/{bought.instance_id}/runs", json=body, headers=widgets[0].headers)
            assert (ran.status_code, ran.json().get("billing")) == (200, "deferred")
            refused = live.http.post(f"{place}/{paid.instance_id}/runs", json=body, headers=widgets[1].headers)
            assert code(refused) == (503, "BILLING_UNAVAILABLE")
        fresh.stop()
        proxy.heal()
        bought.settled(2)
