"""Many attempts at once on one loop: how many reach the endpoint, and what becomes of the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.delivery import Deliveries, NewEvent, Outgoing, Reply
from holdfast.delivery import place as places
from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.testing import VirtualTime
from holdfast.worker import Jobs, ledger
from holdfast.worker.attempt import attempt_async
from holdfast.worker.breakers import SharedBreaker, Tally
from holdfast.worker.settlement import Settlement

URL = "http://somewhere.example.com/"
PATIENCE_S = 60.0
"""So long somebody waits for a place where the test is about being let in: this process may stand still at any line."""


class Gate:
    """A sender whose requests stay open until it is opened; it knows how many are open."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.open = asyncio.Event()
        self.inside = 0
        self.sent = 0
        self.most = 0

    async def __call__(self, request: Outgoing) -> Reply:
        self.inside += 1
        self.sent += 1
        self.most = max(self.most, self.inside)
        try:
            await self.open.wait()
        finally:
            self.inside -= 1
        return Reply(self.status)


class Crowd:
    """All events that are due, attempted at once."""

    def __init__(self, store: Store, deliveries: Deliveries, gate: Gate) -> None:
        self._store = store
        self._gate = gate
        self._handler: Any = deliveries.handlers(gate).get("webhook.deliver")
        self.tasks: list[asyncio.Task[Any]] = []

    async def come(self) -> int:
        """Begin them all; how many requests are open when everybody has had a turn."""
        jobs = self._store.atomic(lambda tx: ledger.claim(tx, queue="webhooks", worker="w", count=1_000))
        self.tasks = [asyncio.create_task(attempt_async(self._handler, job)) for job in jobs]
        while self._gate.inside + sum(task.done() for task in self.tasks) < len(self.tasks):  # noqa: ASYNC110
            await asyncio.sleep(0)
        return self._gate.inside

    async def end(self) -> list[str]:
        """Let the requests end; what became of each attempt."""
        self._gate.open.set()
        outcomes = await asyncio.gather(*self.tasks)
        settlements = [one for one in outcomes if isinstance(one, Settlement)]
        finished = [one for one in outcomes if isinstance(one, tuple)]
        self._store.atomic(lambda tx: ledger.settle(tx, "w", finished, settlements))
        self._gate.open.clear()
        return sorted(one.verb if isinstance(one, Settlement) else "finish" for one in outcomes)


def publish(deliveries: Deliveries, count: int) -> None:
    deliveries.publish_many([NewEvent("order.paid", number) for number in range(count)])


async def test_no_more_are_open_than_the_endpoint_may_have_and_the_others_spend_no_attempt(
    deliveries: Deliveries, virtual_store: Store
) -> None:
    deliveries.endpoints.add(URL, in_flight_max=3)
    crowd = Crowd(virtual_store, deliveries, Gate())
    publish(deliveries, 8)
    assert await crowd.come() == 3
    assert await crowd.end() == ["finish"] * 3 + ["snooze"] * 5


async def test_an_endpoint_that_failed_is_trusted_with_one_at_a_time_until_it_recovers(
    deliveries: Deliveries, virtual_store: Store
) -> None:
    deliveries.endpoints.add(URL, in_flight_max=8)
    gate = Gate(status=500)
    crowd = Crowd(virtual_store, deliveries, gate)
    publish(deliveries, 8)
    assert await crowd.come() == 8
    assert await crowd.end() == ["retry"] * 8
    gate.status = 200
    open_at_once = []
    for _ in range(4):
        publish(deliveries, 10)
        open_at_once.append(await crowd.come())
        await crowd.end()
    assert open_at_once == [1, 2, 4, 8]


async def test_an_attempt_that_is_cancelled_gives_its_place_back(deliveries: Deliveries, virtual_store: Store) -> None:
    deliveries.endpoints.add(URL, in_flight_max=1)
    crowd = Crowd(virtual_store, deliveries, Gate())
    publish(deliveries, 1)
    assert await crowd.come() == 1
    crowd.tasks[0].cancel()
    await asyncio.wait(crowd.tasks)
    publish(deliveries, 1)
    assert await crowd.come() == 1
    assert await crowd.end() == ["finish"]


async def test_one_that_is_cancelled_while_it_waits_holds_nobody_up(
    deliveries: Deliveries, virtual_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "WAIT_S", PATIENCE_S)
    deliveries.endpoints.add(URL, in_flight_max=1)
    gate = Gate()
    crowd = Crowd(virtual_store, deliveries, gate)
    publish(deliveries, 1)
    await crowd.come()  # from now on the endpoint is known, and everybody is at its gate in one turn
    await crowd.end()
    publish(deliveries, 3)
    begun = asyncio.create_task(crowd.come())
    while not gate.inside:  # noqa: ASYNC110
        await asyncio.sleep(0)
    crowd.tasks[1].cancel()
    gate.open.set()
    await asyncio.wait(crowd.tasks)
    assert gate.sent == 1 + 2
    await begun


async def test_those_who_wait_for_a_quick_endpoint_are_sent_without_going_back_to_the_queue(
    deliveries: Deliveries, virtual_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "WAIT_S", PATIENCE_S)
    deliveries.endpoints.add(URL, in_flight_max=5)
    deliveries.queue(100)
    gate = Gate()
    crowd = Crowd(virtual_store, deliveries, gate)
    publish(deliveries, 40)
    begun = asyncio.create_task(crowd.come())
    while gate.inside < 5:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert await crowd.end() == ["finish"] * 40
    assert (gate.sent, gate.most) == (40, 5)
    await begun


async def test_exactly_the_probes_get_through_a_breaker_that_tries_again(
    virtual_store: Store, time: VirtualTime
) -> None:
    jobs = Jobs(virtual_store)
    rule = Breaker(failure_ratio=0.5, calls_min=4, open_s=60, probes=2)
    deliveries = Deliveries(virtual_store, jobs, breaker=rule)
    made = deliveries.endpoints.add(URL)
    breaker = SharedBreaker(f"webhook:{made.id}", rule)
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=4, failures=4, code="BAD_GATEWAY")))
    gate = Gate()
    crowd = Crowd(virtual_store, deliveries, gate)
    publish(deliveries, 5)
    assert await crowd.come() == 0
    assert await crowd.end() == ["snooze"] * 5
    time.advance(61)
    publish(deliveries, 5)
    assert await crowd.come() == 2
    assert await crowd.end() == ["finish"] * 2 + ["snooze"] * 3
    publish(deliveries, 5)
    assert await crowd.come() == 5
    await crowd.end()
    jobs.close()


async def test_a_sender_that_forgets_its_time_limit_is_cut_off(deliveries: Deliveries, virtual_store: Store) -> None:
    deliveries.endpoints.add(URL, timeout_s=0.05)
    gate = Gate()
    crowd = Crowd(virtual_store, deliveries, gate)
    publish(deliveries, 1)
    await crowd.come()
    (outcome,) = await asyncio.gather(*crowd.tasks)
    assert (outcome.verb, outcome.code, gate.inside) == ("retry", "NETWORK_TIMEOUT", 0)


@pytest.mark.parametrize("secret_is_gone", [True, False])
async def test_what_cannot_be_signed_is_not_sent(
    deliveries: Deliveries, virtual_store: Store, time: VirtualTime, secret_is_gone: bool
) -> None:
    made = deliveries.endpoints.add(URL)
    if secret_is_gone:
        virtual_store.atomic(lambda tx: tx.run("delivery.expire_secrets", endpoint_id=made.id, kept="", overlap_us=0))
    gate = Gate()
    crowd = Crowd(virtual_store, deliveries, gate)
    publish(deliveries, 1)
    await crowd.come()
    await crowd.end()
    assert gate.sent == (0 if secret_is_gone else 1)
    dead = deliveries.undelivered.list().events
    assert [one.error_code for one in dead] == (["NO_SECRET"] if secret_is_gone else [])
