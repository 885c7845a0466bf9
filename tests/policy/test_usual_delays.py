"""What is worked out ahead is what `decide` would have answered."""

from __future__ import annotations

import pickle
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog import Failure
from holdfast.catalog.core import CONNECTION_REFUSED
from holdfast.lifecycle import GiveUp, RetryAfter
from holdfast.policy import (
    Backoff,
    Between,
    Decorrelated,
    Equal,
    Extra,
    Full,
    Retry,
    Spread,
    decide,
)
from holdfast.policy.decide import usual_delays

seconds = st.floats(0, 1_000)
shares = st.floats(0, 1)
jitters = st.one_of(st.none(), st.builds(Spread, shares), st.builds(Extra, shares), st.just(Full()), st.just(Equal()))
backoffs = st.one_of(
    st.builds(Backoff, base_s=seconds, factor=st.floats(1, 10), cap_s=seconds, jitter=jitters),
    st.builds(
        lambda delays_s, jitter: Backoff.listed(*delays_s, jitter=jitter),
        st.lists(st.one_of(seconds, st.integers(0, 1_000)), min_size=1, max_size=5),
        jitters,
    ),
    st.tuples(seconds, seconds).map(lambda pair: Backoff.uniform(low_s=min(pair), high_s=max(pair))),
)
retries = st.one_of(st.none(), st.builds(Retry, attempts=st.integers(1, 12), backoff=backoffs))


@given(retries, st.floats(0, 1, exclude_max=True))
def test_after_every_attempt_they_are_what_decide_answers_and_then_it_gives_up(
    retry: Retry | None, thrown: float
) -> None:
    delays = usual_delays(retry)
    assert delays is not None
    failure = Failure(CONNECTION_REFUSED)

    def decision(attempt: int) -> Any:
        return decide(retry, failure, attempt, 0.0, inf, lambda: thrown)

    answers = [delay if isinstance(delay, float) else delay.drawn_s(lambda: thrown) for delay in delays]
    assert [RetryAfter(answer) for answer in answers] == [decision(number + 1) for number in range(len(answers))]
    assert isinstance(decision(len(answers) + 1), GiveUp)


@pytest.mark.parametrize(
    "retry",
    [
        Retry(within_s=1),
        Retry(when=lambda failure: True),
        Retry(attempts_per_code={"IO_ERROR": 2}),
        Retry(backoff=Backoff(jitter=Decorrelated())),
    ],
    ids=["time", "condition", "codes", "decorrelated"],
)
def test_nothing_is_worked_out_where_something_else_has_a_say(retry: Retry) -> None:
    assert usual_delays(retry) is None


JITTERS = [Spread(0.2), Extra(0.1), Full(), Equal(), Decorrelated(), Between(0.1, 0.5)]


@pytest.mark.parametrize("jitter", JITTERS, ids=repr)
def test_a_jitter_is_a_value(jitter: Any) -> None:
    again = pickle.loads(pickle.dumps(jitter))
    assert again == jitter
    assert hash(again) == hash(jitter)
    assert [one == jitter for one in JITTERS].count(True) == 1
    with pytest.raises(AttributeError):
        jitter.share = 1.0


def test_a_jitter_shows_its_numbers() -> None:
    assert [repr(jitter) for jitter in (Spread(0.2), Full(), Between(0.1, 0.5))] == [
        "Spread(share=0.2)",
        "Full()",
        "Between(low_s=0.1, high_s=0.5)",
    ]
