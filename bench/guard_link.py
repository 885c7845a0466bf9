"""What the parts of a link cost: its three forms, each feature, and a refusal by an open breaker.

What a feature *adds* is a call through a link with it, less a call through the same link without it.
"""

from __future__ import annotations

from queue import SimpleQueue
from threading import Thread
from typing import Any

from bench.guard_peers import ATTEMPTS, Work, loop, loop_async, steady, steady_async
from bench.measure import VALUE, Effort, call_ns, one_processor
from bench.table import Asked, Row
from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.policy import Backoff, Breaker, RateLimit, Retry, within

BREAKER_ADDS_NS_MAX = 100
REJECTION_NS_MAX = 1_000
HAND_OVER = "a bare hand-over to a thread and back"
TIMEOUT_NS_MAX = 60_000
"""What `timeout_s` may add to a call that blocks: it goes to another thread and back."""
LOOP_NS = {"sync": 76, "async": 199}
"""A bare loop on the machine for which the two bounds were set: on others they are asked in loops as well."""
LONG_S = 3_600.0
"""Longer than any run: a limit that is set and never reached."""
BURST = 1_000_000_000
"""More calls than a run makes: the limit keeps its books and never refuses."""


def link(**options: Any) -> Link:
    """A link with the rule that every contender follows."""
    return Link("bench", retry=Retry(attempts=ATTEMPTS, backoff=Backoff.constant(0)), **options)


def link_rows(colour: str, effort: Effort) -> list[Row]:
    """The figures that have no counterpart elsewhere."""
    work = steady if colour == "sync" else steady_async
    forms = _forms(colour)
    features = {**{name: made(work) for name, made in _links().items()}, "deadline around it": _hurried(colour)}
    cases = {**forms, **features, "open": _opened(work), "loop": (loop if colour == "sync" else loop_async)(work)}
    figures = call_ns(cases, effort, awaited=colour == "async", refused={"open": Failure})
    plain_ns = figures["decorator"]
    rows = [
        Row(
            group=f"forms of a link, {colour}",
            name=name,
            figure=figures[name],
            unit="ns",
            ratios={"× decorator": figures[name] / plain_ns},
        )
        for name in forms
    ]
    for name in features:
        if (name, colour) == ("timeout_s", "sync"):
            continue  # has rows of its own
        group, adds_ns = f"what a feature adds, {colour}", figures[name] - plain_ns
        bound = BREAKER_ADDS_NS_MAX if name == "closed breaker" else None
        rows += _bounded(group, name, adds_ns, bound, figures["loop"], colour)
    group = f"rejection, raised and caught, {colour}"
    return rows + _bounded(group, "open breaker", figures["open"], REJECTION_NS_MAX, figures["loop"], colour)


def timeout_rows(effort: Effort) -> list[Row]:
    """A time limit on a call that blocks, beside a bare hand-over to a thread.

    Nearly all of it is the system's: to wake a sleeping processor of a virtual machine takes ten times as long as to
    wake a thread on the same one. So both are told: as the system places the threads, and with both on one processor.
    """
    cases = {"decorator": link()(steady), "timeout_s": _links()["timeout_s"](steady), HAND_OVER: _handed_over()}
    rows = _timeout_rows("where the system places the threads", call_ns(cases, effort))
    with one_processor() as pinned:
        return rows + _timeout_rows("both threads on one processor", call_ns(cases, effort)) if pinned else rows


def _timeout_rows(where: str, figures: dict[str, float]) -> list[Row]:
    group, adds_ns = f"a time limit on a call that blocks, {where}", figures["timeout_s"] - figures["decorator"]
    asked = Asked(bound=TIMEOUT_NS_MAX, reached=adds_ns, unit="ns")
    compared = {"× hand-over": adds_ns / figures[HAND_OVER]}
    return [
        Row(group=group, name="timeout_s adds", figure=adds_ns, unit="ns", ratios=compared, asked=asked),
        Row(group=group, name=HAND_OVER, figure=figures[HAND_OVER], unit="ns"),
    ]


def _bounded(group: str, name: str, figure: float, bound: float | None, loop_ns: float, colour: str) -> list[Row]:
    if bound is None:
        return [Row(group=group, name=name, figure=figure, unit="ns")]
    loops = Asked(bound=bound / LOOP_NS[colour], reached=figure / loop_ns, unit="× loop")
    return [
        Row(group=group, name=name, figure=figure, unit="ns", asked=Asked(bound=bound, reached=figure, unit="ns")),
        Row(group=group, name=f"{name}, in bare loops", figure=figure / loop_ns, unit="× loop", asked=loops),
    ]


def _links() -> dict[str, Link]:
    return {
        "closed breaker": link(breaker=Breaker()),
        "rate limit": link(rate=RateLimit(count=1_000_000, per_s=1.0, burst=BURST)),
        "timeout_s": link(timeout_s=LONG_S),
        "total_s": link(total_s=LONG_S),
    }


def _forms(colour: str) -> dict[str, Work]:
    plain = link()
    if colour == "sync":
        return {"decorator": plain(steady), "link.call": _called(plain), "iterator": _iterated(plain)}
    return {"decorator": plain(steady_async), "link.call": _called_async(plain), "iterator": _iterated_async(plain)}


def _called(plain: Link) -> Work:
    return lambda value: plain.call(steady, value)


def _called_async(plain: Link) -> Work:
    return lambda value: plain.call(steady_async, value)


def _iterated(plain: Link) -> Work:
    def guarded(value: int) -> int:
        result = 0
        for attempt in plain.attempts():
            with attempt:
                result = steady(value)
        return result

    return guarded


def _iterated_async(plain: Link) -> Work:
    async def guarded(value: int) -> int:
        result = 0
        async for attempt in plain.attempts():
            with attempt:
                result = await steady_async(value)
        return result

    return guarded


def _hurried(colour: str) -> Work:
    """A plain link called by somebody who has a deadline; setting it is part of the figure."""
    plain = link()
    guarded, guarded_async = plain(steady), plain(steady_async)

    def call(value: int) -> int:
        with within(LONG_S):
            return guarded(value)

    async def call_async(value: int) -> int:
        with within(LONG_S):
            return await guarded_async(value)

    return call if colour == "sync" else call_async


def _handed_over() -> Work:
    """What any time limit on a call that blocks has to pay: waking a thread, and being woken by it."""
    there: SimpleQueue[int] = SimpleQueue()
    back: SimpleQueue[int] = SimpleQueue()

    def echo() -> None:
        while True:
            back.put(there.get())

    Thread(target=echo, daemon=True).start()

    def call(value: int) -> int:
        there.put(value)
        return back.get()

    return call


def _opened(work: Work) -> Work:
    """A call that an open breaker refuses."""
    opened = link(breaker=Breaker(calls_min=1, open_s=LONG_S))
    _trip(opened)
    return opened(work)


def _trip(opened: Link) -> None:
    def broken(value: int) -> int:
        raise ConnectionError("refused")

    try:
        opened.call(broken, VALUE)
    except (ConnectionError, Failure):
        return
