"""What a breaker promises: when it opens, who may probe, and what no longer counts."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from holdfast.catalog import CORE, Blame, Catalog, Failure
from holdfast.catalog.core import CONFLICT, RATE_LIMIT_EXCEEDED, SERVICE_UNAVAILABLE
from holdfast.lifecycle import BREAKER, BreakerState
from holdfast.policy import Breaker, Circuit, PolicyInvalid, Rejected

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


def ticket_of(circuit: Circuit, now_s: float) -> int:
    ticket = circuit.admit(now_s)
    assert not isinstance(ticket, Rejected)
    return ticket


def call(circuit: Circuit, now_s: float, *, good: bool) -> None:
    ticket = ticket_of(circuit, now_s)
    if good:
        circuit.succeed(now_s, ticket)
    else:
        circuit.fail(now_s, ticket)


def opened(now_s: float = 0.0, **options: Any) -> Circuit:
    circuit = Circuit(Breaker(calls_min=1, open_s=30, **options))
    call(circuit, now_s, good=False)
    assert circuit.state is OPEN
    return circuit


# -- opening ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad", "state"),
    [
        (5, 5, OPEN),  # half of ten
        (6, 4, CLOSED),
        (0, 9, CLOSED),  # too few to tell
        (0, 10, OPEN),
        (100, 99, CLOSED),
        (100, 100, OPEN),
    ],
)
def test_it_opens_at_the_ratio_and_not_before_the_minimum(good: int, bad: int, state: BreakerState) -> None:
    circuit = Circuit(Breaker(failure_ratio=0.5, calls_min=10))
    for _ in range(good):
        call(circuit, 1.0, good=True)
    for _ in range(bad):
        call(circuit, 1.0, good=False)
    assert circuit.state is state


def test_it_opens_on_a_failure_and_never_on_a_success() -> None:
    circuit = Circuit(Breaker(failure_ratio=0.5, calls_min=10))
    for _ in range(9):
        call(circuit, 1.0, good=False)
    call(circuit, 1.0, good=True)
    assert circuit.state is CLOSED
    call(circuit, 1.0, good=False)
    assert circuit.state is OPEN


def test_the_window_forgets() -> None:
    circuit = Circuit(Breaker(calls_min=10, window_s=100))
    for _ in range(9):
        call(circuit, 0.0, good=False)
    call(circuit, 110.0, good=False)
    assert circuit.state is CLOSED
    assert circuit.counts(110.0) == {"failures": 1, "calls": 1}


@pytest.mark.parametrize("rate", [3, 20, 200])
def test_the_last_seconds_alone_open_it_however_well_it_went_before(rate: int) -> None:
    circuit = Circuit(Breaker())
    for number in range(120 * rate):
        call(circuit, number / rate, good=True)
    for number in range(5 * rate):
        call(circuit, 120 + number / rate, good=False)
        if circuit.state is OPEN:
            break
    assert circuit.state is OPEN


def test_the_pause_doubles_while_probes_fail_and_begins_anew_after_a_recovery() -> None:
    circuit = Circuit(Breaker(calls_min=1))
    now_s, pauses_s = 0.0, []
    call(circuit, now_s, good=False)
    for _ in range(6):
        refusal = circuit.admit(now_s)
        assert isinstance(refusal, Rejected)
        pauses_s.append(refusal.retry_after_s)
        now_s += refusal.retry_after_s
        call(circuit, now_s, good=False)
    assert pauses_s == [1, 1, 2, 4, 4, 4]
    now_s += 4
    call(circuit, now_s, good=True)
    call(circuit, now_s, good=False)
    assert circuit.admit(now_s) == Rejected(1)


def test_a_probe_that_takes_longer_than_the_pause_still_closes_it() -> None:
    circuit = Circuit(Breaker(calls_min=1))
    call(circuit, 0.0, good=False)
    probe = ticket_of(circuit, 1.0)
    assert isinstance(circuit.admit(25.0), Rejected)
    circuit.succeed(25.0, probe)
    assert circuit.state is CLOSED


def test_a_pause_that_is_set_longer_than_the_usual_maximum_does_not_grow() -> None:
    assert [Breaker(open_s=30).pause_s(open_for_s) for open_for_s in (0, 30, 600)] == [30, 30, 30]
    assert [Breaker(open_s=30, open_max_s=90).pause_s(open_for_s) for open_for_s in (0, 30, 60, 600)] == [
        30,
        30,
        60,
        90,
    ]


def test_a_long_silence_forgets_everything() -> None:
    circuit = Circuit(Breaker(calls_min=10, window_s=100))
    for second in range(9):
        call(circuit, float(second), good=False)
    assert circuit.counts(1_000_000.0) == {"failures": 0, "calls": 0}


@pytest.mark.parametrize("fault", [fault for fault in CORE if fault.status < 500], ids=lambda fault: fault.code)
def test_no_4xx_speaks_against_the_callee(fault: Any) -> None:
    assert not Breaker.blames(Failure(fault))


@pytest.mark.parametrize("blame", [Blame.CLIENT, Blame.CONFLICT, Blame.NO_OP])
def test_a_5xx_that_the_caller_has_to_answer_for_does_not_count(blame: Blame) -> None:
    fault = Catalog("a").fault("ODD", status=503, says="Odd.", blame=blame)
    assert not Breaker.blames(fault())


@pytest.mark.parametrize("code", ["SERVICE_UNAVAILABLE", "NETWORK_TIMEOUT", "CONNECTION_REFUSED", "UNKNOWN"])
def test_what_the_callee_has_to_answer_for_counts(code: str) -> None:
    assert Breaker.blames(Failure(CORE[code]))


def test_the_refusals_that_callers_meet_most_are_spared() -> None:
    assert not Breaker.blames(RATE_LIMIT_EXCEEDED())
    assert not Breaker.blames(CONFLICT())
    assert Breaker.blames(SERVICE_UNAVAILABLE())


# -- open and half open ----------------------------------------------------------------------------------------------


def test_a_rejection_tells_how_long_the_pause_still_lasts() -> None:
    circuit = opened(now_s=100.0)
    assert circuit.admit(100.0) == Rejected(30.0)
    assert circuit.admit(112.5) == Rejected(17.5)
    assert circuit.state is OPEN


def test_after_the_pause_one_probe_is_let_through_and_the_others_come_back_soon() -> None:
    circuit = opened()
    ticket_of(circuit, 30.0)
    assert circuit.state is HALF_OPEN
    assert circuit.admit(30.0) == Rejected(1.0)
    assert circuit.admit(59.9) == Rejected(1.0)


def test_while_the_probes_are_out_nobody_is_told_to_wait_longer_than_a_pause() -> None:
    circuit = Circuit(Breaker(calls_min=1, open_s=0.25))
    call(circuit, 0.0, good=False)
    ticket_of(circuit, 0.25)
    assert circuit.admit(0.25) == Rejected(0.25)


def test_a_probe_that_works_closes_it_with_a_clean_window() -> None:
    circuit = opened()
    call(circuit, 30.0, good=True)
    assert circuit.state is CLOSED
    assert circuit.counts(30.0) == {"failures": 0, "calls": 0}


def test_a_probe_that_fails_opens_it_for_another_pause() -> None:
    circuit = opened()
    call(circuit, 35.0, good=False)
    assert circuit.state is OPEN
    assert circuit.admit(35.0) == Rejected(30.0)


def test_as_many_probes_as_configured_must_work() -> None:
    circuit = opened(probes=3)
    for expected in (HALF_OPEN, HALF_OPEN, CLOSED):
        call(circuit, 30.0, good=True)
        assert circuit.state is expected


def test_one_failed_probe_of_several_is_enough_to_open_it() -> None:
    circuit = opened(probes=3)
    first, second = ticket_of(circuit, 30.0), ticket_of(circuit, 30.0)
    circuit.fail(31.0, first)
    assert circuit.state is OPEN
    circuit.succeed(31.0, second)
    assert circuit.state is OPEN


def test_a_cancelled_probe_makes_room_for_another() -> None:
    circuit = opened()
    circuit.release(ticket_of(circuit, 30.0))
    assert circuit.state is HALF_OPEN
    call(circuit, 30.0, good=True)
    assert circuit.state is CLOSED


def test_a_probe_that_began_late_has_its_whole_time_before_others_take_its_place() -> None:
    circuit = Circuit(Breaker(calls_min=1, open_s=30, probes=2))
    circuit.fail(0.0, circuit.admit(0.0))
    silent, late = ticket_of(circuit, 30.0), ticket_of(circuit, 59.0)
    assert isinstance(circuit.admit(60.0), Rejected), "the late one has been out for a second"
    circuit.succeed(61.0, late)
    assert circuit.state is BreakerState.HALF_OPEN
    circuit.succeed(90.0, ticket_of(circuit, 90.0))
    assert circuit.state is BreakerState.CLOSED
    circuit.fail(91.0, silent)
    assert circuit.counts(91.0) == {"failures": 0, "calls": 0}


def test_probes_that_never_report_do_not_lock_it_for_ever() -> None:
    circuit = opened(probes=2)
    lost = [ticket_of(circuit, 30.0), ticket_of(circuit, 30.0)]
    assert isinstance(circuit.admit(59.0), Rejected)
    again = [ticket_of(circuit, 60.0), ticket_of(circuit, 60.0)]
    assert isinstance(circuit.admit(60.0), Rejected)
    for ticket in lost:  # they come back after all, much too late
        circuit.fail(61.0, ticket)
        circuit.release(ticket)
    assert circuit.state is HALF_OPEN
    assert isinstance(circuit.admit(61.0), Rejected)
    for ticket in again:
        circuit.succeed(62.0, ticket)
    assert circuit.state is CLOSED


def test_calls_that_come_seldom_close_it_all_the_same() -> None:
    circuit = opened(probes=3)
    for now_s in (30.0, 80.0, 130.0):  # further apart than a pause
        call(circuit, now_s, good=True)
    assert circuit.state is CLOSED


# -- late results ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("report", ["succeed", "fail", "release"])
def test_results_of_calls_from_before_it_opened_change_nothing(report: str) -> None:
    circuit = Circuit(Breaker(calls_min=1, open_s=30))
    late = [ticket_of(circuit, 0.0) for _ in range(3)]
    call(circuit, 0.0, good=False)
    for state, now_s in ((OPEN, 1.0), (HALF_OPEN, 30.0), (CLOSED, 31.0)):
        if state is HALF_OPEN:
            probe = ticket_of(circuit, now_s)
        if state is CLOSED:
            circuit.succeed(now_s, probe)
        ticket = late.pop()
        if report == "release":
            circuit.release(ticket)
        else:
            getattr(circuit, report)(now_s, ticket)
        assert circuit.state is state
    assert circuit.counts(31.0) == {"failures": 0, "calls": 0}


def test_a_late_probe_of_an_earlier_round_changes_nothing() -> None:
    circuit = opened(probes=2)
    early, late = ticket_of(circuit, 30.0), ticket_of(circuit, 30.0)
    circuit.fail(31.0, early)
    ticket_of(circuit, 61.0)
    circuit.fail(62.0, late)
    assert circuit.state is HALF_OPEN
    circuit.succeed(62.0, late)
    assert circuit.state is HALF_OPEN
    ticket_of(circuit, 62.0)
    assert isinstance(circuit.admit(62.0), Rejected)


def test_a_clock_that_goes_back_does_not_keep_it_open_for_longer_than_a_pause() -> None:
    circuit = opened(now_s=1_000_000.0)
    assert circuit.admit(0.0) == Rejected(30.0)
    ticket_of(circuit, 30.0)


def test_a_clock_that_goes_back_starts_a_new_window() -> None:
    circuit = Circuit(Breaker(calls_min=10))
    for _ in range(9):
        call(circuit, 1_000_000.0, good=False)
    call(circuit, 0.0, good=False)
    assert circuit.counts(0.0) == {"failures": 1, "calls": 1}


# -- many at once ----------------------------------------------------------------------------------------------------

CALLERS = 50


@pytest.mark.parametrize("probes", [1, 3, 7])
def test_of_50_threads_exactly_the_configured_number_get_through(probes: int) -> None:
    circuit = opened(probes=probes)
    barrier = threading.Barrier(CALLERS)
    answers: list[object] = []

    def ask() -> None:
        barrier.wait()
        answers.append(circuit.admit(30.0))

    threads = [threading.Thread(target=ask) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == CALLERS
    assert sum(not isinstance(answer, Rejected) for answer in answers) == probes


@pytest.mark.parametrize("probes", [1, 3, 7])
async def test_of_50_tasks_exactly_the_configured_number_get_through(probes: int) -> None:
    circuit = opened(probes=probes)

    async def ask() -> bool:
        await asyncio.sleep(0)
        return not isinstance(circuit.admit(30.0), Rejected)

    assert sum(await asyncio.gather(*(ask() for _ in range(CALLERS)))) == probes


# -- values --------------------------------------------------------------------------------------------------------


def test_the_states_are_those_of_the_table() -> None:
    assert {state.value for state in BreakerState} == {name for move in BREAKER for name in (move.source, move.target)}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"failure_ratio": 0}, "failure_ratio"),
        ({"failure_ratio": 1.01}, "failure_ratio"),
        ({"failure_ratio": float("nan")}, "failure_ratio"),
        ({"calls_min": 0}, "calls_min"),
        ({"probes": 0}, "probes"),
        ({"window_s": 0}, "window_s"),
        ({"window_s": float("inf")}, "window_s"),
        ({"open_s": -1}, "open_s"),
        ({"open_s": float("nan")}, "open_s"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_by_name(options: dict[str, float], name: str) -> None:
    with pytest.raises(PolicyInvalid, match=f"^{name}: "):
        Breaker(**options)  # type: ignore[arg-type]
