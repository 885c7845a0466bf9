"""How deliveries leave: a `Send` for `holdfast.delivery`, on the outgoing client and behind its guard.

```python
send = WebhookSender()
Worker(store, deliveries.handlers(send), queues=[deliveries.queue()]).run()
```

Always true: a URL that a user supplied leads to no address of our own network; no redirect is followed; of a reply
little more than its status is read; an exchange takes no longer than its endpoint allows.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from holdfast.base import Private
from holdfast.catalog import Failure
from holdfast.catalog.core import DNS_FAILED, NETWORK_TIMEOUT, TLS_ERROR
from holdfast.delivery.exchange import BODY_SHOWN_BYTES, Outgoing, Reply
from holdfast.http.alarms import Alarms
from holdfast.http.client import HttpClient
from holdfast.http.ssrf import PUBLIC, Lookup, Reach, checked
from holdfast.http.transport import TRANSPORT_ERRORS, Pool, reason_of, transport_failure

if TYPE_CHECKING:
    from ssl import SSLContext

    from holdfast.http.wire import Target, Wire

CONNECTIONS_MAX = 100
CONNECT_S = 5.0
IDLE_S = 15.0
TARGETS_MAX = 10_000
"""Maximum number of checked addresses that are remembered."""
PLAIN = ("accept-encoding", "identity")
EXPLAINED = frozenset({DNS_FAILED.code, TLS_ERROR.code})
MARGIN = 0.8
"""Share of the request's time after which the body of a reply whose status is known is no longer waited for."""


class WebhookSender:
    """Posts deliveries. Each event loop that uses it has connections of its own, closed when the loop ends.

    Args:
        reach: where it may go; for development put your own receivers on its list, by exact host and port.
        connections_max: as many as the queue has deliveries at once, or those above it wait.
        tls: trust other certificates than the system does, or show one.
        lookup: how names are looked up; None asks the system.
    """

    keeps_time = True
    """It is never later than the request allows, so that its caller need not look at the clock."""

    def __init__(
        self,
        *,
        reach: Reach = PUBLIC,
        connections_max: int = CONNECTIONS_MAX,
        connect_s: float = CONNECT_S,
        tls: SSLContext | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        self._reach = reach
        self._connect_s = connect_s
        pool = Pool(connections_max=connections_max, per_host_max=connections_max, idle_s=IDLE_S)
        self._client = HttpClient(reach=reach, pool=pool, tls=tls, lookup=lookup)
        self._posts: WeakKeyDictionary[asyncio.AbstractEventLoop, _Post] = WeakKeyDictionary()

    async def __call__(self, request: Outgoing, /) -> Reply:
        """Post the body, and return the status with the beginning of the reply.

        Raises:
            Failure: there was no reply, or the address is refused; the fault says why.
        """
        loop = asyncio.get_running_loop()
        post = self._posts.get(loop)
        if post is None or post.closed:
            post = self._posts[loop] = _Post(self._client.twin(), self._reach, self._connect_s)
        return await post.send(request, loop)

    async def close(self) -> None:
        """Close the connections of this loop; the next request opens new ones."""
        post = self._posts.pop(asyncio.get_running_loop(), None)
        if post is not None:
            await post.close()


class _Post:
    """What is sent on one loop."""

    def __init__(self, client: HttpClient, reach: Reach, connect_s: float) -> None:
        self._client = client
        self._reach = reach
        self._connect_s = connect_s
        self._wire: Wire = client.wire()
        self._alarms = Alarms()
        self._targets: dict[str, Target] = {}
        self.closed = False
        # The code that ends a loop cancels its tasks first: that is when the connections are to be closed.
        self._end = asyncio.create_task(self._until_cancelled(), name="holdfast-webhooks")

    async def send(self, request: Outgoing, loop: asyncio.AbstractEventLoop) -> Reply:
        target = self._targets.get(request.url) or self._target(request.url)
        seconds = request.timeout_s
        sending = self._wire.send(
            target,
            (*request.headers, PLAIN),
            request.body,
            connect_s=min(self._connect_s, seconds),
            read_s=None,
            body_bytes_max=BODY_SHOWN_BYTES,
            excerpt_until_s=loop.time() + seconds * MARGIN,
        )
        try:
            answered = await self._alarms.within(seconds, sending)
        except TRANSPORT_ERRORS as error:
            if type(error) is TimeoutError:  # the one above; those of the network are classes of their own
                raise NETWORK_TIMEOUT(phase="total", host=Private(target.host)) from error
            failure = _explained(transport_failure(error, target.host))
            raise failure from error
        return Reply(answered.status, answered.headers, answered.body)

    async def close(self) -> None:
        self._end.cancel()
        await self._shut()

    def _target(self, url: str) -> Target:
        """An address that has passed; where its name leads is checked again with every connection."""
        if len(self._targets) >= TARGETS_MAX:
            self._targets.clear()
        target = self._targets[url] = self._wire.target("POST", checked(url, self._reach))
        return target

    async def _until_cancelled(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self._shut()

    async def _shut(self) -> None:
        self.closed = True
        self._alarms.close()
        await self._client.close()


def _explained(failure: Failure) -> Failure:
    """The failure with the reason in its sentence, where the endpoint's owner has to act: its name, its certificate."""
    reason = reason_of(failure.__cause__) if failure.code in EXPLAINED else ""
    if not reason:
        return failure
    said = failure.fault.says.rstrip(".") + ": {reason}."
    return Failure(failure.fault, said, details={**failure.details, "reason": reason})
