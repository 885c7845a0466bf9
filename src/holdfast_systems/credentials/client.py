"""The sender library: signs an event and sends it until the engine has it or will not take it.

```python
from holdfast_systems.credentials.client import Sender

sender = Sender("https://engine.example/v1/platforms/gotong_royong/webhook", secret="…")
answer = sender.send({"event_type": "contribution_created", "actor": {…}, "subject": {…}})
answer = await sender.send_async(event)     # the same on an event loop
```

It keeps nothing: when this process dies, what was being sent is known to nobody. Send again under the same `event_id`,
which is always safe; or let the platform do it, which writes events down first.

A 429 spends no attempt: the event waits for the time that the engine asks for, and all that this sender sends leaves at
the pace that the engine takes, whichever threads and tasks send it. Other processes find their own pace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self

from holdfast.base import CodecError, Json, Secret, decode, encode, now_us, world
from holdfast.catalog import DEFAULT_STATUSES, Failure
from holdfast.catalog.core import UPSTREAM_ERROR, UPSTREAM_REJECTED
from holdfast.delivery import BodyHmac, Reply, new_event_id, read_reply
from holdfast.guard import Link
from holdfast.http import ANYWHERE, HttpClient, Timeouts
from holdfast.http import Reply as HttpReply
from holdfast_systems.credentials.client_pace import RATE_LIMITED_MAX_S, Paced
from holdfast_systems.credentials.links import platform_to_engine
from holdfast_systems.credentials.settings import DELAYS_S, TIMEOUT_S

ANSWER_BYTES_MAX = 65_536
CONNECT_S = 5.0


def signed(body: bytes, secret: Secret | str) -> dict[str, str]:
    """The headers of a webhook with this body."""
    held = Secret(secret) if isinstance(secret, str) else secret
    pairs = BodyHmac().sign(body, event_id="", at_us=now_us(), secrets=[held])
    return {"Content-Type": "application/json", **dict(pairs)}


class Sender:
    """Sends the events of one platform to one engine; `send` blocks, `send_async` does not.

    Args:
        delays_s: between the attempts; one attempt more than there are delays.
        timeout_s: of each attempt.
        rate_limited_max_s: an event that meets nothing but 429 is given up after this time.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: Secret | str,
        delays_s: tuple[float, ...] = DELAYS_S,
        timeout_s: float = TIMEOUT_S,
        rate_limited_max_s: float = RATE_LIMITED_MAX_S,
    ) -> None:
        self.url = url
        self._paced = Paced(rate_limited_max_s)
        self.link: Link = platform_to_engine(delays_s)
        self._secret = Secret(secret) if isinstance(secret, str) else secret
        timeouts = Timeouts(connect_s=min(CONNECT_S, timeout_s), read_s=timeout_s, total_s=timeout_s)
        # The address is from the caller's own settings, not from its users.
        self._client = HttpClient(reach=ANYWHERE, timeouts=timeouts, body_bytes_max=ANSWER_BYTES_MAX)
        self._loops: dict[asyncio.AbstractEventLoop, HttpClient] = {}

    def send(self, event: Mapping[str, Json]) -> Any:
        """Send the event, under a new id when it has none; what the engine answered.

        Raises:
            Failure: the engine refused it, or no attempt came through; its code is the reason of the last one.
        """
        event_id, body = _prepared(event)
        headers = signed(body, self._secret)
        limits = self._paced.event()

        def attempt() -> Any:
            while True:
                if wait_s := limits.wait_s():
                    world().sleep(wait_s)
                reply = self._client.sync.send("POST", self.url, body=body, headers=headers)
                if limits.settled(reply):
                    return _read(reply)

        return self.link.keyed(event_id).call(attempt)

    async def send_async(self, event: Mapping[str, Json]) -> Any:
        """As `send`, on an event loop; close with `aclose` on the same loop."""
        event_id, body = _prepared(event)
        headers = signed(body, self._secret)
        loop = asyncio.get_running_loop()
        client = self._loops.get(loop)
        if client is None:
            client = self._loops[loop] = self._client.twin()
        limits = self._paced.event()

        async def attempt() -> Any:
            while True:
                if wait_s := limits.wait_s():
                    await world().pause(wait_s)
                reply = await client.send("POST", self.url, body=body, headers=headers)
                if limits.settled(reply):
                    return _read(reply)

        return await self.link.keyed(event_id).call(attempt)

    def close(self) -> None:
        """Close the connections of `send`."""
        self._client.sync.close()

    async def aclose(self) -> None:
        """Close the connections of `send_async` on this loop."""
        client = self._loops.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _prepared(event: Mapping[str, Json]) -> tuple[str, bytes]:
    """The event's id and its bytes, the same through all attempts."""
    event_id = event.get("event_id") or new_event_id()
    return str(event_id), encode({**event, "event_id": event_id}).encode()


def _read(reply: HttpReply) -> Any:
    """What the engine answered: its JSON, its text where that is not JSON, or None where it said nothing.

    Raises:
        Failure: it refused, by the same tables as durable deliveries.
    """
    failure = read_reply(Reply(reply.status, reply.headers, reply.body))
    if failure is not None:
        raise _translated(failure, reply.status)
    try:
        return decode(reply.body) if reply.body else None
    except CodecError:
        # The event has arrived, which is what counts: an engine may say so in plain words.
        return reply.body.decode("utf-8", "replace")


def _translated(failure: Failure, status: int) -> Failure:
    """The engine's refusal in words that the caller's own callers may read; what the engine said is its `remote`."""
    fault = DEFAULT_STATUSES.fault(status)
    if fault is None or fault.retryable != failure.retryable:
        fault = UPSTREAM_ERROR if failure.retryable else UPSTREAM_REJECTED
    return Failure(fault, retry_after_s=failure.retry_after_s, remote=failure.remote)
