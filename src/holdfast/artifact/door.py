"""Content between coroutines and the threads in which artifacts are read and written."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.artifact.stream import Stream

if TYPE_CHECKING:
    import asyncio


@contextmanager
def fed(source: AsyncIterable[bytes]) -> Iterator[Iterator[bytes]]:
    """What arrives in this event loop, for a put that runs in a thread; one piece is asked for at a time.

    When the block ends before the content did (a client that went away, a deadline), the put in the thread fails and
    leaves nothing: half an upload is never taken for a whole one.

    ```python
    with fed(request.stream()) as body:
        await artifacts.run_async(lambda a: a.put(name, body))
    ```
    """
    feed = _Feed(source)
    try:
        yield feed
    finally:
        feed.end()


async def pieces_async(stream: Stream) -> AsyncIterator[bytes]:
    """The pieces of a stream, each read in a thread; the stream is closed at the end."""
    import asyncio

    try:
        while (piece := await asyncio.to_thread(next, stream, None)) is not None:
            yield piece
    finally:
        await asyncio.shield(asyncio.to_thread(stream.close))


class FeedEnded(RuntimeError):
    """The coroutine that fed this content has gone on; what came so far is not the whole."""


class _Feed:
    """Everything but `__next__` runs in the event loop, so nothing here needs a lock."""

    def __init__(self, source: AsyncIterable[bytes]) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._coming = aiter(source)
        self._ended = False
        self._waiting: asyncio.Task[bytes | None] | None = None

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> bytes:
        import asyncio

        piece = asyncio.run_coroutine_threadsafe(self._following(), self._loop).result()
        if piece is None:
            raise StopIteration
        return piece

    async def _following(self) -> bytes | None:
        import asyncio

        piece = None
        if not self._ended:
            self._waiting = asyncio.current_task()
            try:
                piece = await anext(self._coming, None)
            except asyncio.CancelledError:
                if not self._ended:
                    raise  # the whole loop is being shut down
        if self._ended:
            raise FeedEnded
        return piece

    def end(self) -> None:
        self._ended = True
        if self._waiting is not None:
            self._waiting.cancel()
