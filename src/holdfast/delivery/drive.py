"""Driving a conversation: the phases run on the store, the requests go to a `Send`, blocking or not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from holdfast.delivery.deliver import Phase, Result, Talk
from holdfast.delivery.exchange import Outgoing, Reply, Send
from holdfast.delivery.place import Place
from holdfast.lifecycle import Snooze
from holdfast.store import Store

Ending = Snooze | Result | None
SendAsync = Callable[[Outgoing], Awaitable[Reply]]


def in_time(send: Send) -> SendAsync:
    """The sender with its time limit kept, so that one that forgets it holds no place for ever."""
    import asyncio

    sender = cast("SendAsync", send)
    if getattr(send, "keeps_time", False):
        return sender

    async def sent(request: Outgoing) -> Reply:
        async with asyncio.timeout(request.timeout_s):
            return await sender(request)

    return sent


def drive(store: Store, send: Send, talk: Talk) -> Ending:
    """Hold the conversation in this thread."""
    try:
        step = next(talk)
        while True:
            try:
                came = _run(store, step) if isinstance(step, Phase | Place) else send(step)
            except Exception as error:  # noqa: BLE001 - the conversation decides what it means
                step = talk.throw(error)
            else:
                step = talk.send(came)
    except StopIteration as ended:
        return cast("Ending", ended.value)
    finally:
        talk.close()


async def drive_async(store: Store, send: SendAsync, talk: Talk) -> Ending:
    """Hold the conversation on this loop; the phases run in threads."""
    try:
        step = next(talk)
        while True:
            try:
                came = await (_run_async(store, step) if isinstance(step, Phase | Place) else send(step))
            except Exception as error:  # noqa: BLE001 - the conversation decides what it means
                step = talk.throw(error)
            else:
                step = talk.send(came)
    except StopIteration as ended:
        return cast("Ending", ended.value)
    finally:
        talk.close()


def _run(store: Store, step: Phase | Place) -> Any:
    return step.wait() if isinstance(step, Place) else store.atomic(step.work, write=step.write)


async def _run_async(store: Store, step: Phase | Place) -> Any:
    if isinstance(step, Place):
        return await step.wait_async()
    return await store.atomic_async(step.work, write=step.write)
