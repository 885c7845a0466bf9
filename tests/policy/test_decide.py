"""The one decision after a failed attempt: every reason to stop, and which rule has the word."""

from __future__ import annotations

from collections import Counter
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog import CORE, Blame, Failure, Fault, RetryRule
from holdfast.lifecycle import Decision, GiveUp, RetryAfter, Stop
from holdfast.policy import NEVER, Backoff, Decorrelated, Retry, Spread, decide

STEADY = Backoff.constant(1.0)
THREE = Retry(attempts=3, backoff=STEADY)


def failing(retry: RetryRule | bool = True, *, code: str = "A", asked_s: float | None = None, **facts: Any) -> Failure:
    fault = Fault(code=code, status=503, says="a", blame=Blame.UPSTREAM, retry=retry)
    return Failure(fault, details=facts, retry_after_s=asked_s)


def after(
    attempt: int,
    failure: Failure,
    rule: Retry | None = THREE,
    *,
    elapsed_s: float = 0.0,
    left_s: float = inf,
    dice: float = 0.5,
    **circumstances: Any,
) -> Decision:
    return decide(rule, failure, attempt, elapsed_s, left_s, lambda: dice, **circumstances)


# -- the table of reasons -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        pytest.param(after(1, failing(False)), Stop.NOT_RETRYABLE, id="the fault is never retried"),
        pytest.param(after(1, failing(NEVER)), Stop.NOT_RETRYABLE, id="its own rule has one attempt"),
        pytest.param(after(1, failing(NEVER), None), Stop.NOT_RETRYABLE, id="and is the only rule"),
        pytest.param(after(9, failing(False)), Stop.NOT_RETRYABLE, id="never, however many attempts"),
        pytest.param(after(1, failing(False), writes=True), Stop.NOT_RETRYABLE, id="never, also for a write"),
        pytest.param(after(1, failing(), writes=True), Stop.WRITE_WITHOUT_KEY, id="a write without a key"),
        pytest.param(after(3, failing()), Stop.ATTEMPTS_USED, id="the last attempt"),
        pytest.param(after(4, failing()), Stop.ATTEMPTS_USED, id="after the last attempt"),
        pytest.param(after(1, failing(), NEVER), Stop.ATTEMPTS_USED, id="the operation has one attempt"),
        pytest.param(after(3, failing(), None), Stop.ATTEMPTS_USED, id="the default has three"),
        pytest.param(after(2, failing(Retry(attempts=2)), None), Stop.ATTEMPTS_USED, id="the fault's rule alone"),
        pytest.param(after(2, failing(Retry(attempts=2))), Stop.CODE_ATTEMPTS_USED, id="the fault's rule is shorter"),
        pytest.param(
            after(1, failing(), Retry(attempts_per_code={"A": 1})), Stop.CODE_ATTEMPTS_USED, id="the code has one"
        ),
        pytest.param(after(1, failing(), left_s=1.0), Stop.DEADLINE_TOO_NEAR, id="the wait takes all that is left"),
        pytest.param(after(1, failing(), left_s=-5.0), Stop.DEADLINE_TOO_NEAR, id="nothing is left"),
        pytest.param(
            after(1, failing(), Retry(within_s=5, backoff=STEADY), elapsed_s=4.5), Stop.TIME_USED, id="too long already"
        ),
        pytest.param(
            after(1, failing(Retry(within_s=5, backoff=STEADY)), elapsed_s=4.5), Stop.TIME_USED, id="for this fault"
        ),
        pytest.param(
            after(1, failing(), Retry(when=lambda failure: False)), Stop.CONDITION_UNMET, id="the operation's condition"
        ),
        pytest.param(after(1, failing(Retry(when=lambda failure: False))), Stop.CONDITION_UNMET, id="the fault's"),
        pytest.param(after(2, failing(code="UNKNOWN")), Stop.UNKNOWN_FAILURE, id="unknown, twice"),
        pytest.param(
            after(1, failing(code="UNKNOWN"), writes=True, keyed=True), Stop.UNKNOWN_FAILURE, id="unknown, in a write"
        ),
    ],
)
def test_every_reason_to_stop(decision: Decision, reason: Stop) -> None:
    assert decision == GiveUp(reason)


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param(after(1, failing()), id="a retryable fault"),
        pytest.param(after(2, failing()), id="again"),
        pytest.param(after(1, failing(), None), id="the default rule"),
        pytest.param(after(1, failing(Retry(attempts=2)), None), id="the fault's rule alone"),
        pytest.param(after(1, failing(), writes=True, keyed=True), id="a write with a key"),
        pytest.param(after(1, failing(), left_s=1.001), id="just enough time left"),
        pytest.param(after(1, failing(), Retry(within_s=5, backoff=STEADY), elapsed_s=4.0), id="starts just in time"),
        pytest.param(after(1, failing(code="UNKNOWN")), id="unknown, once, in a read"),
        pytest.param(after(1, failing(), Retry(when=lambda failure: True)), id="the condition holds"),
    ],
)
def test_otherwise_there_is_another_attempt(decision: Decision) -> None:
    assert isinstance(decision, RetryAfter)


# -- attempts in all and per code ---------------------------------------------------------------------------------


def codes_until_given_up(rule: Retry | None, codes: list[Failure]) -> tuple[int, Stop]:
    """Run through the failures as an operation would; how many attempts there were, and why no more."""
    seen: Counter[str] = Counter()
    for attempt, failure in enumerate(codes, 1):
        seen[failure.code] += 1
        match after(attempt, failure, rule, code_attempt=seen[failure.code]):
            case GiveUp(reason):
                return attempt, reason
    raise AssertionError("never given up")


IO_ERROR = failing(code="IO_ERROR")
GW_5XX = failing(code="GW_5XX")
CONVERSION = Retry(attempts=3, backoff=STEADY, attempts_per_code={"IO_ERROR": 2})


@pytest.mark.parametrize(
    ("failures", "attempts", "reason"),
    [
        ([IO_ERROR, IO_ERROR], 2, Stop.CODE_ATTEMPTS_USED),
        ([GW_5XX, IO_ERROR, GW_5XX], 3, Stop.ATTEMPTS_USED),
        ([GW_5XX, GW_5XX, GW_5XX], 3, Stop.ATTEMPTS_USED),
        ([IO_ERROR, GW_5XX, IO_ERROR], 3, Stop.ATTEMPTS_USED),
    ],
)
def test_002_an_io_error_is_retried_once_although_the_job_has_three_attempts(
    failures: list[Failure], attempts: int, reason: Stop
) -> None:
    assert codes_until_given_up(CONVERSION, failures) == (attempts, reason)


def test_the_faults_own_rule_bounds_only_the_attempts_that_fail_with_its_code() -> None:
    once = failing(Retry(attempts=2, backoff=STEADY), code="IO_ERROR")
    assert codes_until_given_up(Retry(attempts=5, backoff=STEADY), [GW_5XX, once, GW_5XX, once]) == (
        4,
        Stop.CODE_ATTEMPTS_USED,
    )


def test_a_fault_with_more_attempts_does_not_stretch_the_operation() -> None:
    assert after(3, failing(Retry(attempts=10)), THREE, code_attempt=3) == GiveUp(Stop.ATTEMPTS_USED)


def test_attempts_that_nobody_counts_by_code_count_as_all_of_one_code() -> None:
    assert after(2, IO_ERROR, CONVERSION) == GiveUp(Stop.CODE_ATTEMPTS_USED)
    assert after(2, IO_ERROR, CONVERSION, code_attempt=1) == RetryAfter(1.0)


def test_unknown_failures_are_capped_for_reads() -> None:
    unknown = failing(code="UNKNOWN")
    patient = Retry(attempts=10, backoff=STEADY, attempts_unknown=4)
    assert codes_until_given_up(patient, [unknown] * 10) == (4, Stop.UNKNOWN_FAILURE)
    assert codes_until_given_up(Retry(attempts=10, backoff=STEADY), [unknown] * 10) == (2, Stop.UNKNOWN_FAILURE)
    assert codes_until_given_up(Retry(attempts=10, backoff=STEADY), [GW_5XX, unknown, GW_5XX, unknown]) == (
        4,
        Stop.UNKNOWN_FAILURE,
    )


def test_the_cores_unknown_fault_is_what_is_meant_by_unknown() -> None:
    unknown = CORE["UNKNOWN"]()
    assert isinstance(after(1, unknown), RetryAfter)
    assert after(1, unknown, writes=True) == GiveUp(Stop.WRITE_WITHOUT_KEY)
    assert after(1, unknown, writes=True, keyed=True) == GiveUp(Stop.UNKNOWN_FAILURE)


# -- which backoff ------------------------------------------------------------------------------------------------


OPERATION = Retry(attempts=9, backoff=Backoff.listed(1, 2, 3, 4))
OWN = Retry(attempts=9, backoff=Backoff.listed(10, 20, 30))


@pytest.mark.parametrize(
    ("rule", "own", "attempt", "code_attempt", "delay_s"),
    [
        (OPERATION, True, 3, 1, 3),
        (OPERATION, OWN, 3, 1, 10),
        (OPERATION, OWN, 3, 2, 20),
        (None, OWN, 2, None, 20),
        (None, OWN, 3, 1, 10),
        (OPERATION, True, 2, None, 2),
    ],
)
def test_the_faults_own_backoff_counts_its_own_attempts_and_the_operations_all(
    rule: Retry | None, own: Retry | bool, attempt: int, code_attempt: int | None, delay_s: float
) -> None:
    assert after(attempt, failing(own), rule, code_attempt=code_attempt) == RetryAfter(delay_s)


def test_the_policy_files_rule_is_the_faults_rule() -> None:
    failure = failing(True)
    failure.fault.overlay["A"] = OWN
    assert after(1, failure, OPERATION) == RetryAfter(10)
    failure.fault.overlay["A"] = False
    assert after(1, failure, OPERATION) == GiveUp(Stop.NOT_RETRYABLE)


def test_chance_and_the_delay_before_are_handed_to_the_backoff() -> None:
    rule = Retry(attempts=9, backoff=Backoff(base_s=1, cap_s=100, jitter=Decorrelated()))
    assert after(1, failing(), rule, dice=1.0) == RetryAfter(3)
    assert after(2, failing(), rule, dice=1.0, previous_s=3) == RetryAfter(9)
    assert after(2, failing(), rule, dice=0.0, previous_s=3) == RetryAfter(1)


# -- Retry-After --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "asked_s", "delay_s"),
    [
        pytest.param(THREE, 30.0, 30.0, id="honoured"),
        pytest.param(THREE, 0.25, 1.0, id="no shorter than the schedule"),
        pytest.param(THREE, 0.0, 1.0, id="at once is no invitation"),
        pytest.param(THREE, -5.0, 1.0, id="nor is a moment that has passed"),
        pytest.param(
            Retry(backoff=Backoff.constant(4, jitter=Spread(0.5))), 30.0, 32.0, id="spread as the schedule is"
        ),
        pytest.param(THREE, 10_000.0, 3_600.0, id="capped"),
        pytest.param(THREE, inf, 3_600.0, id="for ever is capped"),
        pytest.param(THREE, nan, 1.0, id="no number is no wish"),
        pytest.param(THREE, None, 1.0, id="no wish"),
        pytest.param(Retry(backoff=STEADY, retry_after_max_s=5), 30.0, 5.0, id="capped by the rule"),
        pytest.param(Retry(backoff=STEADY, honour_retry_after=False), 30.0, 1.0, id="ignored"),
    ],
)
def test_what_the_callee_asks_for_is_waited_and_never_less_than_the_schedule_says(
    rule: Retry, asked_s: float | None, delay_s: float
) -> None:
    assert after(1, failing(asked_s=asked_s), rule) == RetryAfter(delay_s)


@pytest.mark.parametrize(
    ("own", "delay_s"),
    [
        (Retry(honour_retry_after=False, backoff=Backoff.constant(9)), 9),
        (Retry(backoff=STEADY, retry_after_max_s=7), 7),
    ],
)
def test_the_faults_own_rule_says_what_becomes_of_the_wish(own: Retry, delay_s: float) -> None:
    assert after(1, failing(own, asked_s=30.0), THREE) == RetryAfter(delay_s)


def test_a_wish_does_not_buy_more_attempts_or_more_time() -> None:
    assert after(3, failing(asked_s=0.1)) == GiveUp(Stop.ATTEMPTS_USED)
    assert after(1, failing(False, asked_s=0.1)) == GiveUp(Stop.NOT_RETRYABLE)
    assert after(1, failing(asked_s=30.0), left_s=20.0) == GiveUp(Stop.DEADLINE_TOO_NEAR)
    assert after(1, failing(asked_s=30.0), Retry(within_s=20)) == GiveUp(Stop.TIME_USED)


# -- time ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation_s", "own_s", "elapsed_s", "again"),
    [
        (10, None, 9, True),
        (10, None, 9.5, False),
        (None, 10, 9, True),
        (None, 10, 9.5, False),
        (10, 5, 4, True),
        (10, 5, 5, False),
        (5, 10, 5, False),
    ],
)
def test_of_two_times_the_shorter_counts(
    operation_s: float | None, own_s: float | None, elapsed_s: float, again: bool
) -> None:
    failure = failing(Retry(attempts=9, backoff=STEADY, within_s=own_s))
    decision = after(1, failure, Retry(attempts=9, backoff=STEADY, within_s=operation_s), elapsed_s=elapsed_s)
    assert decision == (RetryAfter(1.0) if again else GiveUp(Stop.TIME_USED))


def test_a_wait_longer_than_what_is_left_fails_at_once_and_is_not_shortened() -> None:
    assert after(1, failing(), left_s=0.999) == GiveUp(Stop.DEADLINE_TOO_NEAR)


# -- conditions ---------------------------------------------------------------------------------------------------


def same_payload(failure: Failure) -> bool:
    return bool(failure.details.get("same_payload"))


@pytest.mark.parametrize(
    ("facts", "decision"),
    [
        ({"same_payload": True}, RetryAfter(1.0)),
        ({"same_payload": False}, GiveUp(Stop.CONDITION_UNMET)),
        ({}, GiveUp(Stop.CONDITION_UNMET)),
    ],
)
def test_004_an_idempotency_conflict_is_retried_only_when_the_payload_is_the_same(
    facts: dict[str, Any], decision: Decision
) -> None:
    conflict = failing(Retry(when=same_payload, backoff=STEADY), code="IDEMPOTENCY_CONFLICT", **facts)
    assert after(1, conflict) == decision
    assert after(1, conflict, None) == decision


@pytest.mark.parametrize("operation", [True, False])
@pytest.mark.parametrize("own", [True, False])
def test_both_conditions_must_hold(operation: bool, own: bool) -> None:
    failure = failing(Retry(backoff=STEADY, when=lambda failure: own))
    decision = after(1, failure, Retry(backoff=STEADY, when=lambda failure: operation))
    assert decision == (RetryAfter(1.0) if operation and own else GiveUp(Stop.CONDITION_UNMET))


class Foreign:
    """A rule of somebody else's making: it can refuse, and has no backoff."""

    def allows(self, failure: Failure) -> bool:
        return bool(failure.details["good"])


def test_a_foreign_rule_is_asked_and_the_operations_backoff_used() -> None:
    assert after(1, failing(Foreign(), good=True)) == RetryAfter(1.0)
    assert after(1, failing(Foreign(), good=False)) == GiveUp(Stop.CONDITION_UNMET)


# -- always true --------------------------------------------------------------------------------------------------


SECONDS = st.floats(min_value=0, max_value=1e5)
RULES = st.builds(
    Retry,
    attempts=st.integers(1, 20),
    backoff=st.builds(Backoff, base_s=SECONDS, factor=st.floats(1, 5), cap_s=SECONDS),
    attempts_per_code=st.dictionaries(st.sampled_from(["A", "B", "UNKNOWN"]), st.integers(1, 5)),
    attempts_unknown=st.integers(1, 5),
    honour_retry_after=st.booleans(),
    retry_after_max_s=SECONDS,
    within_s=st.none() | st.floats(min_value=0.1, max_value=1e5),
    when=st.sampled_from([None, lambda failure: True, lambda failure: False]),
)
FAILURES = st.builds(
    lambda retry, code, asked_s: failing(retry, code=code, asked_s=asked_s),
    RULES | st.booleans(),
    st.sampled_from(["A", "B", "UNKNOWN"]),
    st.none() | st.floats(),
)


@given(
    rule=st.none() | RULES,
    failures=st.lists(FAILURES, min_size=20, max_size=20),
    left_s=st.floats(min_value=-10, max_value=1e6) | st.just(inf),
    dice=st.floats(min_value=0, max_value=1, exclude_max=True),
    writes=st.booleans(),
    keyed=st.booleans(),
)
def test_the_loop_of_decisions_ends_within_its_attempts_and_never_waits_past_the_deadline(
    rule: Retry | None, failures: list[Failure], left_s: float, dice: float, writes: bool, keyed: bool
) -> None:
    seen: Counter[str] = Counter()
    elapsed_s = previous_s = 0.0
    for attempt, failure in enumerate(failures, 1):
        seen[failure.code] += 1
        decision = decide(
            rule,
            failure,
            attempt,
            elapsed_s,
            left_s - elapsed_s,
            lambda: dice,
            code_attempt=seen[failure.code],
            previous_s=previous_s,
            writes=writes,
            keyed=keyed,
        )
        if isinstance(decision, GiveUp):
            return
        assert 0 <= decision.delay_s < left_s - elapsed_s
        assert keyed or not writes
        assert failure.retryable
        previous_s = decision.delay_s
        elapsed_s += decision.delay_s
        if rule is not None:
            assert attempt < rule.attempts
            assert elapsed_s <= (rule.within_s or inf)
            assert seen[failure.code] < rule.attempts_per_code.get(failure.code, inf)
    raise AssertionError("twenty attempts are more than any of these rules allow")
