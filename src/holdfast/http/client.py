"""The outgoing client: pooled, bounded, guarded, and never at a loss for what went wrong.

```python
async with HttpClient(reach=ANYWHERE) as client:
    reply = await client.send("GET", "http://bank.internal/balance")       # any status is a reply
    price = await client.call(bank, "GET", "http://bank.internal/price", read=Reply.json)   # guarded by the link
```
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from yarl import URL

from holdfast.base import Private, monotonic_s
from holdfast.catalog import Failure, StatusTable
from holdfast.catalog.core import DEADLINE_EXCEEDED, NETWORK_TIMEOUT
from holdfast.guard import Link
from holdfast.http.aside import aside
from holdfast.http.judge import Judge
from holdfast.http.outgoing import REDIRECTS, SAFE_METHODS, Outgoing, Sending, outgoing, redirected
from holdfast.http.reply import Headers, Reply
from holdfast.http.ssrf import ANYWHERE, PUBLIC, Lookup, Reach
from holdfast.http.streaming import StreamedReply, streamed
from holdfast.http.transport import TRANSPORT_ERRORS, Pool, Timeouts, open_wire, transport_failure
from holdfast.http.wire import Wire
from holdfast.policy import left_s, within

if TYPE_CHECKING:
    from ssl import SSLContext

    from holdfast.http.sync_door import SyncClient

__all__ = ["ANYWHERE", "PUBLIC", "Headers", "HttpClient", "Pool", "Reach", "Reply", "Timeouts"]

T = TypeVar("T")

AGENT = "holdfast"
RESPONSE_BYTES_MAX = 8_388_608
READ_INLINE_BYTES_MAX = 65_536
"""A larger body is read beside the event loop, which others need meanwhile."""
MARGIN_S_MAX = 0.002
"""Maximum time by which we stop before the deadline, so that its owner gets our failure and not a bare timeout."""


class HttpClient:
    """Calls others over HTTP; one client serves one event loop, and `sync` serves code that blocks.

    Args:
        reach: where it may go. The default is for addresses that users supply; `ANYWHERE` for your own services.
        timeouts: how long each phase may take.
        pool: how many connections are kept.
        body_bytes_max: no larger reply is accepted, neither as it comes nor decompressed.
        headers: sent with every request.
        tls: trust other certificates than the system does, or show one.
        lookup: how names are looked up; None asks the system.
    """

    def __init__(
        self,
        *,
        reach: Reach = PUBLIC,
        timeouts: Timeouts | None = None,
        pool: Pool | None = None,
        body_bytes_max: int = RESPONSE_BYTES_MAX,
        headers: Mapping[str, str] | None = None,
        tls: SSLContext | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        if body_bytes_max < 1:
            raise ValueError(f"body_bytes_max: {body_bytes_max} is not a size")
        common = {"user-agent": AGENT} | {name.lower(): value for name, value in (headers or {}).items()}
        self._prepare = partial(
            outgoing,
            reach=reach,
            common=common,
            timeouts=Timeouts() if timeouts is None else timeouts,
            body_bytes_max=body_bytes_max,
        )
        self._reach = reach
        self._open = partial(open_wire, reach, Pool() if pool is None else pool, tls, lookup)
        self._wire: Wire | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._sync: SyncClient | None = None
        self.twin: Callable[[], HttpClient] = partial(
            HttpClient,
            reach=reach,
            timeouts=timeouts,
            pool=pool,
            body_bytes_max=body_bytes_max,
            headers=headers,
            tls=tls,
            lookup=lookup,
        )
        """Makes another client with the same settings, for another event loop."""

    @property
    def sync(self) -> SyncClient:
        """The same client for code that blocks; it has a pool of its own and is closed by itself."""
        from holdfast.http.sync_door import SyncClient, opening  # it starts threads, which few need

        with opening():
            if self._sync is None or self._sync.closed:
                self._sync = SyncClient(self)
            return self._sync

    async def send(self, method: str, url: str | URL, **options: Unpack[Sending]) -> Reply:
        """Send one request, once, and return what came back, whatever its status.

        Raises:
            Failure: there was no whole reply, or none that may be accepted; the fault says why.
            ValueError: the request itself cannot be right.
        """
        timeouts = options.get("timeouts") or self._prepare.keywords["timeouts"]
        left = left_s()
        seconds = min(timeouts.total_s, left - min(MARGIN_S_MAX, left / 10))
        with within(seconds):
            request = self._prepare(method, url, options)
            if left <= 0:
                raise DEADLINE_EXCEEDED(link=request.host, left_s=0)
            try:
                async with asyncio.timeout(seconds):
                    return await self._follow(request, seconds)
            except TimeoutError as late:
                raise NETWORK_TIMEOUT(phase="total", host=Private(request.host)) from late

    @overload
    async def call(
        self,
        link: Link,
        method: str,
        url: str | URL,
        *,
        key: str | None = None,
        read: None = None,
        reads: bool = False,
        statuses: StatusTable | None = None,
        **options: Unpack[Sending],
    ) -> Reply: ...
    @overload
    async def call(
        self,
        link: Link,
        method: str,
        url: str | URL,
        *,
        key: str | None = None,
        read: Callable[[Reply], T],
        reads: bool = False,
        statuses: StatusTable | None = None,
        **options: Unpack[Sending],
    ) -> T: ...
    async def call(
        self,
        link: Link,
        method: str,
        url: str | URL,
        *,
        key: str | None = None,
        read: Callable[[Reply], Any] | None = None,
        reads: bool = False,
        statuses: StatusTable | None = None,
        **options: Unpack[Sending],
    ) -> Any:
        """Send a request through the link: attempts, breaker and limits are the link's.

        Args:
            key: the idempotency key of a write; every attempt sends the same, and only with it is a write repeated.
            read: makes the result from the reply, as `Reply.json` does; what it refuses may be tried again. A large
                body is read in a thread, within the time of the call.
            reads: this method changes nothing here, although others of its name do: a search by POST.
            statuses: which statuses are failures; None leaves it to the link's classifier, from 400 on.

        Raises:
            Failure: no attempt brought a good reply, or none was allowed.
            ValueError: a method that changes something on a link that is declared to read only.
        """
        if not (link.writes or reads or method.upper() in SAFE_METHODS):
            raise ValueError(
                f"{method} on {link.name}: the link reads, so it would be repeated without a key; "
                "declare it with writes=True, or say reads=True if this request changes nothing"
            )
        judge = Judge(link=link, statuses=statuses)

        async def attempt() -> Any:
            began_s = monotonic_s()
            try:
                reply = await self.send(method, url, **options)
                failure = judge.failure(reply)
                if failure is not None:
                    raise failure
                if read is None or len(reply.body) <= READ_INLINE_BYTES_MAX:
                    return reply if read is None else read(reply)
                timeouts: Timeouts = options.get("timeouts") or self._prepare.keywords["timeouts"]
                return await _read_aside(read, reply, timeouts.total_s - (monotonic_s() - began_s))
            except Failure as failed:
                judge.settle(failed)
                raise

        try:
            return await (link if key is None else link.keyed(key)).call(attempt)
        except TimeoutError as late:
            failed = NETWORK_TIMEOUT(phase="attempt")
            judge.settle(failed)
            raise failed from late

    @asynccontextmanager
    async def stream(self, method: str, url: str | URL, **options: Unpack[Sending]) -> AsyncIterator[StreamedReply]:
        """Send one request, once, and hand the reply over while it comes, whatever its status.

        The time limits count until the block ends; what the network does while the reply is read is raised inside.

        Raises:
            Failure: there was no reply; the fault says why.
            ValueError: the request itself cannot be right.
        """
        timeouts = options.get("timeouts") or self._prepare.keywords["timeouts"]
        left = left_s()
        seconds = min(timeouts.total_s, left - min(MARGIN_S_MAX, left / 10))
        with within(seconds):
            request = self._prepare(method, url, options)
            if left <= 0:
                raise DEADLINE_EXCEEDED(link=request.host, left_s=0)
            async with streamed(self.wire(), request, seconds) as reply:
                yield reply

    async def close(self) -> None:
        """Close every connection; the client cannot be used again. Closing twice is closing once."""
        self._closed = True
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def wire(self) -> Wire:
        """The connections on this loop, for what needs less than `send` does."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise RuntimeError("this client is closed")
        if self._wire is None:
            self._wire, self._loop = self._open(), loop
        elif self._loop is not loop:
            raise RuntimeError("this client belongs to another event loop; make one for each, with twin()")
        return self._wire

    async def _follow(self, request: Outgoing, seconds: float) -> Reply:
        """The reply to the request or, where that is wanted, to the one it is redirected to."""
        wanted = request.redirects > 0
        while True:  # every redirect uses one up, so it ends
            reply = await self._exchange(request, seconds)
            location = reply.headers.get("location")
            if not wanted or reply.status not in REDIRECTS or location is None:
                return reply
            request = redirected(request, reply.status, location, self._reach)

    async def _exchange(self, request: Outgoing, seconds: float) -> Reply:
        wire = self.wire()
        timeouts = request.timeouts
        try:
            answered = await wire.send(
                wire.target(request.method, request.url),
                request.headers.items(),
                request.body,
                connect_s=timeouts.connect_s,
                # Where all of it has less time than a piece, one clock is enough.
                read_s=timeouts.read_s if timeouts.read_s < seconds else None,
                body_bytes_max=request.body_bytes_max,
            )
        except Failure as failure:
            failure.details = {**failure.details, "host": Private(request.host)}
            raise
        except TRANSPORT_ERRORS as error:
            raised = transport_failure(error, request.host)
            raise raised from raised.__cause__
        headers = Headers(answered.headers.items())
        return Reply(status=answered.status, headers=headers, body=answered.body, url=str(request.url))


async def _read_aside(read: Callable[[Reply], T], reply: Reply, seconds: float) -> T:
    """Read a large body in a thread, and wait for it no longer than this or than the deadline allows.

    Raises:
        Failure: NETWORK_TIMEOUT; what was begun goes on in its thread and serves nobody.
    """
    try:
        async with asyncio.timeout(max(0.0, min(seconds, left_s()))):
            return await aside(lambda: read(reply))
    except TimeoutError as late:
        raise NETWORK_TIMEOUT(phase="read", bytes=len(reply.body)) from late
