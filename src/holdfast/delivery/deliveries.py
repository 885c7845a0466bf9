"""Webhooks out: endpoints, events, and the jobs that bring the one to the other.

```python
deliveries = Deliveries(store, jobs)
deliveries.endpoints.add("https://example.com/hook", event_types=["order.*"])
deliveries.publish("order.paid", {"order": 7})
Worker(store, deliveries.handlers(send), queues=[deliveries.queue()]).run()
```

An event is told at least once: a worker that dies between the reply and its own note of it sends again, under the same
id. Each event has one id through all attempts and at all endpoints; each attempt is signed afresh.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.base import Json, is_asynchronous, limits, new_id
from holdfast.base.arguments import instance, numeric, refused
from holdfast.catalog import current_context
from holdfast.delivery.admission import ENDPOINT_BREAKER
from holdfast.delivery.body_hmac import BodyHmac
from holdfast.delivery.dead import DELIVERIES_MAX, UndeliveredEvents
from holdfast.delivery.deliver import LIMITED_WITHIN_S, STATUS, Deliverer
from holdfast.delivery.drive import drive, drive_async, in_time
from holdfast.delivery.endpoint import SCHEDULE_S
from holdfast.delivery.endpoints import Endpoints, owner
from holdfast.delivery.exchange import Send
from holdfast.delivery.faults import EVENT_NOT_FOUND
from holdfast.delivery.place import WaitingRoom
from holdfast.delivery.pruning import PRUNE_MAX, prune
from holdfast.delivery.publishing import NAME, NewEvent, Published, channel, key_of, prepared, publish
from holdfast.delivery.signing import Signer
from holdfast.delivery.standard import StandardWebhooks
from holdfast.delivery.together import PublishedTogether
from holdfast.policy import Backoff, Breaker, Retry
from holdfast.store import Store, Tx
from holdfast.store.transaction import refuse_connection
from holdfast.worker import Handlers, Job, Jobs, QueueSettings

CONCURRENCY = 100
WAITING_SHARE = 2
"""At most one in this many of the concurrent deliveries may wait for room at its endpoint: the others go on."""
SCHEMES: Mapping[str, Signer] = {"standard": StandardWebhooks(), "body-hmac": BodyHmac()}
"""The schemes that an endpoint may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event on its way to one endpoint, with everything that happened."""

    endpoint_id: str
    job_id: str
    state: str | None
    """As the job's; None when the job was pruned, which only happens to what was delivered."""
    attempts: int
    error_code: str | None
    error_message: str | None
    events: Sequence[dict[str, Any]]
    """The journal, its first `page_rows_max` lines: each attempt with its time, duration, code and the endpoint's
    status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHistory:
    """An event, and what became of it at each endpoint."""

    id: str
    type: str
    key: str | None
    tenant: str
    payload: Json
    created_us: int
    deliveries: Sequence[Delivery]


class Deliveries:
    """Webhooks of a store. Threads may share it.

    With a tenant it is that tenant's alone: it publishes, lists, shows and replays nothing of others. A worker's is
    everybody's. Event ids are a tenant's own.

    Two of them on one store, each with a name, have their own queue, handler and undelivered events, and so a worker
    and a sender of their own. Endpoints and events are the store's: an event is told to all endpoints of its tenant,
    whichever of the two added them, and its id is taken for both. Give each its own tenants where they must not meet.
    """

    def __init__(
        self,
        store: Store,
        jobs: Jobs,
        *,
        name: str = NAME,
        tenant: str | None = None,
        schemes: Mapping[str, Signer] = SCHEMES,
        breaker: Breaker | None = ENDPOINT_BREAKER,
        rate_limited_max_s: float = LIMITED_WITHIN_S,
    ) -> None:
        """
        Args:
            name: the queue and the kind of its jobs follow from it, as `webhooks` and `webhook.deliver` do.
            tenant: whose endpoints and events; those of others are not there. None is everybody's.
            schemes: by the names that endpoints use.
            breaker: for each endpoint, shared by all processes; while it is open, events wait and spend no attempt.
            rate_limited_max_s: how long after its first attempt an event that meets 429 is tried again, which spends no
                attempt; then it is given up.

        Raises:
            ArgumentInvalid: names the part that cannot be meant.
            ValueError: the name is not valid.
        """
        instance("jobs", jobs, Jobs, "write Deliveries(store, Jobs(store))")
        if breaker is not None:
            instance("breaker", breaker, Breaker, "write breaker=Breaker(), or None for none")
        instance("schemes", schemes, Mapping, 'write {"standard": StandardWebhooks()}')
        for scheme, signer in schemes.items():
            if not hasattr(signer, "sign"):
                raise refused(f"schemes[{scheme!r}]", signer, "give a signer such as StandardWebhooks()")
        numeric("rate_limited_max_s", rate_limited_max_s)
        self.store = store
        self.jobs = jobs
        self._limited_within_s = rate_limited_max_s
        self.tenant = tenant
        self._channel = channel(name)
        self.endpoints = Endpoints(store, schemes, tenant=tenant)
        self.undelivered = UndeliveredEvents(store, self._channel, tenant=tenant)
        self._schemes = schemes
        self._breaker = breaker
        self._room = WaitingRoom(CONCURRENCY // WAITING_SHARE)
        self._together = PublishedTogether(store, jobs, self._channel)

    def publish(
        self,
        event_type: str,
        payload: Json,
        *,
        id: str | None = None,
        key: str | None = None,
        tenant: str | None = None,
        raw: bool = False,
        tx: Tx | None = None,
    ) -> Published:
        """Tell everybody who wants to know; it is on disk when this returns, or with the caller's transaction.

        What is sent is the Standard Webhooks envelope: `{"type": …, "timestamp": …, "data": payload}`.

        Args:
            event_type: such as `order.paid`; endpoints choose by it.
            id: of your own, so that publishing twice is publishing once; without one, one is made.
            key: endpoints that are `ordered` get the events of one key one after the other.
            tenant: whose event it is, and whose endpoints are told; of one tenant's deliveries only that one.
            raw: send the payload itself, without the envelope, where a contract asks for it.
            tx: what `store.join(connection)` returns, or `store.atomic` hands over.

        Raises:
            Failure: BAD_REQUEST names the field; EVENT_TOO_LARGE; EVENT_ID_TAKEN; or the database's own failure.
        """
        owned_by = owner(self.tenant, tenant)
        known = {} if id is None else {"id": id}
        event = NewEvent(event_type, payload, key=key, tenant=owned_by, raw=raw, **known)
        if tx is not None:
            return self.publish_many([event], tx=tx)[0]
        return self._together.publish(prepared([event])[0], current_context())

    def publish_many(self, events: Sequence[NewEvent], *, tx: Tx | None = None) -> list[Published]:
        """Many at once, in one transaction.

        Raises:
            Failure: as `publish`; nothing is published then.
        """
        if self.tenant is not None:
            events = [replace(event, tenant=owner(self.tenant, event.tenant)) for event in events]
        rows = prepared(events)
        if not rows:
            return []
        published_by = new_id()

        if tx is not None:
            refuse_connection(tx)

        def phase(here: Tx) -> list[Published]:
            return publish(here, self.jobs, rows, published_by, by=self._channel)

        made = self.store.atomic(phase, repeatable=True) if tx is None else phase(tx)
        found = {key_of(row): one for row, one in zip(rows, made, strict=True)}
        return [found[event.tenant, event.id] for event in events]

    def handlers(self, send: Send, into: Handlers | None = None) -> Handlers:
        """What a worker needs to make deliveries, beside its other handlers where it has some."""
        handlers = Handlers() if into is None else into
        # An endpoint has a schedule of its own; this one is for what goes wrong before the endpoint is known.
        rule = Retry(
            attempts=len(SCHEDULE_S) + 1,
            attempts_unknown=len(SCHEDULE_S) + 1,
            backoff=Backoff.listed(*SCHEDULE_S),
            retry_after_max_s=limits().delay_s_max,
        )

        deliverer = Deliverer(self._schemes, self._breaker, rule, self._room, limited_within_s=self._limited_within_s)
        if is_asynchronous(send):
            sender = in_time(send)

            @handlers.handle(self._channel.kind, retry=rule)
            async def deliver_async(job: Job) -> Any:
                return await drive_async(self.store, sender, deliverer.deliver(job))
        else:

            @handlers.handle(self._channel.kind, retry=rule)
            def deliver(job: Job) -> Any:
                return drive(self.store, send, deliverer.deliver(job))

        return handlers

    def queue(self, concurrency: int = CONCURRENCY) -> QueueSettings:
        """The queue that a worker serves; several times what one endpoint may have open keeps it fair."""
        self._room.most = concurrency // WAITING_SHARE
        return QueueSettings(self._channel.queue, concurrency=concurrency)

    def history(self, event_id: str, *, tenant: str | None = None) -> EventHistory:
        """Everything that happened to an event.

        Args:
            tenant: whose it is, as in `publish`.

        Raises:
            Failure: EVENT_NOT_FOUND.
        """

        wanted = {"tenant": owner(self.tenant, tenant), "event_id": event_id}

        def phase(tx: Tx) -> EventHistory:
            found = tx.records("delivery.event", **wanted)
            if not found:
                raise EVENT_NOT_FOUND(event_id=event_id)
            rows = tx.records("delivery.deliveries", **wanted, most=DELIVERIES_MAX)
            told = [_delivery(tx, row) for row in rows]
            event = found[0]
            return EventHistory(payload=json.loads(event.pop("body")), deliveries=told, **event)

        return self.store.atomic(phase, write=False)

    def prune(self, *, older_s: float, count: int = PRUNE_MAX) -> int:
        """Delete events of which every delivery came through, this old or older, at most `count`; returns how many.

        Workers do it by themselves, for events older than a week; `Retention(others_s={"webhook events": …})` says
        otherwise.
        """
        return prune(self.store, older_s, count)


def _delivery(tx: Tx, row: dict[str, Any]) -> Delivery:
    events = tx.records("job.history", id=row["job_id"], after=-1, count=limits().page_rows_max)
    for event in events:
        if event["verb"] == "finished":
            # Finishing writes no status to the journal: it stands in the result, at no further cost.
            event["upstream_status"] = _status(row["result"])
    return Delivery(
        endpoint_id=row["endpoint_id"],
        job_id=row["job_id"],
        state=row["state"],
        attempts=row["attempt_count"] or 0,
        error_code=row["error_code"],
        error_message=row["error_message"],
        events=events,
    )


def _status(result: str | None) -> int | None:
    """What the endpoint answered; None where that was not kept."""
    kept = None if result is None else json.loads(result)
    found = kept.get(STATUS) if isinstance(kept, dict) else None
    return found if isinstance(found, int) else None
