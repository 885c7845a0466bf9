"""An outage in virtual time: the defaults of the first example open soon, call little, and close soon.

Callers come at a steady rate, whatever becomes of the others. The upstream is healthy or not, then away for a minute,
then healthy again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from holdfast import Breaker, Failure, Link, Retry
from holdfast.base import replaced, world

BEFORE_S, OUTAGE_S, AFTER_S = 120.0, 60.0, 20.0
LATENCY_S = 0.02
RATES = [5, 20, 80, 200]
BEFORE: dict[str, Callable[[float], bool]] = {
    "healthy": lambda dice: False,
    "a third failing": lambda dice: dice < 0.3,
}


class JumpingLoop(asyncio.SelectorEventLoop):
    """Time jumps to the next timer when nobody has anything to do."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now_s = max(self.now_s, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


@dataclass
class Seen:
    """What the upstream and the callers saw."""

    asked_s: list[float] = field(default_factory=list)
    called_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    retried_s: list[float] = field(default_factory=list)

    def between(self, times_s: list[float], start_s: float, end_s: float) -> int:
        return sum(start_s <= at_s < end_s for at_s in times_s)


def simulated(rate: int, *, before: Callable[[float], bool] | None, **options: Any) -> Seen:
    """Callers at this rate through one link; the outage begins at 0 s."""
    begins_s = 0.0 if before is None else BEFORE_S
    dice = random.Random(7)
    seen = Seen()
    link = Link("shop → bank", retry=Retry(attempts=3), **{"breaker": Breaker(), **options})

    async def ask() -> None:
        loop = asyncio.get_running_loop()
        seen.asked_s.append(loop.time() - begins_s)
        await asyncio.sleep(LATENCY_S)
        now_s = loop.time() - begins_s
        if 0 <= now_s < OUTAGE_S or (now_s < 0 and before is not None and before(dice.random())):
            raise ConnectionRefusedError

    async def call() -> None:
        now_s = asyncio.get_running_loop().time() - begins_s
        seen.called_s.append(now_s)
        try:
            await link.call(ask)
        except ConnectionRefusedError:
            pass
        except Failure:  # the breaker's, because the upstream raises none
            seen.refused_s.append(now_s)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with replaced(replace(world(), monotonic_s=loop.time, dice=dice.random)):
            calls = set()
            for number in range(int((begins_s + OUTAGE_S + AFTER_S) * rate)):
                await asyncio.sleep(max(0.0, number / rate - loop.time()))
                calls.add(asyncio.create_task(call()))
                calls = {one for one in calls if not one.done()} if number % 500 == 0 else calls
            await asyncio.gather(*calls)

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(main())
    return seen


@pytest.fixture(scope="module", params=[(rate, name) for rate in RATES for name in (None, *BEFORE)], ids=str)
def outage(request: pytest.FixtureRequest) -> Seen:
    rate, name = request.param
    return simulated(rate, before=None if name is None else BEFORE[name])


def opened_s(seen: Seen) -> float:
    return min(at_s for at_s in seen.refused_s if at_s >= 0)


def test_it_opens_within_5_s_whatever_came_before(outage: Seen) -> None:
    assert opened_s(outage) <= 5.0


def test_without_a_budget_it_opens_as_soon() -> None:
    assert opened_s(simulated(200, before=BEFORE["healthy"], budget=None)) <= 5.0


def test_it_closes_within_5_s_of_the_recovery(outage: Seen) -> None:
    late_s = [at_s for at_s in outage.refused_s if at_s >= OUTAGE_S]
    assert max(late_s, default=OUTAGE_S) - OUTAGE_S <= 5.0
    assert outage.between(outage.called_s, OUTAGE_S + 5, OUTAGE_S + AFTER_S) <= outage.between(
        outage.asked_s, OUTAGE_S + 5, OUTAGE_S + AFTER_S + 1
    )


def test_in_the_outage_the_upstream_is_asked_at_most_1_2_times_for_each_call(outage: Seen) -> None:
    calls = outage.between(outage.called_s, 0, OUTAGE_S)
    assert outage.between(outage.asked_s, 0, OUTAGE_S) <= 1.2 * calls


def test_until_it_opens_retries_are_no_more_than_what_was_saved_up_and_a_share(outage: Seen) -> None:
    until_s = opened_s(outage)
    calls, asked = (outage.between(times_s, 0, until_s) for times_s in (outage.called_s, outage.asked_s))
    assert asked <= 1.1 * calls + until_s + 20 + 1


@pytest.mark.parametrize("rate", [20, 200])
def test_the_budget_alone_keeps_a_long_outage_under_1_2(rate: int) -> None:
    seen = simulated(rate, before=BEFORE["healthy"], breaker=None)
    calls = seen.between(seen.called_s, 0, OUTAGE_S)
    assert seen.between(seen.asked_s, 0, OUTAGE_S) <= 1.2 * calls


def test_a_third_failing_is_no_outage() -> None:
    """Ten calls may happen to fail by half; that costs moments, not the service."""
    seen = simulated(200, before=BEFORE["a third failing"])
    assert seen.between(seen.refused_s, -BEFORE_S, 0) <= 0.05 * seen.between(seen.called_s, -BEFORE_S, 0)


def test_probes_are_few() -> None:
    """A minute of outage costs a probe every 4 s at most."""
    seen = simulated(200, before=BEFORE["healthy"])
    assert seen.between(seen.asked_s, opened_s(seen) + 1, OUTAGE_S) <= 60 / 4 + 4
