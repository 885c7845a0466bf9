"""Request bodies, guarded while they stream: not too large, not too slow, and JSON only as we accept it.

A Content-Length is believed when it says too much, and never when it says little: every byte is counted. A large body
is decoded beside the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from holdfast.base import CodecError, Json, decode, limits, monotonic_s
from holdfast.base.arguments import numeric
from holdfast.catalog.failure import Failure
from holdfast.http.asgi import Message, Receive, Scope, header
from holdfast.http.aside import aside
from holdfast.http.exchange import Exchange
from holdfast.http.hang_up import ClientGone
from holdfast.policy.deadline import left_s

BYTES_MAX = 1_048_576
WAIT_S = 10.0
BYTES_PER_S_MIN = 1_024
EXPLANATION_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyRule:
    """What a request's body may be."""

    bytes_max: int = BYTES_MAX
    wait_s: float = WAIT_S
    """Maximum time to wait for the body in all; longer only as far as it keeps coming."""
    bytes_per_s_min: int = BYTES_PER_S_MIN
    """Number of received bytes that allow one more second of waiting."""
    json_checked: bool = True
    """Read JSON before the application does: bounded in depth, no key twice, UTF-8. Nothing is unpacked for that."""
    json_depth_max: int | None = None
    """None is the limit `json_depth_max` of this process."""

    def __post_init__(self) -> None:
        for name in ("bytes_max", "wait_s", "bytes_per_s_min"):
            numeric(name, getattr(self, name))
        if self.bytes_max < 0 or not self.wait_s > 0 or self.bytes_per_s_min < 1:
            raise ValueError("a body rule allows no less than 0 bytes, some time to wait, and 1 byte per second")


BodyRules = BodyRule | Callable[[Scope], BodyRule]
"""One rule for all, or a function that chooses by the request."""


class GuardedBody:
    """The `receive` of a request with a body."""

    __slots__ = ("_exchange", "_receive", "_received", "_rule", "_waited_s", "ended")

    def __init__(self, rule: BodyRule, receive: Receive, exchange: Exchange) -> None:
        self._rule = rule
        self._receive = receive
        self._exchange = exchange
        self._received = 0
        self._waited_s = 0.0
        self.ended = False

    async def __call__(self) -> Message:
        """The next message.

        Raises:
            Failure: PAYLOAD_TOO_LARGE, REQUEST_TIMEOUT, DEADLINE_EXCEEDED; the same again for a caller that asks again.
        """
        if self._exchange.refusal is not None:
            raise self._exchange.refusal
        if self.ended:
            return await self._receive()  # only the end of the connection is left to hear of
        message = await self._next()
        if message["type"] == "http.disconnect":
            self._exchange.hung_up = True
        self._received += len(message.get("body", b""))
        if self._received > self._rule.bytes_max:
            raise self._refused("PAYLOAD_TOO_LARGE", bytes_max=self._rule.bytes_max)
        self.ended = not message.get("more_body", False)
        return message

    async def whole(self) -> bytes:
        """All of it.

        Raises:
            Failure: as above.
            ClientGone: the client left.
        """
        parts: list[bytes] = []
        while not self.ended:
            message = await self()
            if message["type"] != "http.request":
                raise ClientGone
            parts.append(message.get("body", b""))
        return b"".join(parts)

    async def _next(self) -> Message:
        allowed_s = self._rule.wait_s + self._received / self._rule.bytes_per_s_min - self._waited_s
        deadline_s = left_s()
        begun_s = monotonic_s()
        try:
            message = await self._received_within(min(allowed_s, deadline_s))
        except TimeoutError:
            message = None
        waited_s = monotonic_s() - begun_s
        self._waited_s += waited_s
        if message is not None and waited_s <= min(allowed_s, deadline_s):
            return message
        if deadline_s < allowed_s:
            raise self._refused("DEADLINE_EXCEEDED")
        raise self._refused("REQUEST_TIMEOUT", wait_s=self._rule.wait_s, bytes_per_s_min=self._rule.bytes_per_s_min)

    async def _received_within(self, limit_s: float) -> Message:
        # Without a loop nothing can be interrupted: the adapter reads small pieces, and time is looked at after each.
        if limit_s == inf or not self._exchange.on_loop:
            return await self._receive()
        import asyncio

        async with asyncio.timeout(max(0.0, limit_s)):
            return await self._receive()

    def _refused(self, code: str, **details: Any) -> Failure:
        failure = self._exchange.refusal = self._exchange.voice.fault(code).occur(**details)
        _close_after(self._exchange)
        return failure


class Kept:
    """A body that was read already, given to the application in one piece."""

    __slots__ = ("_body", "_given", "_receive")

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body = body
        self._receive = receive
        self._given = False

    async def __call__(self) -> Message:
        if self._given:
            return await self._receive()
        self._given = True
        return {"type": "http.request", "body": self._body, "more_body": False}


def has_body(scope: Scope, *, length: bytes | None, encoding: bytes | None) -> bool:
    """Whether a body may come. HTTP/1 announces it; later versions need not."""
    if encoding is not None:
        return True
    if length is not None:
        return length.strip() != b"0"
    return not str(scope.get("http_version", "1.1")).startswith("1")


def has_two_lengths(scope: Scope) -> bool:
    """Whether the request says both Content-Length and Transfer-Encoding: two servers may read two requests in it."""
    names = {name for name, _ in scope["headers"]}
    return b"content-length" in names and b"transfer-encoding" in names


def refuse_two_lengths(exchange: Exchange) -> None:
    """Refuse a request that says both, and end its connection: what follows may be the rest of its body.

    Raises:
        Failure: BAD_REQUEST.
    """
    if has_two_lengths(exchange.scope):
        _close_after(exchange)
        raise exchange.voice.fault("BAD_REQUEST").occur("Content-Length and Transfer-Encoding exclude each other.")


async def prepared(
    rule: BodyRule, exchange: Exchange, receive: Receive, length: bytes | None, *, kept: bool
) -> tuple[Receive, Json | bytes]:
    """The guarded `receive`, and the body where it had to be read: as JSON, or to be kept.

    Raises:
        Failure: PAYLOAD_TOO_LARGE, REQUEST_TIMEOUT, DEADLINE_EXCEEDED, INVALID_JSON.
        ClientGone: the client left before the body was complete.
    """
    _check_length(rule, exchange, length)
    guarded = GuardedBody(rule, receive, exchange)
    checked = rule.json_checked and _is_json(exchange.scope)
    if not checked and not kept:
        return guarded, b""
    whole = await guarded.whole()
    if not checked:
        return Kept(whole, guarded), whole
    if len(whole) <= limits().json_inline_bytes_max:
        return Kept(whole, guarded), _read(rule, exchange, whole)
    # Milliseconds of decoding would be milliseconds in which no other request is served.
    return Kept(whole, guarded), await aside(lambda: _read(rule, exchange, whole))


def _check_length(rule: BodyRule, exchange: Exchange, length: bytes | None) -> None:
    """Refuse a body that announces too much, before reading any of it.

    Raises:
        Failure: PAYLOAD_TOO_LARGE.
    """
    if length is not None and length.isdigit() and int(length[:20]) > rule.bytes_max:
        _close_after(exchange)
        raise exchange.voice.fault("PAYLOAD_TOO_LARGE").occur(bytes_max=rule.bytes_max)


def _is_json(scope: Scope) -> bool:
    """Whether the body says that it is JSON."""
    kind = header(scope, "content-type").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _says_compressed(scope: Scope) -> bool:
    return header(scope, "content-encoding").lower() not in {"", "identity"}


def _is_plain_json(body: bytes) -> bool:
    """Whether the application would read JSON without unpacking anything: few look at what a body says it is."""
    import json

    try:
        json.loads(body)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _read(rule: BodyRule, exchange: Exchange, whole: bytes) -> Json | bytes:
    """The JSON of a body, or the bytes of one that would have to be unpacked first.

    Raises:
        Failure: INVALID_JSON with the reason.
    """
    readable = not _says_compressed(exchange.scope) or _is_plain_json(whole)
    return _json(rule, exchange, whole) if readable else whole


def _json(rule: BodyRule, exchange: Exchange, body: bytes) -> Json:
    """The JSON of a body; nothing at all is None.

    Raises:
        Failure: INVALID_JSON with the reason.
    """
    if not body:
        return None
    try:
        return decode(body, bytes_max=max(rule.bytes_max, 1), depth_max=rule.json_depth_max)
    except CodecError as broken:
        explanation = broken.explanation[:EXPLANATION_CHARS_MAX]
        raise exchange.voice.fault("INVALID_JSON").occur(reason=broken.reason, explanation=explanation) from None


def _close_after(exchange: Exchange) -> None:
    """Let the connection end with the answer: the rest of the body is still on its way and nobody reads it."""
    if str(exchange.scope.get("http_version", "1.1")).startswith("1"):
        exchange.headers.append((b"connection", b"close"))
