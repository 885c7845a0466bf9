"""Idempotency at the edge: a request that comes with a key has one effect and one answer, however often it comes.

The key is the header `Idempotency-Key`, or derived from the request. What makes it the same request is its method, its
path with the query, and its body: JSON as the JSON it says, everything else byte for byte. The answer is stored before
it is sent; a repeat by the same caller gets it byte for byte, with `Idempotent-Replayed: true`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from holdfast.base import Json, digest, monotonic_s, world
from holdfast.base.arguments import function, instance, is_a, number, refused
from holdfast.guard.heartbeat import HEARTBEAT
from holdfast.guard.idempotency import InProgress, Keys, Mismatch, Replay, Started
from holdfast.guard.key import enter_key, leave_key
from holdfast.guard.keyed_work import REPLAYED_HEADER
from holdfast.guard.request import NAME_CHARS_MAX, received_hash
from holdfast.http.access import CHALLENGE, Access
from holdfast.http.asgi import Application, Receive, Scope
from holdfast.http.aside import aside, loop_runs
from holdfast.http.callers import Caller, caller_of
from holdfast.http.captured import Captured
from holdfast.http.exchange import Exchange
from holdfast.http.render import Written
from holdfast.policy.deadline import left_s

if TYPE_CHECKING:
    from holdfast.catalog.failure import Failure
    from holdfast.lifecycle.idempotency import Answer, Begun

KEY_HEADER = b"idempotency-key"
STARTED_KEY = "holdfast.started"
"""Where the held key stands in the scope; `started_key()` finds it under any framework."""
METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
NO_BODY = frozenset({204, 304})
SMALL_DIGITS_MAX = 3
"""A body of less than a thousand bytes is hashed more quickly than a thread is woken."""
POLL_S = 0.05
POLL_S_MAX = 1.0

Derive = Callable[[Scope, Json | bytes], str | None]
"""The key of a request that brings none, from its scope and its body (JSON where it is JSON); None means no key."""

_BY_SERVER = frozenset({"http.response.pathsend", "http.response.zerocopysend"})
_keyed: ContextVar[tuple[Started, dict[str, str]] | None] = ContextVar("holdfast_keyed", default=None)
"""The key that this request holds, and the ids of what it has created so far."""


def created(**resources: str) -> None:
    """Tell the ids of what this request created, such as `instanceId="inst_7"`; they are stored with its answer."""
    keyed = _keyed.get()
    if keyed is not None:
        keyed[1].update(resources)


def started_key() -> Started | None:
    """The idempotency key that this request holds, to be finished in the transaction of its effect.

    `keys.finish(started_key(), answer, tx=store.join(connection))`, in any framework, under ASGI and WSGI. None where
    the request came without a key, or the edge does not hold it to one effect.
    """
    keyed = _keyed.get()
    return None if keyed is None else keyed[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotency:
    """Which requests are held to one effect."""

    keys: Keys
    """Where answers are kept, and for how long."""
    methods: Collection[str] = METHODS
    """Of these only; GET has no effect to be held to."""
    required: bool = False
    """Whether a request of these methods without a key is refused."""
    derive: Derive | None = None
    """Makes the key of a request that brings none, from its scope and its body; None leaves it without one."""
    when: Callable[[Scope], bool] | None = None
    """Which requests it is about; None is all of them."""
    access: Access | None = None
    """The caller is the tenant of the API key that this `Access`, which is also the edge's, has found in order."""
    caller: Caller | None = None
    """The caller is what this function says; it has to prove it, because a replay is answered before the application
    runs. A request with a key whose caller is None is refused with 401 `IDEMPOTENCY_CALLER_UNKNOWN`."""
    anonymous: bool = False
    """All callers are one: a client that knows a key and its request gets the stored response."""
    operation: Callable[[Scope], str] | None = None
    """What the key is for; None is the method with the path."""
    wait_s: float = 0.0
    """Maximum time that a twin waits for the first one's answer; 0 refuses it at once."""

    def __post_init__(self) -> None:
        instance("keys", self.keys, Keys, "write keys=Keys(store)")
        if isinstance(self.methods, str) or not all(is_a(one, str) and one.isupper() for one in self.methods):
            raise refused("methods", self.methods, 'write {"POST", "PUT"}: a collection, in capital letters')
        number("wait_s", self.wait_s, least=0)
        for name in ("derive", "when", "caller", "operation"):
            function(name, getattr(self, name), "give a function of the request's scope")
        known = [self.access is not None, self.caller is not None, self.anonymous]
        if known.count(True) != 1:
            raise TypeError(
                "Idempotency needs one of access=Access(...) (callers are known by their API keys), caller=function "
                "(of the request, names a proven caller or None) and anonymous=True (all callers share their keys)"
            )

    def concerns(self, scope: Scope, *, keyed: bool) -> bool:
        """Whether the request is one of these; one without a key of its own only if it needs one or gets one."""
        return (
            scope["method"] in self.methods
            and (keyed or self.required or self.derive is not None)
            and (self.when is None or self.when(scope))
        )

    def key(self, exchange: Exchange, given: bytes | None, body: Json | bytes) -> str | None:
        """The key of the request, which may have been given as a header.

        Raises:
            Failure: IDEMPOTENCY_KEY_REQUIRED.
        """
        if given is not None:
            return given.decode("latin-1")
        derived = None if self.derive is None else self.derive(exchange.scope, body)
        if derived is None and self.required:
            raise exchange.voice.fault("IDEMPOTENCY_KEY_REQUIRED").occur()
        return derived


async def identified(rule: Idempotency, exchange: Exchange, *, keyed: bool) -> str | None:
    """The caller, before any of the body is read; None only of a request that may turn out to have no key.

    Raises:
        Failure: IDEMPOTENCY_CALLER_UNKNOWN.
    """
    caller = await caller_of(rule, exchange.scope)
    if caller is None and (keyed or rule.required):
        raise _unknown(exchange)
    return caller


async def once(
    rule: Idempotency,
    key: str,
    body: Json | bytes,
    exchange: Exchange,
    receive: Receive,
    app: Application,
    *,
    caller: str | None,
    length: bytes | None,
) -> None:
    """Let the application do the work, unless the same caller's request was answered before; then that is the answer.

    Args:
        length: what the request says of its body.

    Raises:
        Failure: IDEMPOTENCY_CALLER_UNKNOWN, IDEMPOTENCY_KEY_INVALID, IDEMPOTENCY_PAYLOAD_MISMATCH,
            IDEMPOTENCY_IN_PROGRESS with a time to ask again, IDEMPOTENCY_LOST; or the database's own.
    """
    if caller is None:
        raise _unknown(exchange)
    scope, keys = exchange.scope, rule.keys
    method, path = scope["method"], _path(scope)
    operation = rule.operation(scope) if rule.operation is not None else _operation(method, path)
    if length is not None and len(length) <= SMALL_DIGITS_MAX and length.isdigit():
        hashed = received_hash(method=method, path=path, body=body)
    else:
        hashed = await aside(partial(received_hash, method=method, path=path, body=body))
    begun: Begun
    if exchange.on_loop:
        begun = await keys.begin_async(tenant=caller, operation=operation, key=key, request_hash=hashed)
    else:
        begun = keys.begin(tenant=caller, operation=operation, key=key, request_hash=hashed)
    if isinstance(begun, InProgress) and rule.wait_s:
        asked = {"tenant": caller, "operation": operation, "key": key, "request_hash": hashed}
        begun = await _awaited(rule, asked, exchange, begun)
    match begun:
        case Started():
            await _work(keys, begun, exchange, receive, app)
        case Replay(answer):
            await exchange.say(_written(answer), [])
        case Mismatch():
            raise exchange.voice.fault("IDEMPOTENCY_PAYLOAD_MISMATCH").occur()
        case InProgress(retry_after_s):
            raise exchange.voice.fault("IDEMPOTENCY_IN_PROGRESS").occur(retry_after_s=retry_after_s)


async def _awaited(rule: Idempotency, asked: dict[str, str], exchange: Exchange, begun: Begun) -> Begun:
    """Wait for the answer of the first one, as long as a twin may."""
    give_up_s = monotonic_s() + min(rule.wait_s, left_s())
    poll_s = POLL_S
    while isinstance(begun, InProgress) and monotonic_s() + poll_s <= give_up_s:
        await _pause(poll_s)
        poll_s = min(poll_s * 1.5, POLL_S_MAX)
        begun = await rule.keys.begin_async(**asked) if exchange.on_loop else rule.keys.begin(**asked)
    return begun


async def _work(keys: Keys, started: Started, exchange: Exchange, receive: Receive, app: Application) -> None:
    captured = Captured(keys, started, exchange)
    exchange.onward = captured.send
    resources: dict[str, str] = {}
    keyed, key = _keyed.set((started, resources)), enter_key(started.key)
    late: Exception | None = None
    try:
        try:
            # As `keys.held` does, without an object for it.
            HEARTBEAT.hold(keys.store, started, lease_s=keys.lease_s)
            exchange.scope[STARTED_KEY] = started
            _forbid_files(exchange.scope)
            await app(exchange.scope, receive, exchange.send)
            if exchange.held is not None:
                await exchange.end()
        except Exception as error:  # noqa: BLE001 - settled here, whatever it is
            late = await captured.fail(error)
        finally:
            HEARTBEAT.drop(started)
            leave_key(key)
        await captured.settle(resources)
    except BaseException as error:
        captured.abandon(error)
        raise
    finally:
        _keyed.reset(keyed)
        exchange.onward = captured.onward
        keys.leave(started)
    if late is not None:
        raise late


def _forbid_files(scope: Scope) -> None:
    """What the server would send by itself could not be kept."""
    extensions = scope.get("extensions")
    if extensions:
        scope["extensions"] = {name: given for name, given in extensions.items() if name not in _BY_SERVER}


def _unknown(exchange: Exchange) -> Failure:
    exchange.headers.append(CHALLENGE)
    return exchange.voice.fault("IDEMPOTENCY_CALLER_UNKNOWN").occur()


def _operation(method: str, path: str) -> str:
    said = f"{method} {path.partition('?')[0]}"
    return said if len(said) <= NAME_CHARS_MAX else f"{method} {digest(said)}"


def _path(scope: Scope) -> str:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    path = path.partition(b"?")[0]
    return (b"%s?%s" % (path, query) if query else path).decode("latin-1")


def _written(answer: Answer) -> Written:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((REPLAYED_HEADER[0].lower().encode(), REPLAYED_HEADER[1].encode()))
    if answer.body or answer.status not in NO_BODY:
        headers.append((b"content-length", b"%d" % len(answer.body)))
    return Written(answer.status, headers, answer.body)


async def _pause(seconds: float) -> None:
    if loop_runs():
        await world().pause(seconds)
    else:
        world().sleep(seconds)
