"""One request and its reply, as the edge sees them.

A reply that fails is held back until it is whole, because a framework's own words are replaced by the catalog's. A
reply that goes well is passed on as it comes. Once a reply has begun, nothing about it can be changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from holdfast.catalog.failure import Failure
from holdfast.http.arrival import REQUEST_ID_HEADER
from holdfast.http.asgi import Message, Scope, Send
from holdfast.http.aside import loop_runs
from holdfast.http.render import Headers, Voice, Written, without_body

FAILED_FROM = 400
FAILURE_KEY = "holdfast.failure"
WRITTEN_KEY = "holdfast.written"
REQUEST_ID_CHARS = len(REQUEST_ID_HEADER)
HELD_BYTES_MAX = 1_048_576
"""An error reply longer than this is passed on unread; one about validation is not, because it may quote secrets."""


def note(scope: Scope, failure: Failure, *, written: bool = False) -> None:
    """Say which failure an error reply is about, so that log and metrics have its code.

    A framework that answers every exception by itself (Litestar) calls it in its exception handler, and the edge writes
    the reply. An application that has a page for the failure calls it before it sends that.

    Args:
        written: the reply that follows is passed on as it is.
    """
    scope[FAILURE_KEY] = failure
    scope[WRITTEN_KEY] = written


class Exchange:
    """What has been said so far, and the one door through which the rest is said."""

    __slots__ = (
        "_on_loop", "_size", "begun", "failure", "headers", "held", "hung_up", "onward", "parts", "refusal", "scope",
        "voice",
    )  # fmt: skip

    def __init__(self, scope: Scope, onward: Send, voice: Voice, headers: Headers) -> None:
        self.scope = scope
        self.onward = onward
        """Where messages go from here."""
        self.voice = voice
        self.headers = headers
        """Added to whatever is answered."""
        self.begun = False
        self.refusal: Failure | None = None
        """Set when the body was refused: then that is the answer, whatever the application says."""
        self.failure: Failure | None = None
        """What the reply says went wrong, where the edge knows."""
        self.held: Message | None = None
        self.hung_up = False
        """Whether the client went away in the middle of its request: whatever is answered then reaches nobody."""
        self._on_loop: bool | None = None

    @property
    def on_loop(self) -> bool:
        """Whether an event loop runs this request; asked once, because the answer takes a system call."""
        if self._on_loop is None:
            self._on_loop = loop_runs()
        return self._on_loop

    def send(self, message: Message) -> Awaitable[None]:
        """What the application is given to answer with."""
        if message["type"] == "http.response.start":
            if message["status"] >= FAILED_FROM or self.refusal is not None:
                return self._hold(message)
            self.begun = True
            return self.onward({**message, "headers": self._every(message.get("headers", ()))})
        if self.held is None:
            return self.onward(message)
        return self._hold_more(message)

    async def end(self) -> None:
        """The application has returned: say what is still held back."""
        if self.held is not None and not self.hung_up:
            await self._settle()

    async def fail(self, error: Exception) -> None:
        """Answer with this error; what was held back is forgotten."""
        self.held = None
        failure, headers = self.voice.read(error if self.refusal is None else self.refusal, self.scope)
        await self.answer(failure, headers)

    async def answer(self, failure: Failure, headers: Headers | None = None) -> None:
        """Answer with this failure."""
        self.failure = failure
        self.voice.tell(failure)
        await self.say(self.voice.write(failure, self.scope), headers or [])

    async def say(self, written: Written, headers: Headers) -> None:
        """One whole answer; to a HEAD request, all of it but the body."""
        self.begun = True
        named = {name for name, _ in written.headers} - {b"vary"}  # reasons to vary add up
        every = self._every([*written.headers, *(pair for pair in headers if pair[0].lower() not in named)])
        await self.onward({"type": "http.response.start", "status": written.status, "headers": every})
        body = b"" if self.scope["method"] == "HEAD" else written.body
        await self.onward({"type": "http.response.body", "body": body, "more_body": False})

    def _every(self, headers: Sequence[tuple[bytes, bytes]]) -> Headers:
        """The reply's own headers and ours; a request has one id, and it is the one that failures and logs show."""
        if not self.headers:
            return list(headers)
        every = [*headers, *self.headers]
        for pair in headers:
            # Nearly all names differ in their length already, and this is asked of every header of every reply.
            if len(pair[0]) == REQUEST_ID_CHARS and pair[0].lower() == REQUEST_ID_HEADER:
                every.remove(pair)
        return every

    async def _hold(self, message: Message) -> None:
        self.held = message
        self.parts: list[bytes] = []
        self._size = 0

    async def _hold_more(self, message: Message) -> None:
        if message["type"] != "http.response.body":
            return await self._release(message)  # a file sent by the server itself, say
        body = message.get("body", b"")
        self._size += len(body)
        self.parts.append(body)
        if self._size > HELD_BYTES_MAX:
            return await self._too_long(message)
        # After a 500 the exception itself may still follow, and tells more than the reply.
        ended = not message.get("more_body", False) and not self.hung_up
        if ended and self._status != 500 and self.refusal is None:
            await self._settle()
        return None

    @property
    def _status(self) -> int:
        assert self.held is not None
        return int(self.held["status"])

    async def _settle(self) -> None:
        assert self.held is not None
        held, body = self.held, b"".join(self.parts)
        headers = list(held.get("headers", ()))
        noted: Failure | None = self.scope.get(FAILURE_KEY)
        if noted is not None and self.refusal is None:
            if not self.scope[WRITTEN_KEY]:
                return await self.fail(noted)
            self.failure = noted
            self.voice.tell(noted)
            return await self._release({"type": "http.response.body", "body": body, "more_body": False}, whole=True)
        failure = self.refusal or self.voice.read_reply(self._status, headers, body, self.scope)
        if failure is None:
            return await self._release({"type": "http.response.body", "body": body, "more_body": False}, whole=True)
        self.held = None
        return await self.answer(failure, [] if self.refusal is not None else without_body(headers))

    async def _too_long(self, message: Message) -> None:
        if self._status != 422 and self.refusal is None:
            return await self._release({**message, "body": b"".join(self.parts)}, whole=True)
        # The rest of it is let fall, and the answer is given when the application is done.
        self.parts = []
        self._size = 0
        self.refusal = self.refusal or self.voice.unreadable(422, self.scope)
        return None

    async def _release(self, message: Message, *, whole: bool = False) -> None:
        """Pass on what was held, as it was, and go on with this message."""
        assert self.held is not None
        held, self.held = self.held, None
        self.begun = True
        await self.onward({**held, "headers": self._every(held.get("headers", ()))})
        if not whole and self.parts:
            await self.onward({"type": "http.response.body", "body": b"".join(self.parts), "more_body": True})
        await self.onward(message)
