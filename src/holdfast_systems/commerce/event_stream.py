"""Replies that are streamed: JSON events, one after the other, as `text/event-stream`.

Always true: a failure before the first event is an ordinary error reply with its status; a later one is the last event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from fastapi import Response

from holdfast.base import decode, encode
from holdfast.catalog import Dialect, Failure, render
from holdfast.http.asgi import Receive, Scope, Send

MEDIA_TYPE = "text/event-stream"
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


def wants_stream(accept: str) -> bool:
    """Whether an Accept header names an event stream."""
    return any(part.partition(";")[0].strip().lower() == MEDIA_TYPE for part in accept.split(","))


def written(event: Mapping[str, Any]) -> bytes:
    """One event: its `type` is also the name by which browsers know it."""
    return f"event: {event['type']}\ndata: {encode(event)}\n\n".encode()


class EventStream(Response):
    """Sends events as they come, in the task that handles the request."""

    def __init__(self, events: AsyncIterator[Mapping[str, Any]]) -> None:
        super().__init__(media_type=MEDIA_TYPE)
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - nothing more comes
        begun = False
        try:
            async for event in self._events:
                if not begun:
                    begun = True
                    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                await send({"type": "http.response.body", "body": written(event), "more_body": True})
        except Failure as failure:
            if not begun:
                raise
            await send({"type": "http.response.body", "body": written(failed(failure)), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def failed(failure: Failure) -> dict[str, Any]:
    """The event that ends a stream that cannot go on: the same body that an error reply has."""
    body = decode(render(failure, Dialect.NESTED).body)
    assert isinstance(body, dict)
    return {"type": "error", **body}
