"""An event loop whose clock moves only when a test says so: what is slow is then the machine, and no time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

TURNS = 50


class SteppedLoop(asyncio.SelectorEventLoop):
    """Sockets and threads are real; timers wait for `advance`."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 1_000.0

    def time(self) -> float:
        return self._now_s

    async def advance(self, seconds: float) -> None:
        """Let so much time pass at one blow, and everybody have a turn."""
        self._now_s += seconds
        await self.settle()

    async def settle(self) -> None:
        """Let everybody go on who can: who has a result, and who has something to read."""
        for _ in range(TURNS):
            await asyncio.sleep(0)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine in such a loop."""
    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        return runner.run(main)


def here() -> SteppedLoop:
    """The loop that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppedLoop)
    return loop
