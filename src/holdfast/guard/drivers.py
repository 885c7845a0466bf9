"""The two loops that make attempts: one for functions that block, one for coroutines.

They are the hot path: a call that succeeds at once allocates nothing here. Every decision is made in `Recovery`;
the loops only call, wait and tell the gate. Keep the two alike, line by line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from holdfast.base.bus import bus
from holdfast.base.world import monotonic_s, world
from holdfast.guard import stamp
from holdfast.guard.recovery import Recovery
from holdfast.guard.timed import await_within, call_within
from holdfast.policy.deadline import deadline_at

if TYPE_CHECKING:
    from holdfast.guard.link import Link


def guard_sync(link: Link, function: Callable[..., Any], *, keyed: bool) -> Callable[..., Any]:  # noqa: C901
    """The function that blocks, guarded by the link."""
    gate, circuit, purse, listeners = link.gate, link.gate.circuit, link.gate.purse, link.listeners
    narrow, clocked = gate.narrow, link.clocked
    limit_s = link.attempt_limit_s

    def guarded(*args: Any, **kwargs: Any) -> Any:  # noqa: C901 - split up, every call would pay for it
        # Outside the block below, which everything that is raised inside has to be taken through.
        if circuit is None:
            ticket = None
        elif (ticket := circuit.ticket) is None:
            clock_s = (here := world()).monotonic_s
            left_s = circuit.shut_until_s - (now_s := clock_s())
            if 0.0 < left_s <= circuit.pause_s:
                raise gate.shut(left_s, now_s, here)
        mark = stamp.latest
        started_s = monotonic_s() if clocked else None
        recovery = failed = None
        try:
            while True:
                at_s = deadline_at()
                if narrow or at_s is not None or (ticket is None and circuit is not None):
                    ticket = gate.admit(at_s, recovery, failed)
                elif purse is not None and recovery is None:
                    purse.calls += 1
                began_s = monotonic_s() if bus.listeners else None
                try:
                    if limit_s is None:
                        result = function(*args, **kwargs)
                    else:
                        result = call_within(limit_s, function, *args, **kwargs)
                except Exception as error:  # noqa: BLE001 - here an attempt is settled, whatever it raised
                    failed = error
                except BaseException:
                    gate.abandon(ticket)
                    raise
                else:
                    if circuit is not None:
                        if ticket is circuit.ticket:  # the very one that is free now: it has been closed all the time
                            circuit.spare = spare = circuit.spare - 1
                            if spare <= 0:
                                circuit.look(monotonic_s())
                        else:
                            circuit.succeed(monotonic_s(), ticket)
                    if narrow or listeners or began_s is not None:
                        link.settle_success(recovery, began_s)
                    if result.__class__ is CoroutineType:
                        refuse_coroutine(function, result)
                    return result
                if narrow:
                    gate.leave()
                if recovery is None:
                    recovery = Recovery(link, keyed, mark, started_s)
                delay_s = recovery.delay_s(failed, ticket, began_s)
                if delay_s is None:
                    raise failed
                if delay_s > 0:
                    world().sleep(delay_s)
                if circuit is not None:
                    ticket = circuit.ticket
        finally:
            # The exception's traceback holds this frame: without this the two would keep each other alive.
            recovery = failed = None

    return guarded


def guard_async(link: Link, function: Callable[..., Awaitable[Any]], *, keyed: bool) -> Callable[..., Any]:  # noqa: C901
    """The coroutine function, guarded by the link."""
    gate, circuit, purse, listeners = link.gate, link.gate.circuit, link.gate.purse, link.listeners
    narrow, clocked = gate.narrow, link.clocked
    limit_s = link.attempt_limit_s

    async def guarded(*args: Any, **kwargs: Any) -> Any:  # noqa: C901 - split up, every call would pay for it
        # Outside the block below, which everything that is raised inside has to be taken through.
        if circuit is None:
            ticket = None
        elif (ticket := circuit.ticket) is None:
            clock_s = (here := world()).monotonic_s
            left_s = circuit.shut_until_s - (now_s := clock_s())
            if 0.0 < left_s <= circuit.pause_s:
                raise gate.shut(left_s, now_s, here)
        mark = stamp.latest
        started_s = monotonic_s() if clocked else None
        recovery = failed = None
        try:
            while True:
                at_s = deadline_at()
                if narrow or at_s is not None or (ticket is None and circuit is not None):
                    ticket = gate.admit(at_s, recovery, failed)
                elif purse is not None and recovery is None:
                    purse.calls += 1
                began_s = monotonic_s() if bus.listeners else None
                try:
                    if limit_s is None and at_s is None:
                        result = await function(*args, **kwargs)
                    else:
                        result = await await_within(inf if limit_s is None else limit_s, function, *args, **kwargs)
                except Exception as error:  # noqa: BLE001 - here an attempt is settled, whatever it raised
                    failed = error
                except BaseException:
                    gate.abandon(ticket)
                    raise
                else:
                    if circuit is not None:
                        if ticket is circuit.ticket:  # the very one that is free now: it has been closed all the time
                            circuit.spare = spare = circuit.spare - 1
                            if spare <= 0:
                                circuit.look(monotonic_s())
                        else:
                            circuit.succeed(monotonic_s(), ticket)
                    if narrow or listeners or began_s is not None:
                        link.settle_success(recovery, began_s)
                    return result
                if narrow:
                    gate.leave()
                if recovery is None:
                    recovery = Recovery(link, keyed, mark, started_s)
                delay_s = recovery.delay_s(failed, ticket, began_s)
                if delay_s is None:
                    raise failed
                if delay_s > 0:
                    await world().pause(delay_s)
                if circuit is not None:
                    ticket = circuit.ticket
        finally:
            # The exception's traceback holds this frame: without this the two would keep each other alive.
            recovery = failed = None

    return guarded


def refuse_coroutine(function: Callable[..., Any], result: CoroutineType[Any, Any, Any]) -> None:
    """A plain function that hands out a coroutine would escape its guard.

    Raises:
        TypeError: always.
    """
    result.close()
    name = getattr(function, "__qualname__", repr(function))
    raise TypeError(
        f"{name} returned a coroutine, so nothing of it was guarded; "
        f"guard an `async def` function instead of a lambda or a function that returns its coroutine"
    )
