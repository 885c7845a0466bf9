"""From coroutines: the work runs in a thread, and half an upload is never taken for a whole one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.artifact import Artifacts, FeedEnded, fed, pieces_async
from holdfast.artifact.naming import STAGING
from holdfast.testing.processes import wait_until


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def artifacts(root: Path) -> Artifacts:
    return Artifacts.open(str(root))


async def body(pieces: int) -> AsyncIterator[bytes]:
    for number in range(pieces):
        await asyncio.sleep(0)
        yield b"%d," % number


async def test_the_work_runs_beside_the_event_loop(artifacts: Artifacts) -> None:
    stored = await artifacts.run_async(lambda a: a.put("name", b"content"))
    assert stored.created
    assert await artifacts.run_async(lambda a: a.get("name")) == b"content"
    assert await artifacts.run_async(lambda _: threading.current_thread()) is not threading.main_thread()


async def test_what_a_coroutine_receives_is_stored_as_it_comes(artifacts: Artifacts) -> None:
    with fed(body(50)) as content:
        stored = await artifacts.run_async(lambda a: a.put("name", content))
    assert stored.created
    assert artifacts.get("name") == b"".join(b"%d," % number for number in range(50))


async def test_what_is_stored_can_be_sent_piece_by_piece(artifacts: Artifacts) -> None:
    artifacts.put("name", bytes(1_000_000))
    stream = await artifacts.run_async(lambda a: a.open_stream("name"))
    sizes = [len(piece) async for piece in pieces_async(stream)]
    assert (sum(sizes), len(sizes) > 1) == (1_000_000, True)


async def test_a_sender_that_fails_is_heard_and_leaves_nothing(artifacts: Artifacts) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionResetError("the client went away")

    with pytest.raises(ConnectionResetError), fed(broken()) as content:
        await artifacts.run_async(lambda a: a.put("name", content))
    assert not artifacts.exists("name")


async def test_a_put_whose_coroutine_was_cancelled_leaves_nothing(artifacts: Artifacts, root: Path) -> None:
    begun = asyncio.Event()

    async def stalled() -> AsyncIterator[bytes]:
        yield b"half"
        begun.set()
        await asyncio.Event().wait()

    async def upload() -> None:
        with fed(stalled()) as content:
            await artifacts.run_async(lambda a: a.put("name", content))

    uploading = asyncio.create_task(upload())
    await begun.wait()
    uploading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await uploading

    def is_cleared() -> bool:
        return list((root / STAGING).iterdir()) == []

    await asyncio.to_thread(wait_until, is_cleared, within_s=60, what="the thread has cleared up")
    assert not artifacts.exists("name")


async def test_content_that_is_asked_for_too_late_is_not_half_content(artifacts: Artifacts) -> None:
    with fed(body(3)) as content:
        pass
    with pytest.raises(FeedEnded):
        await artifacts.run_async(lambda a: a.put("name", content))
    assert not artifacts.exists("name")


async def test_a_reader_that_stops_early_lets_go(artifacts: Artifacts) -> None:
    artifacts.put("name", bytes(1_000_000))
    stream = artifacts.open_stream("name")
    pieces = pieces_async(stream)
    await anext(pieces)
    await pieces.aclose()  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="closed"):
        next(stream)
