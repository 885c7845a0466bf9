"""429: an endpoint that takes so many in a time gets all its events, each once, and none is given up for that alone."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise

import pytest

from holdfast.base import bus, now_us
from holdfast.delivery import Deliveries, NewEvent, Pace
from holdfast.delivery.pace import BURST_S, DOUBLING_S, FORGET_S
from holdfast.store import Engine, Store
from holdfast.testing import VirtualTime
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs, Worker

from .loopback import Got, Loopback, Say, VirtualWorker, post

LIMIT, WINDOW_S = 20, 2.0


class Window:
    """A limit of so many in each fixed window of time, at a receiver."""

    def __init__(self, receiver: Loopback, *, window_s: float = WINDOW_S) -> None:
        self.taken: list[Got] = []
        self.refused: list[Got] = []
        self._window_s = window_s
        self._counts: Counter[int] = Counter()
        self._lock = threading.Lock()
        receiver.judge = self._judge

    def _judge(self, got: Got) -> Say | None:
        window = int(got.at_us / 1e6 // self._window_s)
        with self._lock:
            self._counts[window] += 1
            if self._counts[window] <= LIMIT:
                self.taken.append(got)
                return None
            self.refused.append(got)
        left_s = (window + 1) * self._window_s - got.at_us / 1e6
        return Say(429, {"Retry-After": str(max(1, round(left_s + 0.5)))})


def test_an_endpoint_that_takes_20_in_2_s_gets_all_events_once_and_is_asked_at_its_pace(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime, virtual_store: Store
) -> None:
    count = 600 if virtual_store.engine is Engine.SQLITE else 200  # a commit of PostgreSQL takes ten times as long
    deliveries.endpoints.add(receiver.url, delays_s=[])  # one attempt: whatever a 429 spends is missed
    window = Window(receiver)
    deliveries.publish_many([NewEvent("e", number) for number in range(count)])
    worker.run(1_000)
    assert deliveries.undelivered.count() == 0
    assert sorted(got.data for got in window.taken) == list(range(count))
    # One that only waits meets a 429 in every window, for each of the ten events that it has under way.
    assert len(window.refused) < count / LIMIT
    assert time.passed_s < 1.5 * count / LIMIT * WINDOW_S


def test_an_endpoint_that_takes_everything_again_soon_gets_what_was_sent_away_at_a_slow_pace(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, time: VirtualTime, virtual_store: Store
) -> None:
    """They kept the turns of the pace at which they were sent away, the last of them after two and a half minutes."""
    count = 600 if virtual_store.engine is Engine.SQLITE else 200
    deliveries.endpoints.add(receiver.url, delays_s=[])
    began_us, taken = now_us(), list[Got]()

    def judge(got: Got) -> Say | None:
        if got.at_us - began_us < 5_000_000 and len(taken) >= 5 * (1 + (got.at_us - began_us) // 2_000_000):
            return Say(429, {"Retry-After": "1"})
        taken.append(got)
        return None

    receiver.judge = judge
    deliveries.publish_many([NewEvent("e", number) for number in range(count)])
    worker.run(2_000)
    assert deliveries.undelivered.count() == 0
    assert sorted(got.data for got in taken) == list(range(count))
    assert time.passed_s < 5 + FORGET_S


def test_a_worker_that_sends_many_at_once_brings_all_of_them_through_a_limit_once(
    store: Store, receiver: Loopback
) -> None:
    count = 60
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add(receiver.url, delays_s=[])
    window = Window(receiver, window_s=0.5)
    deliveries.publish_many([NewEvent("e", number) for number in range(count)])
    worker = Worker(store, deliveries.handlers(post), queues=[deliveries.queue(20)], lease_s=600.0)
    worker.start()
    wait_until(lambda: not jobs.list(state="queued") and not jobs.list(state="processing"), within_s=90, what="all")
    worker.stop()
    worker.join()
    jobs.close()
    assert deliveries.undelivered.count() == 0
    assert sorted(got.data for got in window.taken) == list(range(count))


def test_a_429_spends_no_attempt_and_the_history_tells_of_it(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url, delays_s=[1])
    receiver.answers["/"].extend([Say(429, {"Retry-After": "3"})] * 6 + [Say(500)] + [Say(429)] * 2)
    event = deliveries.publish("e", 1)
    worker.run()
    (delivery,) = deliveries.history(event.id).deliveries
    assert (delivery.state, delivery.attempts, len(receiver.got)) == ("complete", 2, 10)
    told = [(one["verb"], one["attempt"], one["upstream_status"]) for one in delivery.events if one["due_us"]]
    assert told == [("retried", 1, 429)] * 6 + [("retried", 1, 500)] + [("retried", 2, 429)] * 2


def test_an_event_that_meets_nothing_but_429_is_given_up_when_its_time_is_over(
    virtual_store: Store, time: VirtualTime, receiver: Loopback
) -> None:
    from holdfast.base import world

    receiver.clock = world().wall_us
    jobs = Jobs(virtual_store)
    deliveries = Deliveries(virtual_store, jobs, rate_limited_max_s=100.0)
    deliveries.endpoints.add(receiver.url)
    receiver.always["/"] = Say(429, {"Retry-After": "7"}, b"slow down")
    deliveries.publish("e", 1)
    VirtualWorker(virtual_store, deliveries, time).run(1_000)
    (dead,) = deliveries.undelivered.list().events
    assert (dead.error_code, dead.status_code) == ("RATE_LIMIT_EXCEEDED", 429)
    first, *_, last = (got.at_us / 1e6 for got in receiver.got)
    assert 80 <= last - first <= 100
    assert 5 < len(receiver.got) <= 15, "it asks as often as it may, which is more often than five attempts"
    jobs.close()


@pytest.mark.parametrize("named", [{"Retry-After": "0"}, {"Retry-After": "Mon, 01 Jan 2024 00:00:00 GMT"}])
@pytest.mark.parametrize("delays_s", [[], [1, 2, 4]])
def test_a_retry_after_of_nothing_is_no_invitation_to_hurry(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback, named: dict[str, str], delays_s: list[float]
) -> None:
    deliveries.endpoints.add(receiver.url, delays_s=delays_s)
    receiver.answers["/"].extend([Say(429, named)] * 4)
    deliveries.publish("e", 1)
    worker.run()
    times = [got.at_us / 1e6 for got in receiver.got]
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert len(waits) == 4
    assert all(wait_s >= least_s for wait_s, least_s in zip(waits, delays_s or [1, 1, 1, 1], strict=False))


def test_a_429_is_told_as_an_attempt_that_is_tried_again(
    deliveries: Deliveries, worker: VirtualWorker, receiver: Loopback
) -> None:
    deliveries.endpoints.add(receiver.url)
    receiver.answers["/"].append(Say(429, {"Retry-After": "1"}))
    deliveries.publish("e", 1)
    with bus.heard() as told:
        worker.run()
    heard = [(facts["outcome"], facts["status"]) for verb, facts in told if verb == "delivery.attempted"]
    assert heard == [("retried", 429), ("delivered", 200)]


def test_nothing_is_held_back_before_the_first_429_and_then_it_leaves_at_the_rate_that_was_taken() -> None:
    pace = Pace()
    for number in range(20):
        assert pace.wait_s(number * 0.01) == 0
        pace.take(number * 0.01)
        pace.accepted(number * 0.01)
    assert pace.limited(0.2, 1.8, sent_s=0.2)
    assert pace.wait_s(1.0) == pytest.approx(1.0)
    assert pace.wait_s(2.0) == 0
    assert pace.rate == pytest.approx(10)
    sent, now_s = 0, 2.0
    while now_s < 4.0:
        if pace.wait_s(now_s) == 0:
            pace.take(now_s)
            sent += 1
        now_s += 0.01
    assert 20 <= sent <= 20 + 10 * BURST_S + 1


def test_many_429_of_requests_that_left_together_are_one() -> None:
    pace = Pace()
    for _ in range(30):
        pace.take(0.0)
    for _ in range(20):
        pace.accepted(0.1)
    assert [pace.limited(0.1, 2.0, sent_s=0.0) for _ in range(10)] == [True] + [False] * 9
    assert pace.wait_s(2.1) == 0
    rate = pace.rate
    assert not pace.limited(2.2, 1.0, sent_s=0.0), "it left before the pause"
    pace.wait_s(4.0)
    assert pace.rate == rate


def test_while_all_is_taken_the_rate_grows_and_is_forgotten_in_the_end() -> None:
    pace = Pace()
    pace.take(0.0)
    pace.accepted(0.0)
    pace.limited(0.0, 1.0, sent_s=0.0)
    pace.wait_s(1.0)
    first = pace.rate
    assert first is not None
    for second in range(1, 32):
        pace.take(second)
        pace.accepted(second)
    assert pace.rate == pytest.approx(first * 2 ** (31 / DOUBLING_S), rel=0.1)
    for second in range(32, 70):
        pace.take(second)
        pace.accepted(second)
    assert pace.rate is None
    assert pace.wait_s(70) == 0


def test_a_429_now_and_then_that_asks_for_no_pause_does_not_stop_the_rest() -> None:
    pace, sent, now_s = Pace(), 0, 0.0
    while now_s < 60.0:
        if pace.wait_s(now_s) == 0:
            pace.take(now_s)
            sent += 1
            if sent % 20 == 0:
                pace.limited(now_s, 0.0, sent_s=now_s)
            else:
                pace.accepted(now_s)
        now_s += 0.01
    assert sent > 60 * 20


def test_of_an_endpoint_that_took_nothing_nothing_is_known_but_its_pause() -> None:
    pace = Pace()
    pace.take(0.0)
    pace.limited(0.0, 30.0, sent_s=0.0)
    assert (pace.wait_s(29.0), pace.wait_s(30.0), pace.rate) == (1.0, 0.0, None)


def test_a_burst_is_not_measured_over_the_quiet_before_it() -> None:
    pace = Pace()
    pace.take(0.0)
    pace.accepted(0.0)
    for number in range(20):
        pace.take(1_000 + number * 0.01)
        pace.accepted(1_000 + number * 0.01)
    pace.limited(1_000.2, 1.8, sent_s=1_000.2)
    pace.wait_s(1_002)
    assert pace.rate == pytest.approx(10)


def test_slots_are_reserved_one_behind_the_other() -> None:
    pace = Pace()
    for _ in range(20):
        pace.take(0.0)
        pace.accepted(0.0)
    pace.limited(0.0, 2.0, sent_s=0.0)
    pace.wait_s(2.0)
    waits = [pace.reserve_s(2.0) for _ in range(30)]
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(29 * 0.1 - BURST_S)
