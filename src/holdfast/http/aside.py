"""Blocking work beside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """Run the work in a thread, in a copy of this context; where no event loop runs, in this very thread."""
    import asyncio

    if not loop_runs():
        return work()
    return await asyncio.to_thread(work)


def loop_runs() -> bool:
    """Whether this code runs on an event loop; under the WSGI adapter it does not."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
