"""Publishing: an event, and a job for each endpoint that wants it, all in one transaction."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from holdfast.base import Json, SecretLeak, encode, limits, now_us, prefixed_id
from holdfast.base.arguments import is_a
from holdfast.base.codec import why_no_json
from holdfast.catalog.context import Context, current_context, enter_context, leave_context
from holdfast.catalog.core import BAD_REQUEST
from holdfast.delivery.endpoint import TYPE_SHAPE, wants
from holdfast.delivery.endpoints import ENDPOINTS_MAX
from holdfast.delivery.envelope import wrapped
from holdfast.delivery.faults import EVENT_ID_TAKEN, EVENT_TOO_LARGE
from holdfast.store import Row, Tx
from holdfast.worker import Enqueued, Jobs, NewJob, sequences

NAME = "webhook"
EVENT_BYTES_MAX = 1_048_576
INLINE_BYTES_MAX = 32_768
"""A payload up to this size travels with its job, so that a delivery reads nothing; a larger one is read when due."""
EVENTS_MAX = 1_000
"""Maximum number of events that are published in one call."""
NAME_CHARS_MAX = 200

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
# Also fit to stand in a header, and without a full stop: see Standard Webhooks.
_ID = re.compile(r"[A-Za-z0-9_:+/=-]{1,100}\Z")


EventKey = tuple[str, str]
"""The tenant and the id of an event."""


@dataclass(frozen=True, slots=True)
class Channel:
    """How the jobs of one `Deliveries` are told from those of another."""

    queue: str
    kind: str


def channel(name: str) -> Channel:
    """The queue and the kind that follow from a name: `webhook` has the queue `webhooks` and `webhook.deliver`.

    Raises:
        ValueError: the name cannot stand in front of both.
    """
    if not is_a(name, str) or not _NAME.match(name):
        raise ValueError(f"{name!r} is not a name for deliveries: 1 to 64 letters, digits, dashes and underscores")
    return Channel(f"{name}s", f"{name}.deliver")


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Something that happened, to be told."""

    type: str
    payload: Json
    id: str = field(default_factory=lambda: new_event_id())
    """One through all attempts and at all endpoints; the same id of the same tenant again is the same event."""
    key: str | None = None
    """At endpoints that want order, events of one key are sent one after the other."""
    tenant: str = ""
    """Whose endpoints are told."""
    raw: bool = False
    """Send the payload itself, where a contract asks for it, instead of the Standard Webhooks envelope around it."""


@dataclass(frozen=True, slots=True)
class Published:
    """An event that is on disk, or will be with the caller's transaction."""

    id: str
    created: bool
    """False when it was published before."""
    endpoint_ids: tuple[str, ...] = ()
    """Who is told, where this call created it."""


@dataclass(frozen=True, slots=True)
class _Receiver:
    id: str
    event_types: tuple[str, ...]
    attempts: int
    ordered: bool


USUAL = channel(NAME)
QUEUE, KIND = USUAL.queue, USUAL.kind
"""Those of deliveries that have no name of their own."""


def key_of(row: Row) -> EventKey:
    """What tells an event from all others: its tenant and its id."""
    return row[1], row[0]


def new_event_id() -> str:
    """Such as `evt_a1b2c3d4e5f6789a`."""
    return prefixed_id("evt")


def prepared(events: Sequence[NewEvent]) -> list[Row]:
    """The events as the table takes them, each id once.

    Raises:
        Failure: BAD_REQUEST names the field; EVENT_TOO_LARGE; EVENT_ID_TAKEN when two of them share an id.
    """
    if len(events) > EVENTS_MAX:
        raise BAD_REQUEST("{count} events are more than one call takes: {most}.", count=len(events), most=EVENTS_MAX)
    rows: dict[EventKey, Row] = {}
    for event in events:
        row = _checked(event)
        if not _same(rows.setdefault(key_of(row), row), row):
            raise EVENT_ID_TAKEN(event_id=event.id)
    return list(rows.values())


def publish(
    tx: Tx,
    jobs: Jobs,
    rows: Sequence[Row],
    published_by: str,
    contexts: Sequence[Context] | None = None,
    *,
    by: Channel = USUAL,
) -> list[Published]:
    """Write the events that are new, and a job for each endpoint that wants one.

    Args:
        by: whose jobs they are.
        contexts: where each event was published; without them, all were published here.

    Raises:
        Failure: EVENT_ID_TAKEN when an id was used for something else before.
    """
    inserted = tx.many("delivery.publish", rows, published_by=published_by)
    new = {key_of(row) for row in rows}
    if inserted < len(rows):
        new = _told_apart(tx, rows, published_by)
        if not inserted:
            new = set()  # an earlier try of this very call came through whole
    here = current_context()
    where = {key_of(row): context for row, context in zip(rows, contexts or [here] * len(rows), strict=True)}
    told = _enqueue(tx, jobs, by, [row for row in rows if key_of(row) in new], where)
    return [Published(row[0], key_of(row) in new, tuple(told.get(key_of(row), ()))) for row in rows]


def _told_apart(tx: Tx, rows: Sequence[Row], published_by: str) -> set[EventKey]:
    """The events that this call has written; the others must say the same as what is there."""
    stored: dict[EventKey, Row] = {}
    for tenant in {row[1] for row in rows}:
        ids = [row[0] for row in rows if row[1] == tenant]
        stored |= {key_of(row): row for row in tx.rows("delivery.published", tenant=tenant, ids=ids)}
    for row in rows:
        if not _same(stored[key_of(row)], row):
            raise EVENT_ID_TAKEN(event_id=row[0])
    return {key for key, row in stored.items() if row[6] == published_by}


def _same(one: Row, other: Row) -> bool:
    """Whether two rows say the same; when it happened is that of the first."""
    return one[:5] == other[:5] and (one[5] is None) == (other[5] is None)


def _enqueue(
    tx: Tx, jobs: Jobs, by: Channel, rows: Sequence[Row], where: Mapping[EventKey, Context]
) -> dict[EventKey, list[str]]:
    receivers = {tenant: _receivers(tx, tenant) for tenant in {row[1] for row in rows}}
    pairs = [(row, to) for row in rows for to in receivers[row[1]] if wants(to.event_types, row[2])]
    if not pairs:
        return {}
    asked = [(_job(by, row, to), where[key_of(row)]) for row, to in pairs]
    made = _enqueued(tx, jobs, asked)
    plan = []
    told: dict[EventKey, list[str]] = {}
    for (row, to), job in zip(pairs, made, strict=True):
        plan.append((row[1], row[0], to.id, job.id))
        told.setdefault(key_of(row), []).append(to.id)
    tx.many("delivery.plan", plan)
    return told


def _enqueued(tx: Tx, jobs: Jobs, asked: Sequence[tuple[NewJob, Context]]) -> list[Enqueued]:
    """The jobs, each as part of the trace in which its event was published; as few statements as that allows."""
    most = limits().enqueue_batch_max
    ordered = Counter(job.sequence for job, _ in asked if job.sequence is not None)
    if len(ordered) > 1:
        # All of them before the first statement that needs one: two who publish at once never wait crosswise.
        sequences.reserve(tx, Counter(dict.fromkeys(ordered, 0)))
    made: dict[int, Enqueued] = {}
    for _, group in groupby(enumerate(asked), key=lambda one: one[1][1].traceparent):
        members = list(group)
        for start in range(0, len(members), most):
            some = members[start : start + most]
            token = enter_context(some[0][1][1])
            try:
                found = jobs.enqueue_many([job for _, (job, _) in some], tx=tx)
            finally:
                leave_context(token)
            made |= {number: one for (number, _), one in zip(some, found, strict=True)}
    return [made[number] for number in range(len(asked))]


def _receivers(tx: Tx, tenant: str) -> list[_Receiver]:
    return [
        _Receiver(id_, tuple(json.loads(types)), len(json.loads(delays)) + 1, bool(ordered))
        for id_, types, delays, ordered in tx.rows("delivery.receivers", tenant=tenant, most=ENDPOINTS_MAX)
    ]


def _job(by: Channel, row: Row, to: _Receiver) -> NewJob:
    event_id, tenant, event_type, key, body, occurred_us = row
    payload: dict[str, Any] = {"event": event_id, "type": event_type, "endpoint": to.id}
    if occurred_us is not None:
        payload["occurred_us"] = occurred_us
    if len(body) <= INLINE_BYTES_MAX:
        payload["body"] = body
    sequence = f"webhook:{to.id}:{key}" if to.ordered and key is not None else None
    return NewJob(kind=by.kind, payload=payload, queue=by.queue, attempts=to.attempts, tenant=tenant, sequence=sequence)


def _checked(event: NewEvent) -> Row:
    if not (_is_name(event.type) and TYPE_SHAPE.match(event.type)):
        raise BAD_REQUEST("{field} is words with full stops between, such as order.paid.", field="type")
    if not (_is_name(event.id) and _ID.match(event.id)):
        raise BAD_REQUEST("{field} has 1 to 100 letters, digits and signs of _:+/=-.", field="id")
    for name, value, absent in (("key", event.key, None), ("tenant", event.tenant, "")):
        if value != absent and not _is_name(value):
            raise BAD_REQUEST("{field} has 1 to {most} printable characters.", field=name, most=NAME_CHARS_MAX)
    if not isinstance(event.raw, bool):
        raise BAD_REQUEST("{field} is true or false.", field="raw")
    occurred_us = None if event.raw else now_us()
    return (event.id, event.tenant, event.type, event.key, _body(event, occurred_us), occurred_us)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= NAME_CHARS_MAX and value.isprintable()


def _body(event: NewEvent, occurred_us: int | None) -> str:
    try:
        text = encode(event.payload)
    except SecretLeak:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        why = why_no_json(event.payload, error)
        raise BAD_REQUEST("{field} has no JSON form: {why}", field="payload", why=why) from error
    # What counts is what is sent. A character has at most four bytes: only long texts need the exact count.
    if len(text) <= EVENT_BYTES_MAX // 8:
        return text
    size = len(wrapped(event.type, occurred_us, text).encode())
    if size > EVENT_BYTES_MAX:
        raise EVENT_TOO_LARGE(bytes=size, bytes_max=EVENT_BYTES_MAX)
    return text
