"""How calls are sent: their headers, their keys, and how an answer becomes a result or a failure. Pure but for ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from holdfast.base import Secret, new_id
from holdfast.catalog import Failure, parse
from holdfast.guard import Link
from holdfast.http import FileBody, Pool, Reply, Timeouts
from holdfast_systems.records.client.calls import Call
from holdfast_systems.records.client.errors import RenderDBError, ours
from holdfast_systems.records.faults import RECORDS

T = TypeVar("T")

TIMEOUT_S = 300.0
"""For a call with all its attempts and the waits between them."""
ATTEMPT_S = 30.0
POLL_S = 0.25
POLL_S_MAX = 5.0
PAGE_ROWS = 100
POOL = Pool(connections_max=64, per_host_max=64)
TIMEOUTS = Timeouts(connect_s=5.0, read_s=ATTEMPT_S, total_s=ATTEMPT_S)
FAILED_FROM = 400


def new_link() -> Link:
    """The client's own side of the API: which failures are tried again, how often and when is the catalog's to say."""
    return Link("client → records", writes=True)


def headers_of(call: Call[T], key: Secret) -> Mapping[str, str]:
    """What every attempt of a call sends along."""
    sent = {"authorization": f"Bearer {key.reveal()}", "accept": "application/json"}
    return {**sent, "content-type": call.content_type} if call.body is not None else sent


def key_of(idempotency_key: str | None) -> str:
    """The key of a write, and the name of a read: the same through all attempts."""
    return idempotency_key or new_id()


def result(call: Call[T], reply: Reply) -> T:
    """What the API answered.

    Raises:
        Failure: what it refused with, under the rules of the catalog.
    """
    if reply.status >= FAILED_FROM:
        raise ours(parse(reply.body, status=reply.status, headers=reply.headers, catalog=RECORDS))
    try:
        return call.read(reply.json())
    except (KeyError, TypeError, AttributeError) as unreadable:
        raise RECORDS["INVALID_RESPONSE"](reason="shape", upstream_status=reply.status) from unreadable


def failed(failure: Failure) -> Failure:
    """A failure of the exchange under the rules of the catalog."""
    return ours(failure)


def too_late(call: Call[Any]) -> RenderDBError:
    """What was waited for did not end in time."""
    return RenderDBError.of(RECORDS["NETWORK_TIMEOUT"](phase="wait", path=call.path))


def content(given: bytes | Path) -> bytes | FileBody:
    """What is sent of it: a file is read while it is sent.

    Raises:
        OSError: there is no such file.
    """
    return FileBody(given) if isinstance(given, Path) else given


def options_of(call: Call[Any]) -> Any:
    """The body of a call and the time it may take, as the HTTP client takes them."""
    body = {} if call.body is None else {"body": call.body}
    if not call.takes_s:
        return body
    attempt_s = ATTEMPT_S + call.takes_s
    return {**body, "timeouts": replace(TIMEOUTS, read_s=attempt_s, total_s=attempt_s)}
