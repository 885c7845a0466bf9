"""What goes on the event loop and what in threads of our own, so that what waits in them keeps nobody from theirs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")


class Threads:
    """Up to `most` threads, made when they are needed."""

    def __init__(self, most: int, *, name: str = "holdfast-webhooks") -> None:
        self._most = most
        self._name = name
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run the work in a thread, in a copy of this context."""
        from concurrent.futures import ThreadPoolExecutor
        from contextvars import copy_context

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)
        return self._pool.submit(partial(copy_context().run, work, *arguments))

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """The same, for a coroutine that waits for the result."""
        import asyncio

        return await asyncio.wrap_future(self.submit(work, *arguments))


def on_this_loop(work: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """The coroutine function as one that blocks, for threads: it runs on the event loop that calls this."""
    import asyncio

    loop = asyncio.get_running_loop()

    def blocking(*arguments: Any) -> T:
        return asyncio.run_coroutine_threadsafe(work(*arguments), loop).result()

    return blocking
