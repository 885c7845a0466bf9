"""The iterator form: the body of a loop is what is guarded.

```python
for attempt in bank.attempts():
    with attempt:
        reply = ask(timeout=left_s())
```

In a coroutine the loop is `async for`; with `async with attempt` the attempt is also cut off at its time limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any

from holdfast.base.bus import bus
from holdfast.base.world import monotonic_s, world
from holdfast.guard import stamp
from holdfast.guard.key import under_key
from holdfast.guard.recovery import Recovery
from holdfast.policy.deadline import deadline_at, left_s, within

if TYPE_CHECKING:
    from holdfast.guard.link import Link


class Attempt:
    """One attempt: enter it, do the work, leave it."""

    __slots__ = ("_owner", "_scopes", "_timeout", "number")

    def __init__(self, owner: Attempts, number: int) -> None:
        self._owner = owner
        self.number = number
        self._scopes: list[Any] = []
        self._timeout: Any = None

    def __enter__(self) -> Attempt:
        self._owner.enter()
        self._scopes = self._owner.scopes()
        for scope in self._scopes:
            scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        while self._scopes:
            self._scopes.pop().__exit__(None, None, None)
        return self._owner.settle(error)

    async def __aenter__(self) -> Attempt:
        import asyncio  # sync programs should not pay for loading it

        self.__enter__()
        seconds = left_s()
        if seconds < inf:
            self._timeout = asyncio.timeout(seconds)
            await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        late = None
        try:
            if self._timeout is not None:
                await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            late = expired
        try:
            again = self.__exit__(kind, error if late is None else late, trace)
            if late is not None and not again:
                raise late
            return again
        finally:
            # The exception's traceback holds this frame: without this the two would keep each other alive.
            late = error = trace = None


class Attempts:
    """The attempts of one operation; at most one is open at a time."""

    __slots__ = (
        "_began_s",
        "_delay_s",
        "_done",
        "_end_s",
        "_failed",
        "_key",
        "_link",
        "_number",
        "_recovery",
        "_seed",
        "_ticket",
    )

    def __init__(self, link: Link, *, key: str | None) -> None:
        self._link = link
        self._key = key
        self._end_s = inf if link.total_s is None else monotonic_s() + link.total_s
        self._recovery: Recovery | None = None
        self._seed = (stamp.latest, monotonic_s() if link.clocked else None)
        self._failed: Exception | None = None
        self._began_s: float | None = None
        self._ticket: int | None = None
        self._number = 0
        self._delay_s = 0.0
        self._done = False

    def __iter__(self) -> Iterator[Attempt]:
        return self

    def __next__(self) -> Attempt:
        if self._done:
            raise StopIteration
        try:
            if self._delay_s > 0:
                world().sleep(self._delay_s)
        except BaseException:
            self._end()
            raise
        return self._next()

    def __aiter__(self) -> AsyncIterator[Attempt]:
        return self

    async def __anext__(self) -> Attempt:
        if self._done:
            raise StopAsyncIteration
        try:
            if self._delay_s > 0:
                await world().pause(self._delay_s)
        except BaseException:
            self._end()
            raise
        return self._next()

    def _next(self) -> Attempt:
        # A body that never entered its attempt would loop for ever.
        self._done = True
        self._number += 1
        return Attempt(self, self._number)

    def scopes(self) -> list[Any]:
        """The blocks that the attempt which starts now stands in: its time limit, and the key."""
        limit_s = min(self._link.timeout_s or inf, self._left_s())
        found: list[Any] = [] if limit_s == inf else [within(limit_s)]
        return found if self._key is None else [*found, under_key(self._key)]

    def enter(self) -> None:
        """Ask the gate for this attempt."""
        with within(self._left_s()):
            at_s = deadline_at()
        gate = self._link.gate
        try:
            if self._recovery is None and gate.circuit is not None:
                now_s = monotonic_s()
                if 0 < (left_s := gate.circuit.shut_until_s - now_s) <= gate.circuit.pause_s:
                    raise gate.shut(left_s, now_s, world())
            self._ticket = gate.admit(None if at_s == inf else at_s, self._recovery, self._failed)
        except BaseException:
            self._end()
            raise
        self._began_s = monotonic_s() if bus.listeners else None

    def settle(self, error: BaseException | None) -> bool:
        """Take note of how the attempt ended; True swallows the exception because another attempt follows."""
        if error is None:
            self._succeed()
            return False
        if not isinstance(error, Exception):
            self._link.gate.abandon(self._ticket)
            self._end()
            return False
        self._link.gate.leave()
        if self._recovery is None:
            mark, started_s = self._seed
            self._recovery = Recovery(self._link, self._key is not None, mark, started_s)
        with within(self._left_s()):
            delay_s = self._recovery.delay_s(error, self._ticket, self._began_s)
        if delay_s is None:
            self._end()
            return False
        self._failed, self._delay_s, self._done = error, delay_s, False
        return True

    def _left_s(self) -> float:
        return inf if self._end_s == inf else self._end_s - monotonic_s()

    def _succeed(self) -> None:
        circuit = self._link.gate.circuit
        if circuit is not None:
            circuit.succeed(monotonic_s(), self._ticket)
        self._link.settle_success(self._recovery, self._began_s)
        self._end()

    def _end(self) -> None:
        """Let go of what failed: its traceback holds the caller's frame, and that frame holds these attempts."""
        self._failed = self._recovery = None
