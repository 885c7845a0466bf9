"""Where a failure happened: the request, the trace, the caller and the machine.

The context is local to the task or thread. Every failure takes the one in force when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from holdfast.base import MASK, world

_TRACEPARENT = r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z"
_NOTHING = frozenset({"", "0" * 16, "0" * 32})
KEY_TAIL_CHARS = 4
KEY_PREFIX_CHARS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known about the circumstances; empty strings are unknown."""

    request_id: str = ""
    trace_id: str = ""
    span_id: str = ""
    trace_flags: str = "01"
    user_agent: str = ""
    api_version: str = ""
    endpoint: str = ""
    server_id: str = ""
    database_shard: str = ""
    external_service: str = ""
    api_key_id: str = ""
    """Obfuscated; see `obfuscated()`."""
    account_id: str = ""
    request_source: str = ""

    def known(self) -> dict[str, str]:
        """The fields that have a value, for logs and events."""
        return {
            part.name: value
            for part in fields(self)
            if part.name != "trace_flags" and (value := getattr(self, part.name))
        }

    @property
    def traceparent(self) -> str:
        """The W3C header to send on, or nothing outside a trace."""
        return f"00-{self.trace_id}-{self.span_id}-{self.trace_flags}" if self.trace_id and self.span_id else ""


_NOWHERE = Context()
_current: ContextVar[Context] = ContextVar("holdfast_context", default=_NOWHERE)

current_context: Callable[[], Context] = _current.get
"""The context in force here."""
enter_context: Callable[[Context], Token[Context]] = _current.set
"""Put a context in force; give the token to `leave_context`. Where a block will do, use `enriched`."""
leave_context: Callable[[Token[Context]], None] = _current.reset
"""Put the one before in force again."""


@contextmanager
def enriched(**known: str) -> Iterator[Context]:
    """Add facts to the context for the length of the block."""
    token = _current.set(replace(_current.get(), **known))
    try:
        yield _current.get()
    finally:
        _current.reset(token)


def continued(traceparent: str | None) -> dict[str, Any]:
    """The trace fields of a request: the caller's trace with a new span, or a new trace when the header is invalid.

    Follows W3C Trace Context: version ff, all-zero ids and a version 00 with extra parts are invalid.
    """
    found = _traceparent_shape().match((traceparent or "").strip())
    if found:
        version, trace_id, parent_id, flags, rest = found.groups()
        valid = version != "ff" and not (version == "00" and rest)
        if valid and trace_id not in _NOTHING and parent_id not in _NOTHING:
            return {"trace_id": trace_id, "span_id": _span_id(), "trace_flags": "01" if int(flags, 16) & 1 else "00"}
    return {"trace_id": world().token_bytes(16).hex(), "span_id": _span_id(), "trace_flags": "01"}


def new_request_id() -> str:
    """An id such as `req_5f0c…` for a request that brought none."""
    from holdfast.base import prefixed_id  # loaded by the first request

    return prefixed_id("req", chance_bytes=12)


def obfuscated(api_key: str) -> str:
    """A key as it may be shown: a short prefix up to the first underscore and the last four characters.

    At least twelve characters stay hidden; a key too short for that shows nothing.
    """
    prefix, mark, rest = api_key.partition("_")
    if not mark or len(prefix) > KEY_PREFIX_CHARS_MAX:
        prefix, mark, rest = "", "", api_key
    if len(rest) < 4 * KEY_TAIL_CHARS:
        return MASK
    return f"{prefix}{mark}{MASK}{rest[-KEY_TAIL_CHARS:]}"


@cache
def _traceparent_shape() -> re.Pattern[str]:
    return re.compile(_TRACEPARENT)  # compiled by the first request


def _span_id() -> str:
    return world().token_bytes(8).hex()
