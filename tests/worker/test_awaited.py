"""Which handlers are awaited: whatever makes a coroutine when it is called."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from holdfast.worker import Handlers, Job, Jobs, Worker

PATIENCE_S = 30.0
Work = Callable[..., Worker]


class Sender:
    """Called like a function, and awaited."""

    async def __call__(self, job: Job) -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    async def send(self, job: Job) -> str:
        return await self(job)

    def block(self, job: Job) -> str:
        return threading.current_thread().name


async def addressed(to: str, job: Job) -> str:
    return await Sender()(job)


@pytest.mark.parametrize(
    ("function", "asynchronous"),
    [
        (Sender(), True),
        (Sender().send, True),
        (partial(Sender()), True),
        (partial(partial(addressed), "somebody"), True),
        (Sender().block, False),
        (partial(Sender().block), False),
    ],
)
def test_whatever_makes_a_coroutine_when_it_is_called_is_awaited(function: Any, asynchronous: bool) -> None:
    handlers = Handlers()
    handlers.handle("k")(function)
    known = handlers.get("k")
    assert known is not None
    assert known.asynchronous is asynchronous


def test_an_object_with_an_asynchronous_call_does_the_job_on_the_loop(
    jobs: Jobs, handlers: Handlers, work: Work
) -> None:
    handlers.handle("object")(Sender())
    handlers.handle("partial")(partial(addressed, "somebody"))
    work()
    for kind in ("object", "partial"):
        assert jobs.wait(jobs.enqueue(kind).id, PATIENCE_S) == "holdfast-loop"
