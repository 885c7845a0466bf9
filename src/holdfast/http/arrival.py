"""A request as it arrives: its id, and the context that every failure of it takes along.

The id is made at once, because every reply shows it. Everything else about the request is read from its headers only
when they are asked for, so that a request that fails nowhere does not pay for it.
"""

from __future__ import annotations

import os
import re
import threading
from contextvars import Token
from dataclasses import fields, replace
from typing import Any

from holdfast.base import REAL, world
from holdfast.catalog.context import (
    Context,
    continued,
    current_context,
    enter_context,
    leave_context,
    new_request_id,
)
from holdfast.http.asgi import Scope, header

REQUEST_ID_HEADER = b"x-request-id"
REQUEST_ID_KEY = "holdfast.request_id"
"""Where the id stands in the scope, for the application and for an edge further in."""
KNOWN_KEY = "holdfast.known"
"""Where the scope has what was found out about the request after it arrived."""
TEXT_CHARS_MAX = 200

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._~:@/+=-]{1,128}\Z")
_FIELDS = frozenset(part.name for part in fields(Context))
_UNKNOWN = {part.name: part.default for part in fields(Context)}
_FILLING = threading.Lock()


class Arrived(Context):
    """The context of one request, read from its headers at the first look."""

    __slots__ = ("_scope",)
    _scope: Scope | None

    def __getattr__(self, name: str) -> Any:
        # Called only for a slot that has no value yet.
        if name not in _FIELDS:
            raise AttributeError(name)
        _fill(self)
        return object.__getattribute__(self, name)


def request_id(given: bytes | None) -> str:
    """The caller's id if it can be shown in logs and headers, else a new one."""
    if given is not None and _REQUEST_ID.match(given):
        return given.decode("ascii")
    if world().token_bytes is not REAL.token_bytes:
        return new_request_id()
    try:
        return _READY.pop()
    except IndexError:
        return _more()


def enter(scope: Scope) -> Token[Context]:
    """From here on failures belong to this request; give the token to `leave`."""
    arrived = _new(Arrived)
    _set_scope(arrived, scope)
    return enter_context(arrived)


def add_known(scope: Scope, **known: str) -> None:
    """Let failures of this request tell these facts too; they are read at the first look, like the others."""
    current = current_context()
    if getattr(current, "_scope", None) is scope:
        scope[KNOWN_KEY] = {**scope.get(KNOWN_KEY, {}), **known}
    else:
        enter_context(replace(current, **known))


_new = object.__new__
_set_scope = Arrived.__dict__["_scope"].__set__
leave = leave_context


# Ids are made many at a time: to ask the system for chance costs more than all the rest of a request here.
_READY: list[str] = []
READY_MAX = 128
os.register_at_fork(after_in_child=_READY.clear)  # parent and child must not give the same ones


def _more() -> str:
    chance = world().token_bytes(12 * READY_MAX).hex()
    made = [f"req_{chance[first : first + 24]}" for first in range(0, len(chance), 24)]
    first = made.pop()
    _READY.extend(made)
    return first


def _fill(arrived: Arrived) -> None:
    with _FILLING:
        scope = arrived._scope
        if scope is None:
            return  # another thread was quicker
        known = {
            "request_id": scope[REQUEST_ID_KEY],
            "user_agent": header(scope, "user-agent")[:TEXT_CHARS_MAX],
            "endpoint": f"{scope.get('method', 'WEBSOCKET')} {scope['path']}"[:TEXT_CHARS_MAX],
            "request_source": header(scope, "origin")[:TEXT_CHARS_MAX],
            **continued(header(scope, "traceparent")),
            **scope.get(KNOWN_KEY, {}),
        }
        for name, value in {**_UNKNOWN, **known}.items():
            object.__setattr__(arrived, name, value)
        _set_scope(arrived, None)
