"""The breakers of queues and endpoints in an outage: open soon, probe with growing pauses, close soon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.base import now_us
from holdfast.delivery.admission import ENDPOINT_BREAKER
from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import Queues
from holdfast.worker.breakers import SharedBreaker, Tally

from .test_breakers import admitted, probing


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


@pytest.mark.parametrize("rule", [Breaker(), ENDPOINT_BREAKER], ids=["queue", "endpoint"])
@pytest.mark.parametrize("rate", [5, 50, 200])
def test_an_outage_opens_it_within_5_s_after_two_good_minutes(
    virtual_store: Store, time: VirtualTime, rule: Breaker, rate: int
) -> None:
    breaker = SharedBreaker("gateway", rule)
    for _ in range(120):
        virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=rate)))
        time.advance(1)
    for tenth in range(1, 51):
        failed = rate * tenth // 10 - rate * (tenth - 1) // 10
        virtual_store.atomic(
            lambda tx, failed=failed: breaker.report(tx, Tally(calls=failed, failures=failed, code="X"))
        )
        if not admitted(virtual_store, breaker):
            break
        time.advance(0.1)
    assert admitted(virtual_store, breaker) == 0


@pytest.mark.parametrize("rule", [Breaker(), ENDPOINT_BREAKER], ids=["queue", "endpoint"])
def test_pauses_double_while_probes_fail_and_a_good_one_closes_it_within_5_s(
    virtual_store: Store, time: VirtualTime, rule: Breaker
) -> None:
    breaker = SharedBreaker("gateway", rule)
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=20, failures=20, code="X")))
    pauses_s = []
    report = {"good": 0, "bad": 1, "silent": 0, "code": "X"}
    for _ in range(7):
        [status] = Queues(virtual_store).breakers()
        assert status.until_us is not None
        pauses_s.append((status.until_us - now_us()) / 1_000_000)
        time.advance(pauses_s[-1])
        count, generation = probing(virtual_store, breaker, 10)
        assert count == 1
        virtual_store.atomic(lambda tx, generation=generation: breaker.report_probes(tx, generation, **report))
    assert pauses_s == pytest.approx([1, 1, 2, 4, rule.open_max_s, rule.open_max_s, rule.open_max_s], abs=0.01)
    time.advance(rule.open_max_s)
    _, generation = probing(virtual_store, breaker, 10)
    good = {"good": 1, "bad": 0, "silent": 0, "code": ""}
    virtual_store.atomic(lambda tx: breaker.report_probes(tx, generation, **good))
    assert admitted(virtual_store, breaker) == 10


def test_a_probe_that_takes_longer_than_the_pause_still_closes_it(virtual_store: Store, time: VirtualTime) -> None:
    breaker = SharedBreaker("gateway", Breaker())
    virtual_store.atomic(lambda tx: breaker.report(tx, Tally(calls=20, failures=20, code="X")))
    time.advance(1)
    _, generation = probing(virtual_store, breaker, 10)
    time.advance(20)
    assert admitted(virtual_store, breaker) == 0
    good = {"good": 1, "bad": 0, "silent": 0, "code": ""}
    virtual_store.atomic(lambda tx: breaker.report_probes(tx, generation, **good))
    assert admitted(virtual_store, breaker) == 10
