"""Work under an idempotency key: whatever comes of it settles the key."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.base import Private
from holdfast.catalog import Dialect, Failure, render
from holdfast.catalog.classify import Classifier
from holdfast.catalog.core import INTERNAL_ERROR, TRANSACTION_ROLLED_BACK
from holdfast.catalog.fault import NEVER_REPLAYED
from holdfast.lifecycle.idempotency import Answer, Started, is_replayed

if TYPE_CHECKING:
    from holdfast.guard.idempotency import Keys

NOT_COMMITTED = "the key was finished in a transaction that was not committed"
REPLAYED_HEADER = ("Idempotent-Replayed", "true")

Work = Callable[[Started], Answer]
"""Does what the request asks for; it may store its answer itself, inside a transaction of its own."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a request, and whether it was given before."""

    answer: Answer
    replayed: bool
    failure: Failure | None = None
    """What the work failed with, where the answer is that failure and this is the first time."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers to send: those of the answer, and the mark of a replay."""
        return (*self.answer.headers, REPLAYED_HEADER) if self.replayed else self.answer.headers


def do(keys: Keys, started: Started, work: Work, *, classifier: Classifier, dialect: Dialect) -> Answered:
    """Work while the lease is renewed, then store the answer or give the key back.

    Raises:
        Failure: IDEMPOTENCY_LOST, TRANSACTION_ROLLED_BACK when the work returned an answer that it had rolled back, or
            what the work raised and is to be tried again.
        Exception: what the work raised, where it is not a `Failure`.
        TypeError: the work returned no `Answer`; it is done all the same, and repeats get INTERNAL_ERROR.
    """
    try:
        with keys.held(started):
            answer = work(started)
    except Exception as error:  # noqa: BLE001 - settled here, whatever it is
        return _failed(keys, started, error, classifier.classify(error), dialect)
    except BaseException:
        _give_back(keys, started)  # interrupted: the next caller need not wait for the end of the lease
        raise
    if not keys.is_answered(started):
        if started.rolled_back and answer == started.answer:
            raise _rolled_back(keys, started)
        _settle(keys, started, answer, dialect)
    return Answered(answer, replayed=False)


def _failed(keys: Keys, started: Started, error: Exception, failure: Failure, dialect: Dialect) -> Answered:
    if keys.is_answered(started):
        raise error  # effect and answer are committed: this came after them, and repeats get the answer
    if not is_replayed(failure):
        _give_back(keys, started, code=failure.code)
        raise error
    answer = _written(keys, started, failure, dialect)
    if error is not failure:
        raise error  # an exception that nobody declared is for the log; only repeats see it as an answer
    return Answered(answer, replayed=False, failure=failure)


def _settle(keys: Keys, started: Started, answer: Answer, dialect: Dialect) -> None:
    if getattr(answer, "status", None) in NEVER_REPLAYED:  # the work may return anything
        _give_back(keys, started)
    else:
        _keep(keys, started, answer, dialect)


def _rolled_back(keys: Keys, started: Started) -> Failure:
    """The work answers for an effect that was rolled back: the key is free for the next one, who does it anew."""
    failure = replace(TRANSACTION_ROLLED_BACK, technical=NOT_COMMITTED)()
    _give_back(keys, started, code=failure.code)
    return failure


def _keep(keys: Keys, started: Started, answer: Answer, dialect: Dialect) -> None:
    try:
        keys.finish(started, answer)
    except (TypeError, ValueError) as unfit:
        # The work is done and must not be done again, so its failure to answer is the answer.
        failure = INTERNAL_ERROR(reason=Private(str(unfit)))
        _written(keys, started, failure, dialect)
        if not isinstance(answer, Answer):
            raise TypeError(
                f"the work returned {type(answer).__name__}; return an Answer, such as Answer.of_json(...)"
            ) from None
        raise failure from unfit


def _written(keys: Keys, started: Started, failure: Failure, dialect: Dialect) -> Answer:
    rendered = render(failure, dialect)
    answer = Answer(rendered.status, rendered.headers, rendered.body)
    keys.finish(started, answer, code=failure.code)
    return answer


def _give_back(keys: Keys, started: Started, *, code: str | None = None) -> None:
    with suppress(Failure):  # what went wrong before is what the caller has to know; the lease ends by itself
        if not keys.is_answered(started):
            keys.release(started, code=code)
