"""A dead endpoint slows nobody: its requests are few, its breaker opens, and what exceeds a limit waits."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from holdfast.base import bus
from holdfast.delivery import Deliveries, NewEvent, Outgoing, Reply
from holdfast.delivery.admission import ENDPOINT_BREAKER
from holdfast.policy import Breaker, RateLimit
from holdfast.store import Store
from holdfast.testing import VirtualTime
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, Queues, Worker

from .loopback import AiohttpPost, Loopback, Say, VirtualWorker, post

EVENTS = 40
QUICK_EVENTS = 300
ROUNDS_MAX = 4
HANGS_S = 600.0
PATIENCE_S = 90.0
LEASE_S = 60.0
"""Long enough for this process to stand still for a while: nobody takes its jobs, and none is sent twice."""


class Quick:
    """Takes five milliseconds for an answer; it knows how many are asked for at once."""

    def __init__(self) -> None:
        self._inside = 0
        self.most = 0

    async def __call__(self, request: Outgoing) -> Reply:
        self._inside += 1
        self.most = max(self.most, self._inside)
        await asyncio.sleep(0.005)
        self._inside -= 1
        return Reply(200)


@pytest.fixture
def silent() -> Iterator[str]:
    """A place that takes connections and never says a word."""
    server = socket.create_server(("127.0.0.1", 0), backlog=200)
    yield f"http://127.0.0.1:{server.getsockname()[1]}/"
    server.close()


def test_one_dead_endpoint_among_ten_does_not_delay_the_others(store: Store, receiver: Loopback, silent: str) -> None:
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    for number in range(9):
        deliveries.endpoints.add(f"{receiver.url}/{number}")
    deliveries.endpoints.add(silent, timeout_s=HANGS_S)
    send = AiohttpPost()
    # Everything waits before the worker begins, the dead endpoint's events between the others'.
    deliveries.publish_many([NewEvent("order.paid", number) for number in range(EVENTS)])
    worker = Worker(store, deliveries.handlers(send), queues=[deliveries.queue(40)], grace_s=0.0, lease_s=LEASE_S)
    worker.start()
    # Far from the time that the silent one takes for a single request.
    wait_until(lambda: len(receiver.got) == 9 * EVENTS, within_s=PATIENCE_S, what="the events of the living")
    asyncio.run_coroutine_threadsafe(send.close(), worker._loop.get()).result(PATIENCE_S)
    worker.stop()
    worker.join()
    jobs.close()
    assert Counter(got.path for got in receiver.got) == {f"/{number}": EVENTS for number in range(9)}


def snoozed_s(store: Store, deliveries: Deliveries, receiver: Quick) -> list[float]:
    """For how long events were sent back, each time that one was, until all that are published here have arrived."""
    deliveries.publish_many([NewEvent("order.paid", number) for number in range(QUICK_EVENTS)])
    worker = Worker(store, deliveries.handlers(receiver), queues=[deliveries.queue(20)], grace_s=0.0, lease_s=LEASE_S)
    with bus.heard() as told:

        def count(past: str) -> int:
            return sum(verb == f"job.{past}" for verb, _ in told)

        worker.start()
        wait_until(lambda: count("finished") == QUICK_EVENTS, within_s=PATIENCE_S, what="all events are delivered")
        worker.stop()
        worker.join()
    return [facts["delay_us"] / 1e6 for verb, facts in told if verb == "job.snoozed"]


def test_an_endpoint_with_few_places_that_answers_quickly_is_kept_busy(store: Store) -> None:
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add("http://quick.example.com/", in_flight_max=5)
    receiver = Quick()
    # When the machine stands still for a moment, those who wait are sent back, and with long turns: such a round tells
    # nothing. An endpoint that is kept idle shows it in every one.
    for _ in range(ROUNDS_MAX):
        waits_s = snoozed_s(store, deliveries, receiver)
        # Hands that have nothing better to do look at each event once. Turns 20 ms apart would let no more than 50 a
        # second through, and an event would wait three seconds on average.
        kept_busy = len(waits_s) < 2 * QUICK_EVENTS and sum(waits_s) / QUICK_EVENTS < 1.0
        if kept_busy:
            break
    jobs.close()
    assert receiver.most == 5
    assert kept_busy, (len(waits_s), sum(waits_s))


def test_events_to_an_endpoint_that_hangs_all_have_their_attempts_and_then_wait_as_dead_letters(
    deliveries: Deliveries, virtual_store: Store, time: VirtualTime
) -> None:
    deliveries.endpoints.add("http://dead.example.com/", timeout_s=10.0)
    asked: list[float] = []

    def hang(request: Outgoing) -> Reply:
        asked.append(time.passed_s)
        time.advance(request.timeout_s)
        raise TimeoutError

    worker = VirtualWorker(virtual_store, deliveries, time, hang)
    deliveries.publish_many([NewEvent("order.paid", number) for number in range(20)])
    worker.run(4_000)
    assert deliveries.undelivered.count() == 20
    assert len(asked) == 100


def test_the_breaker_opens_holds_events_without_spending_attempts_and_closes_after_good_probes(
    virtual_store: Store, time: VirtualTime, receiver: Loopback
) -> None:
    jobs = Jobs(virtual_store)
    rule = Breaker(failure_ratio=0.5, calls_min=4, window_s=120, open_s=60, probes=2)
    deliveries = Deliveries(virtual_store, jobs, breaker=rule)
    made = deliveries.endpoints.add(receiver.url, delays_s=[1] * 20)
    worker = VirtualWorker(virtual_store, deliveries, time)
    receiver.always["/"] = Say(502)
    deliveries.publish_many([NewEvent("order.paid", number) for number in range(10)])
    worker.run(30)
    (breaker,) = Queues(virtual_store).breakers()
    assert (breaker.name, breaker.state) == (f"webhook:{made.id}", "open")
    asked = len(receiver.got)
    assert 4 <= asked <= 15
    worker.run(20)
    assert len(receiver.got) == asked
    receiver.always.clear()
    worker.run(200)
    jobs.close()
    assert Queues(virtual_store).breakers()[0].state == "closed"
    assert len(receiver.got) == asked + 10
    assert deliveries.undelivered.count() == 0


def test_the_usual_breaker_opens_within_5_s_of_an_outage_and_closes_soon_after_it(
    virtual_store: Store, time: VirtualTime, receiver: Loopback
) -> None:
    jobs = Jobs(virtual_store)
    deliveries = Deliveries(virtual_store, jobs)
    deliveries.endpoints.add(receiver.url, delays_s=[1] * 20)
    worker = VirtualWorker(virtual_store, deliveries, time)
    receiver.always["/"] = Say(503)
    for _ in range(5):
        deliveries.publish_many([NewEvent("order.paid", number) for number in range(20)])
        worker.run(1)
    (breaker,) = Queues(virtual_store).breakers()
    assert breaker.state == "open"
    asked = len(receiver.got)
    worker.run(55)
    assert len(receiver.got) - asked <= 55 / 5 + 4  # a probe every 5 s, sooner at the beginning
    receiver.always.clear()
    worker.run(10)
    jobs.close()
    assert Queues(virtual_store).breakers()[0].state == "closed"


def test_a_breaker_that_is_open_reopens_after_a_bad_probe(
    virtual_store: Store, time: VirtualTime, receiver: Loopback
) -> None:
    jobs = Jobs(virtual_store)
    rule = Breaker(failure_ratio=0.5, calls_min=4, window_s=120, open_s=60, probes=1)
    deliveries = Deliveries(virtual_store, jobs, breaker=rule)
    deliveries.endpoints.add(receiver.url, delays_s=[1] * 20)
    worker = VirtualWorker(virtual_store, deliveries, time)
    receiver.always["/"] = Say(502)
    deliveries.publish_many([NewEvent("order.paid", number) for number in range(6)])
    worker.run(30)
    asked = len(receiver.got)
    worker.run(300)
    jobs.close()
    assert asked < len(receiver.got) <= asked + 6


def test_client_errors_never_open_the_breaker(virtual_store: Store, time: VirtualTime, receiver: Loopback) -> None:
    jobs = Jobs(virtual_store)
    deliveries = Deliveries(virtual_store, jobs, breaker=Breaker(calls_min=2, failure_ratio=0.1))
    deliveries.endpoints.add(receiver.url)
    receiver.always["/"] = Say(400)
    deliveries.publish_many([NewEvent("order.paid", number) for number in range(10)])
    VirtualWorker(virtual_store, deliveries, time).run(60)
    jobs.close()
    assert (len(receiver.got), Queues(virtual_store).breakers()) == (10, [])


def test_the_usual_breaker_leaves_a_handful_of_events_to_their_schedule() -> None:
    assert not ENDPOINT_BREAKER.trips(failures=19, calls=19)
    assert ENDPOINT_BREAKER.trips(failures=20, calls=20)
    assert ENDPOINT_BREAKER.window_s <= 10  # five events with five attempts each take longer


def test_what_exceeds_an_endpoint_s_rate_limit_waits_and_spends_no_attempt(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, rate_limit=RateLimit(count=2, per_s=1.0, burst=2))
    deliveries.publish_many([NewEvent("order.paid", number) for number in range(12)])
    worker.run(60)
    times_s = [(got.at_us - receiver.got[0].at_us) / 1e6 for got in receiver.got]
    assert len(times_s) == 12
    for start_s in times_s:
        assert sum(start_s <= at_s < start_s + 1 for at_s in times_s) <= 4
    assert 4.5 <= times_s[-1] <= 15
    assert {step["attempt"] for step in deliveries.history(_last_event(receiver)).deliveries[0].events} <= {0, 1}


def test_two_processes_share_one_rate_limit(
    deliveries: Deliveries, virtual_store: Store, time: VirtualTime, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, rate_limit=RateLimit(count=1, per_s=1.0))
    other = Deliveries(virtual_store, deliveries.jobs)
    workers = [VirtualWorker(virtual_store, one, time) for one in (deliveries, other)]
    for number in range(2):
        deliveries.publish("order.paid", number)
        workers[number].turn()
    assert len(receiver.got) == 1


def _last_event(receiver: Loopback) -> str:
    return receiver.got[-1].headers["webhook-id"]


def test_the_two_senders_of_these_tests_say_the_same(receiver: Loopback) -> None:
    request = Outgoing(url=receiver.url + "/x", headers=(("X-A", "b"),), body=b"{}", timeout_s=5)
    receiver.always["/x"] = Say(418, {"Retry-After": "7"}, b"tea")

    async def both() -> tuple[Reply, Reply]:
        send = AiohttpPost()
        found = await send(request), await asyncio.to_thread(post, request)
        await send.close()
        return found

    one, other = asyncio.run(both())
    assert (one.status, one.headers["Retry-After"], one.body) == (other.status, other.headers["Retry-After"], b"tea")
