"""kill -9 of the gateway at every boundary of a run: one charge or none, never two, and no second execution."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.store import Store
from holdfast.testing.ports import free_port
from holdfast.testing.processes import Child, wait_until

from .live import COMMERCE, PATIENCE_S, Live, apart, running
from .overdue import runs_are_overdue
from .programs.gateway_process import BOUNDARIES
from .widget import Bought, Widget, buy

PROGRAM = "holdfast_systems.commerce.tests.programs.gateway_process"

EXPECTED = {
    # What the same request is answered with afterwards, how often the flow was executed, and what was charged.
    "authorize answered": (200, 1, 2),
    "run started": (502, 0, 0),
    "runner answered": (502, 1, 0),
    "before settle": (200, 1, 2),
    "settle answered": (200, 1, 2),
    "before the reply": (200, 1, 2),
}


@contextmanager
def killable(database_url: str, live: Live, folder: Path, boundary: str) -> Iterator[tuple[str, Child]]:
    """A gateway of its own, and where it stands."""
    port = free_port()
    urls = live.urls["control-plane"], live.urls["runner"]
    command = [sys.executable, "-m", PROGRAM, database_url, str(folder), str(port), *urls, boundary]
    with (folder / "gateway.log").open("wb") as log:
        child = Child(command, log=log, environment=dict(os.environ))
        try:
            yield f"http://127.0.0.1:{port}{COMMERCE}/gateway", child
        finally:
            if child.running():
                child.kill()


def send(widget: Widget, gateway: str) -> None:
    """The request that is under way when the gateway dies."""
    body = {"input": "Hello", "clientRunId": "c1"}
    url = f"{gateway}/v1/instances/{widget.bought.instance_id}/runs"
    with httpx.Client(timeout=PATIENCE_S) as client, pytest.raises(httpx.TransportError):
        client.post(url, json=body, headers=widget.headers)


def listens(url: str) -> bool:
    try:
        return httpx.get(f"{url}/openapi.json").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_gateway_that_is_killed_charges_once_or_not_at_all(
    database_url: str, store: Store, tmp_path: Path, boundary: str
) -> None:
    status, executions, spent = EXPECTED[boundary]
    with running(store, tmp_path / "commerce", sweep_every_s="1") as live:
        bought = buy(live)
        widget = bought.widget()
        with killable(database_url, live, tmp_path, boundary) as (gateway, child), ThreadPoolExecutor(1) as pool:
            wait_until(lambda: listens(gateway), within_s=PATIENCE_S, what="the gateway listens")
            sent = pool.submit(send, widget, gateway)
            wait_until(lambda: (tmp_path / "reached").exists(), within_s=PATIENCE_S, what=f"{boundary} is reached")
            child.kill()
            sent.result()
        reply = _answered(widget)
        assert reply.status_code == status, reply.text
        wallet = bought.settled(spent)
        assert wallet["available"] == 100 - spent
        assert [entry["credits"] for entry in bought.charges()] == ([spent] if spent else [])
        assert _executions(live) == executions
        if status == 200:
            assert reply.json()["charged"] == spent
            assert _answered(widget).json()["runId"] == reply.json()["runId"]
        else:
            error = reply.json()["error"]
            assert (error["code"], error["details"]["mayHaveRun"]) == ("RUN_INTERRUPTED", True)
        assert len(bought.charges()) == (1 if spent else 0)


def _answered(widget: Widget) -> httpx.Response:
    """The same request again, as soon as it is not told to wait."""
    found: list[httpx.Response] = []

    def answered() -> bool:
        found[:] = [widget.run("c1")]
        return found[0].status_code not in (409, 429)

    wait_until(answered, within_s=PATIENCE_S, what="the run has ended")
    return found[0]


def _executions(live: Live) -> int:
    return int(live.http.get(live.standin("langflow") + "/health").json()["executions"])


def test_the_sweep_ends_what_nobody_asks_for_again(database_url: str, store: Store, tmp_path: Path) -> None:
    """Without a repeat of the request, the credits are free again, and an answer is charged."""
    ends = {"authorize answered": ("failed", 0), "run started": ("interrupted", 0), "before settle": ("settled", 2)}
    with running(store, tmp_path / "commerce", sweep_every_s="1") as live:
        sold = {boundary: buy(live, f"u{number}", order=f"O{number}") for number, boundary in enumerate(ends)}
        # All of them die before any is waited for, so that their leases pass at the same time.
        for boundary, bought in sold.items():
            _die(database_url, live, tmp_path, bought, boundary)
        for boundary, (state, spent) in ends.items():
            sold[boundary].settled(spent)
            # The gateway notes the end of a run after the control plane has charged for it.
            _wait_until_it_ends(live, sold[boundary], state)


def _wait_until_it_ends(live: Live, bought: Bought, state: str) -> None:
    path = f"/v1/instances/{bought.instance_id}/runs"
    wait_until(
        lambda: [run["status"] for run in live.get("gateway", path).json()["runs"]] == [state],
        within_s=PATIENCE_S,
        what=f"the only run of {bought.instance_id} is {state}",
    )


def _die(database_url: str, live: Live, parent: Path, bought: Bought, boundary: str) -> None:
    folder = parent / boundary
    folder.mkdir()
    widget = bought.widget()
    with killable(database_url, live, folder, boundary) as (gateway, child), ThreadPoolExecutor(1) as pool:
        wait_until(lambda: listens(gateway), within_s=PATIENCE_S, what="the gateway listens")
        sent = pool.submit(send, widget, gateway)
        wait_until(lambda: (folder / "reached").exists(), within_s=PATIENCE_S, what=f"{boundary} is reached")
        child.kill()
        sent.result()


# -- every service in turn, under load -----------------------------------------------------------------------------

CLIENTS, RUNS_EACH = 6, 12
KILLED = ("gateway", "control-plane", "runner", "gateway")
ENDED = frozenset({"settled", "written_off", "refused", "failed", "interrupted"})


@dataclass
class Load:
    """People who send until each of their requests has its answer, twice each."""

    widget: Widget
    answers: dict[str, httpx.Response] = field(default_factory=dict)

    def person(self, number: int) -> None:
        for turn in range(RUNS_EACH):
            client_run_id = f"{number}-{turn}"
            first = self._persistent(client_run_id)
            again = self._persistent(client_run_id)
            assert again.status_code == first.status_code
            if first.status_code == 200:
                assert again.json()["runId"] == first.json()["runId"]
            self.answers[client_run_id] = first

    def _persistent(self, client_run_id: str) -> httpx.Response:
        found: list[httpx.Response] = []

        def answered() -> bool:
            try:
                reply = self.widget.run(client_run_id)
            except httpx.TransportError:
                return False
            found[:] = [reply]
            assert reply.status_code in (200, 409, 429, 502, 503, 504), reply.text
            may_have_run = reply.status_code > 500 and reply.json()["error"]["details"].get("mayHaveRun", False)
            return reply.status_code == 200 or bool(may_have_run)

        wait_until(answered, within_s=2 * PATIENCE_S, what=f"{client_run_id} has its answer")
        return found[0]


@pytest.mark.timeout(400)
def test_kill_9_of_each_service_in_turn_leaves_one_charge_for_each_answer(
    database_url: str, store: Store, tmp_path: Path
) -> None:
    with apart(database_url, tmp_path / "apart", sweep_every_s="1", control_plane_timeout_s="2") as live:
        bought = _unlimited(live)
        load = Load(bought.widget())
        with ThreadPoolExecutor(CLIENTS) as pool:
            people = [pool.submit(load.person, number) for number in range(CLIENTS)]
            for count, part in enumerate(KILLED, 1):
                enough = count * CLIENTS * RUNS_EACH // (len(KILLED) + 1)
                wait_until(
                    lambda enough=enough: len(load.answers) >= enough or any(one.done() for one in people),
                    within_s=2 * PATIENCE_S,
                    what=f"{enough} requests have their answer",
                )
                live.processes[part].kill()
                if part == "gateway":
                    runs_are_overdue(store)
                live.processes[part].start()
                live.processes[part].wait_ready(live.http)
            for one in people:
                one.result()
        runs = _ended_runs(live, bought)
        charges = {entry["runId"]: entry["credits"] for entry in bought.charges_all()}
        settled = {run["runId"]: run["charged"] for run in runs if run["status"] == "settled"}
        assert settled
        assert len(runs) == CLIENTS * RUNS_EACH
        assert {run_id.partition(".")[0]: credits for run_id, credits in charges.items()} == settled
        assert len(charges) == len(settled), "no run is charged twice"
        wallet = bought.settled(sum(settled.values()))
        assert wallet["available"] == wallet["paidIn"] - sum(settled.values())
        for reply in load.answers.values():
            if reply.status_code == 200:
                assert settled[reply.json()["runId"]] == reply.json()["charged"]


def _unlimited(live: Live) -> Bought:
    """An instance whose limits the load does not reach, and whose runs are soon taken for dead."""
    plan = live.get("control-plane", "/plans/agent-basic").json()
    document = {name: plan[name] for name in plan if name not in ("sku", "updatedAt")}
    document["limits"] = dict.fromkeys(document["limits"], 100_000)
    reply = live.put("control-plane", "/plans/agent-load", {**document, "credits": 10_000, "runTimeoutS": 2})
    assert reply.is_success, reply.text
    return buy(live, "load", "agent-load", "LOAD")


def _ended_runs(live: Live, bought: Bought) -> list[dict[str, Any]]:
    """Every run, as soon as all have ended."""
    found: list[dict[str, Any]] = []

    def ended() -> bool:
        found[:] = bought.runs()
        return all(run["status"] in ENDED for run in found)

    wait_until(ended, within_s=2 * PATIENCE_S, what="every run has ended")
    return found
