"""The deadline: the time left, handed down to whatever is called, so that no callee outlives its caller.

Always true: a nested deadline is never later than the one around it. It belongs to the context, so tasks inherit
it, and threads do that run in a copied context. Over HTTP it travels as `X-Deadline-Ms`, the milliseconds left,
because two machines share no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from math import inf
from typing import NamedTuple

from holdfast.base.arguments import numeric
from holdfast.base.world import limits, monotonic_s
from holdfast.policy.backoff import PolicyInvalid

DEADLINE_HEADER = "X-Deadline-Ms"

_DIGITS_MAX = 15  # more digits than this are more milliseconds than any limit, and no longer exact as a float

_current: ContextVar[float | None] = ContextVar("holdfast_deadline", default=None)

deadline_at: Callable[[], float | None] = _current.get
"""The deadline of this context as a monotonic instant in seconds, or None; as cheap as reading it can be."""


class Deadline(NamedTuple):
    """An instant on the monotonic clock by which something has to be finished."""

    at_s: float

    @property
    def left_s(self) -> float:
        """The time left; never negative."""
        return max(0.0, self.at_s - monotonic_s())

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.at_s <= monotonic_s()


class Within:
    """Result of `within`: a context manager whose block has this much time and no more."""

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._token: Token[float | None] | None = None

    def __enter__(self) -> Deadline:
        if self._token is not None:
            raise RuntimeError("this block is entered already; call within() for each block")
        own_s = monotonic_s() + self._seconds
        outer_s = _current.get()
        at_s = own_s if outer_s is None or own_s < outer_s else outer_s
        self._token = _current.set(at_s)
        return Deadline(at_s)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
            self._token = None


def within(seconds: float | None) -> Within:
    """Give the block at most this many seconds; fewer when fewer are left already. None sets no bound of its own.

    Nothing is interrupted: code that waits asks `left_s()` first. Zero or less is a deadline that has passed.

    Raises:
        PolicyInvalid: the number is not a number.
    """
    if seconds is None:
        return Within(inf)
    numeric("seconds", seconds, raises=PolicyInvalid)
    if seconds != seconds:
        raise PolicyInvalid("seconds: a deadline cannot be NaN")
    return Within(max(0.0, seconds))


@contextmanager
def without_deadline() -> Iterator[None]:
    """Let the block have no deadline: for a server whose requests must not inherit one from each other."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def current_deadline() -> Deadline | None:
    """The deadline in force here."""
    at_s = _current.get()
    return None if at_s is None or at_s == inf else Deadline(at_s)


def left_s() -> float:
    """The time left here: never negative, infinite when there is no deadline."""
    at_s = _current.get()
    return inf if at_s is None else max(0.0, at_s - monotonic_s())


def to_header() -> str | None:
    """The `X-Deadline-Ms` to send on: the whole milliseconds left, rounded down; None when there is no deadline."""
    rest_s = left_s()
    if rest_s == inf:
        return None
    whole_ms = int(rest_s * 1_000)
    # The product may have been rounded up to the next whole millisecond; the callee must never get more time.
    return str(whole_ms - 1 if whole_ms / 1_000 > rest_s else whole_ms)


def from_header(text: str | None) -> float | None:
    """The seconds that a received `X-Deadline-Ms` leaves, for `within`.

    Zero and negative numbers are a deadline that has passed (0.0). More than `deadline_s_max` counts as that
    limit. What is not a whole number is ignored (None): a broken header must not fail a request that is in order.
    """
    written = (text or "").strip(" \t")
    digits = written.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return None
    if digits != written:
        return 0.0
    most_s = limits().deadline_s_max
    digits = digits.lstrip("0")
    return most_s if len(digits) > _DIGITS_MAX else min(int(digits or "0") / 1_000, most_s)
