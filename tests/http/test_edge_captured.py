"""What becomes of a key when the application ends in an unusual way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.guard import Keys
from holdfast.http.edge import Edge
from holdfast.http.idempotent import Idempotency
from holdfast.store import Store
from holdfast.testing.processes import wait_until


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """The keys themselves are tested on both engines; most of the edge's own behaviour needs only one."""
    opened = Store.open(f"sqlite:///{tmp_path / 'edge.db'}")
    opened.migrate()
    yield opened
    opened.close()


async def test_a_500_that_hides_its_exception_is_run_again(file_store: Store) -> None:
    runs: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        runs.append(1)
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 500, "headers": headers})
        await send({"type": "http.response.body", "body": b"Internal Server Error"})

    async def send(message: Any) -> None:
        pass

    edge = Edge(app, idempotency=Idempotency(keys=Keys(file_store), anonymous=True))
    for _ in range(2):
        scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"idempotency-key", b"k")]}
        await edge(scope, send, send)  # type: ignore[arg-type]
    assert len(runs) == 2


async def test_a_background_task_that_fails_leaves_the_answer_in_order(file_store: Store) -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"made"})
        raise RuntimeError("afterwards")

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"idempotency-key", b"k")]
    edge = Edge(app, idempotency=Idempotency(keys=Keys(file_store), anonymous=True))
    for expected in (RuntimeError, None):
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        if expected is None:
            await edge(scope, send, send)  # type: ignore[arg-type]
        else:
            with pytest.raises(expected):
                await edge(scope, send, send)  # type: ignore[arg-type]
    assert [message.get("body") for message in sent[1::2]] == [b"made", b"made"]
    assert (b"idempotent-replayed", b"true") in sent[2]["headers"]


async def test_interrupted_work_gives_its_key_back(file_store: Store) -> None:
    entered = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    keys = Keys(file_store)
    edge = Edge(app, idempotency=Idempotency(keys=keys, anonymous=True))
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"idempotency-key", b"k")]}
    task = asyncio.create_task(edge(scope, app, app))  # type: ignore[arg-type]
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    def given_back() -> bool:
        known = keys.show(operation="POST /", key="k")
        return known is not None and known["token"] == 0

    await asyncio.to_thread(lambda: wait_until(given_back, within_s=60, what="the key is free"))
