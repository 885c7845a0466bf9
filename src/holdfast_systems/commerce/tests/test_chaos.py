"""Operations from 64 clients, each twice, with cut replies and kill -9 of each service in turn: the ledger stays exact.

`HOLDFAST_COMMERCE_CHAOS=10000` does so many operations; a run without it does less of the same.
"""

from __future__ import annotations

import hmac
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.store import Store
from holdfast.testing import FaultProxy
from holdfast.testing.ports import free_port
from holdfast.testing.processes import wait_until
from holdfast_systems.commerce import tables
from holdfast_systems.commerce.control_plane.proof import prove
from holdfast_systems.commerce.main import PARTS

from .live import OPERATOR, SERVICE, Live, apart
from .overdue import runs_are_overdue
from .patient import Patient
from .shop import PLANE, line

OPERATIONS = int(os.environ.get("HOLDFAST_COMMERCE_CHAOS", "400"))
CLIENTS = 64
WALLETS = 8
BUDGET = 5
CREDITS = 1_000_000
SECRET = "a secret of the shop"
PATIENCE_S = 240.0
SKU = "chaos"
WEBHOOK = "/webhooks/saleor/order-fully-paid"
PLAN = {
    "kind": "agent",
    "title": "Chaos",
    "credits": CREDITS,
    "offering": "assistant",
    "limits": dict.fromkeys(
        ("requestsPerMinute", "concurrentRuns", "toolCallsPerMinute", "sessionsPerMinute", "chatsPerMinute"), 1_000_000
    ),
}
ENDED = frozenset({"RUN_INTERRUPTED", "RUN_TIMEOUT", "UPSTREAM_ERROR"})
LOST = (r"POST /billing/settle", r"POST /billing/authorize", r"POST /billing/release", r"POST /integrations")


def amount(run: int) -> int | None:
    """What a run is charged; None is one that is released."""
    return None if run % 4 == 0 else run % (BUDGET + 1)


def ended(error: dict[str, Any]) -> bool:
    """Whether a run has failed for good: it may have run, so it is never run again, and nothing is charged."""
    return error.get("code") in ENDED or bool(error.get("details", {}).get("mayHaveRun"))


class Traffic:
    """The work of all clients, and what they were told."""

    def __init__(self, live: Live, plane: str) -> None:
        self._live = live
        self._plane = plane
        self._local = threading.local()
        self._lock = threading.Lock()
        self.instances: list[str] = []
        self.told: dict[str, set[str]] = {}
        """Every answer that each thing has got, however often it was asked for."""
        self.charged: dict[str, int] = {}
        """The runs of the gateway that were answered, and what they cost."""
        self.done = 0
        self.clients: list[Patient] = []

    def client(self) -> Patient:
        if not hasattr(self._local, "client"):
            self._local.client = Patient()
            with self._lock:
                self.clients.append(self._local.client)
        client: Patient = self._local.client
        return client

    def bill(self, run: int) -> None:
        """Authorize, then settle or release."""
        instance = self.instances[run % WALLETS]
        asked = {"instanceId": instance, "requestedBudget": BUDGET, "runId": f"billed-{run}"}
        reservation = self._asked(f"authorize-{run}", "/billing/authorize", asked)["reservationId"]
        charged = amount(run)
        if charged is None:
            self._asked(f"end-{run}", "/billing/release", {"reservationId": reservation})
        else:
            body = {"reservationId": reservation, "amount": charged}
            assert self._asked(f"end-{run}", "/billing/settle", body)["charged"] == charged

    def order(self, number: int) -> None:
        """A paid order, as the shop sends it."""
        lines = [{"id": f"L{one}", "productSku": "credits-100", "quantity": 1} for one in range(2)]
        user = {"id": f"buyer-{number}", "email": "buyer@shop.example"}
        body = json.dumps({"order": {"id": f"order-{number}", "user": user, "lines": lines}}).encode()
        signature = hmac.new(SECRET.encode(), body, "sha256").hexdigest()
        status, said = self.client().post(
            f"{self._live.urls['provisioner']}{WEBHOOK}", body, {"Saleor-Signature": signature}
        )
        assert status == 200, said
        self._note(f"order-{number}", json.dumps([one["ledgerEntryId"] for one in said["lines"]]))

    def run(self, number: int) -> None:
        """A run through the gateway, some with a tool."""
        words = '/tool weather.read {"city": "Oslo"}' if number % 2 else "hello"
        body = {"input": words, "clientRunId": f"run-{number}", "userId": "u"}
        url = f"{self._live.urls['gateway']}/v1/instances/{self.instances[number % WALLETS]}/runs"
        status, said = self.client().post(url, body, SERVICE, final=ended)
        if status == 200:
            self._note(f"run-{number}", f"{said['runId']}:{said['charged']}")
            with self._lock:
                self.charged[said["runId"]] = said["charged"]

    def _asked(self, name: str, path: str, body: dict[str, Any]) -> Any:
        status, said = self.client().post(f"{self._plane}{path}", body, SERVICE)
        assert status == 200, (path, said)
        self._note(name, json.dumps(said, sort_keys=True))
        return said

    def _note(self, name: str, answer: str) -> None:
        with self._lock:
            self.told.setdefault(name, set()).add(answer)
            self.done += 1


@pytest.mark.timeout(1_800)
def test_the_ledger_stays_exact_through_duplicates_cut_replies_and_kills(
    database_url: str, store: Store, tmp_path: Path
) -> None:
    ports = {part: free_port() for part in PARTS}
    settings = {"saleor_secret": SECRET, "reservation_s": "60", "sweep_every_s": "2", "webhook_deadline_s": "5"}
    with FaultProxy(ports[PLANE]) as proxy:
        plane = f"http://127.0.0.1:{proxy.port}"
        with apart(database_url, tmp_path, ports=ports, control_plane_url=plane, **settings) as live:
            traffic = Traffic(live, plane)
            traffic.instances = opened(live)
            runs = max(OPERATIONS // 4, 1)
            work = jobs(traffic, runs)
            stop = threading.Event()
            trouble = threading.Thread(target=make_trouble, args=(live, store, proxy, traffic, len(work), stop))
            trouble.start()
            try:
                with ThreadPoolExecutor(CLIENTS) as clients:
                    for future in [clients.submit(one) for one in work]:
                        future.result()
            finally:
                stop.set()
                trouble.join()
                proxy.set()
                for client in traffic.clients:
                    client.close()
            check(store, traffic, runs)


def opened(live: Live) -> list[str]:
    """Wallets with plenty of credits, each with an instance."""
    assert live.put(PLANE, f"/plans/{SKU}", PLAN).status_code == 200
    made = []
    for number in range(WALLETS):
        body = line(order=f"first-{number}", sku=SKU, user=f"tenant-{number}")
        key = f"saleor:first-{number}:L1"
        reply = live.post(PLANE, "/integrations/saleor/order-paid", body, key=key, token=OPERATOR)
        assert reply.status_code == 200, reply.text
        made.append(str(reply.json()["instanceId"]))
    return made


def jobs(traffic: Traffic, runs: int) -> list[Callable[[], None]]:
    """Everything twice, the second time soon after the first and by another client."""
    work: list[Callable[[], None]] = []
    for run in range(runs):
        work += [lambda run=run: traffic.bill(run)] * 2
        if run % 10 == 0:
            work += [lambda run=run: traffic.order(run)] * 2
        if run % 10 == 5:
            work += [lambda run=run: traffic.run(run)] * 2
    return work


def make_trouble(
    live: Live, store: Store, proxy: FaultProxy, traffic: Traffic, total: int, stop: threading.Event
) -> None:
    """Lose replies all the time, and kill one service after the other as the work goes on."""
    victims = [*PARTS, PLANE]
    turn = 0
    while not stop.wait(0.05):
        proxy.set(lose_reply=LOST[turn % len(LOST)], times=3)
        turn += 1
        if victims and traffic.done >= total * 2 * (len(PARTS) + 1 - len(victims)) // (len(PARTS) + 3):
            kill(live, store, victims.pop(0))
    for victim in victims:  # the work was done sooner than they had their turn
        kill(live, store, victim)


def kill(live: Live, store: Store, part: str) -> None:
    """End a service as a crash would, and start it again."""
    live.processes[part].kill()
    if part == "gateway":
        runs_are_overdue(store)
    live.processes[part].start()


def check(store: Store, traffic: Traffic, runs: int) -> None:
    """One answer for each thing, one charge for each run that was settled, and every credit where it should be."""
    twofold = {name: answers for name, answers in traffic.told.items() if len(answers) > 1}
    assert not twofold
    tables.prepare(store)
    wait_until(lambda: settled(store, traffic), within_s=PATIENCE_S, what="every run is settled or released")
    proof = prove(store)
    assert proof.holds, proof.findings
    expected = {f"billed-{run}": amount(run) for run in range(runs) if amount(run) is not None}
    found = charges(store)
    assert max(Counter(run for run, _ in found).values()) == 1
    assert {run: cost for run, cost in found if run.startswith("billed-")} == expected
    # Runs of the gateway: what was answered was charged, and what failed for good was not.
    assert {run: cost for run, cost in found if not run.startswith("billed-")} == traffic.charged
    paid = rows(store, "SELECT order_id, line_id FROM holdfast_commerce_entry WHERE kind = 'topup'")
    assert Counter(order for order, _ in paid) == {f"order-{run}": 2 for run in range(0, runs, 10)}


def settled(store: Store, traffic: Traffic) -> bool:
    """Whether what the gateway and the clients left open has come to its end: by a job, or by the sweep."""
    return prove(store).held == 0 and traffic.charged.keys() <= {run for run, _ in charges(store)}


def charges(store: Store) -> list[tuple[str, int]]:
    found = rows(store, "SELECT run_id, credits FROM holdfast_commerce_entry WHERE kind = 'charge'")
    # The gateway numbers the attempts at a run.
    return [(run.partition(".")[0], cost) for run, cost in found]


def rows(store: Store, statement: str) -> list[Any]:
    with store.database.transaction(write=False) as execute:
        return execute(statement, {}).fetchall()
