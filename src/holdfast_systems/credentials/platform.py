"""The platform without its HTTP: events are written down, then brought to the engine until they arrive.

An event is accepted when it is on disk together with the jobs that deliver it. What cannot be delivered is kept as a
dead letter with everything that happened, until somebody reprocesses it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import Json, Secret, canonical, decode, redacted_text, utc_text
from holdfast.catalog import Failure
from holdfast.delivery import Deliveries, Endpoint, EventHistory, new_event_id
from holdfast.delivery.faults import ENDPOINT_NOT_FOUND
from holdfast.operate import Actor
from holdfast.operate.bulk import Verb
from holdfast.operate.deliveries import Moved, move_oldest
from holdfast.store import Row, Store
from holdfast.worker import Jobs
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.faults import DEAD_LETTER_NOT_FOUND
from holdfast_systems.credentials.fields import EVENT_ID_CHARS_MAX, REQUIRED, Problem
from holdfast_systems.credentials.proof import invalid
from holdfast_systems.credentials.settings import SenderSettings

TENANT = "credentials"
"""Whose endpoints and events these are, among all that share the store."""
SCHEME = "body-hmac"
CONCURRENCY = 100
"""Maximum number of concurrent deliveries, all of them to one endpoint if there is only one."""
REPROCESSED = 10
PAGE_ROWS_MAX = 200
REASON_CHARS_MAX = 500
UNROUTED = "unrouted"
"""The status of an event that no endpoint wanted when it was accepted."""
HOME, HOME_URL = "endpoint", "engine_url"
"""The settings that say which endpoint is the engine's, and where the engine is: the last process to start decides."""

_ID = re.compile(rf"[A-Za-z0-9_:-]{{1,{EVENT_ID_CHARS_MAX}}}\Z")
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,49}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An event that was given up."""

    id: str
    event_id: str
    event_type: str
    payload: Json
    error_message: str
    error_code: str
    reason: str | None
    """Why the last attempt failed, in full: such as what is wrong with the endpoint's certificate or name."""
    status_code: int | None
    """What the endpoint answered last; None when it did not answer."""
    attempts: int
    last_attempt_at: str | None
    created_at: str
    endpoint_id: str
    failed_us: int

    def shown(self) -> dict[str, Any]:
        """As the API tells it."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "failed_us"}


class Platform:
    """Accepts events and answers for them. Threads may share it."""

    def __init__(self, store: Store, jobs: Jobs, settings: SenderSettings) -> None:
        self.store = store
        self.settings = settings
        self.deliveries = Deliveries(store, jobs)
        """Of everybody who shares the store: for its worker."""
        self.own = Deliveries(store, jobs, tenant=TENANT)

    def accept(self, document: Json) -> dict[str, Any]:
        """Write the event down and let it be delivered; the same event again is the same answer.

        Where no endpoint wants it, the answer says `unrouted`: it is on record, and goes nowhere.

        Raises:
            Failure: INVALID_PAYLOAD; EVENT_TOO_LARGE; EVENT_ID_TAKEN when its id says something else already.
        """
        event_id, event_type = _named(document)
        # In one spelling, so that the same event is recognised however its JSON was written.
        spelt = canonical({**document, "event_id": event_id}).encode()
        payload = decode(spelt, bytes_max=len(spelt))
        # The engine's contract has a body of its own, with the id and the type in it.
        published = self.own.publish(event_type, payload, id=event_id, raw=True)
        # A repeat is told to nobody anew: where the event went is known from the first time.
        routed = published.endpoint_ids if published.created else self.history(event_id).deliveries
        return {"event_id": event_id, "event_type": event_type, "status": "accepted" if routed else UNROUTED}

    def history(self, event_id: str) -> EventHistory:
        """Everything that happened to an event.

        Raises:
            Failure: EVENT_NOT_FOUND.
        """
        return self.own.history(event_id)

    def dead_letters(
        self,
        *,
        count: int,
        after: tuple[int, str] = (-1, ""),
        event_id: str | None = None,
        event_type: str | None = None,
        endpoint_id: str | None = None,
        error_code: str | None = None,
    ) -> Sequence[DeadLetter]:
        """A page of dead letters, the oldest first."""
        wanted = {"tenant": TENANT, "event_id": event_id, "event_type": event_type, "count": min(count, PAGE_ROWS_MAX)}
        wanted |= {"endpoint_id": endpoint_id, "error_code": error_code}
        wanted |= {"after_us": after[0], "after_id": after[1]}
        rows = self.store.atomic(lambda tx: tx.rows("credentials_platform.dead", **wanted), write=False)
        return [_letter(row) for row in rows]

    def dead_count(self) -> int:
        """How many dead letters there are."""
        found = self.store.atomic(lambda tx: tx.row("credentials_platform.count_dead", tenant=TENANT), write=False)
        return int(found[0]) if found else 0

    def reprocess(
        self,
        *,
        actor: Actor,
        limit: int | None = REPROCESSED,
        event_id: str | None = None,
        endpoint_id: str | None = None,
        reason: str | None = None,
    ) -> Moved:
        """Deliver dead letters again, the oldest first; two operators at once send each of them once.

        Those whose endpoint is disabled or removed are rejected by name: they stay as they are, and no alert is raised.

        Raises:
            Failure: DEAD_LETTER_NOT_FOUND when an event is named that is not among them; ENDPOINT_DISABLED or
                ENDPOINT_REMOVED when it is, or an endpoint is named, and nothing could be delivered for that reason.
        """
        moved = move_oldest(
            self.store,
            Verb.REVIVE,
            actor=actor,
            tenant=TENANT,
            limit=limit,
            event_id=event_id,
            endpoint_id=endpoint_id,
            reason=reason or "reprocessed",
        )
        return _found(moved, event_id)

    def discard(
        self,
        *,
        actor: Actor,
        event_id: str | None = None,
        endpoint_id: str | None = None,
        reason: str | None = None,
    ) -> Moved:
        """Delete the dead letters of an event or an endpoint; their history stays for as long as the journal is kept.

        Raises:
            Failure: DEAD_LETTER_NOT_FOUND when an event is named that is not among them; INVALID_PAYLOAD when neither
                is named.
        """
        if event_id is None and endpoint_id is None:
            raise invalid([Problem("event_id", REQUIRED)])
        moved = move_oldest(
            self.store,
            Verb.DISCARD,
            actor=actor,
            tenant=TENANT,
            event_id=event_id,
            endpoint_id=endpoint_id,
            reason=reason,
        )
        return _found(moved, event_id)

    def come_home(self, url: str, secret: Secret) -> str:
        """See to it that events go to this engine, signed with this secret; the endpoint's id.

        The address or the secret may have changed since the last start: the endpoint stays the same one.
        """
        endpoints = self.own.endpoints
        settings: dict[str, Any] = {
            "url": url,
            "delays_s": self.settings.delays_s,
            "timeout_s": self.settings.timeout_s,
            "in_flight_max": CONCURRENCY,
        }
        # Written before the endpoint has it: a worker must never meet an address that it would refuse.
        self.store.atomic(lambda tx: tables.put(tx, HOME_URL, url))
        held = self._home() or endpoints.show(self._make_home(secret, settings))
        if any(getattr(held, name) != value for name, value in settings.items()):
            held = endpoints.update(held.id, **settings)
        if secret not in [one.secret for one in held.secrets][:1]:
            endpoints.rotate_secret(held.id, secret=secret, overlap_s=0)
        self._leave_strays(held.id, url)
        return held.id

    def engine_url(self) -> str | None:
        """Where the engine is, as the process says that started last; None before any did."""
        return self._setting(HOME_URL)

    def has_endpoint(self) -> bool:
        """Whether events go anywhere at all."""
        return any(one.enabled for one in self.own.endpoints.list(count=PAGE_ROWS_MAX))

    def _home(self) -> Endpoint | None:
        """The engine's endpoint; None when there was none yet, or an operator has removed it."""
        home = self._setting(HOME)
        if home is None:
            return None
        try:
            return self.own.endpoints.show(home)
        except Failure as failure:
            if failure.code != ENDPOINT_NOT_FOUND.code:
                raise
        # Nobody else's is taken away: only the one that is gone.
        self.store.atomic(lambda tx: tables.unset(tx, HOME, home))
        return None

    def _make_home(self, secret: Secret, settings: dict[str, Any]) -> str:
        """The id of the engine's endpoint: a new one, unless another process is quicker."""
        endpoints = self.own.endpoints
        made = endpoints.add(secret=secret, scheme=SCHEME, **settings)
        winner = self.store.atomic(lambda tx: tables.settle(tx, HOME, made.id))
        if winner != made.id:
            endpoints.remove(made.id, reason="another process has added the same one")
        return winner

    def _setting(self, name: str) -> str | None:
        return self.store.atomic(lambda tx: tables.setting(tx, name), write=False)

    def _leave_strays(self, home: str, url: str) -> None:
        """A process that died while it added the endpoint left one behind that nobody knows."""
        for one in self.own.endpoints.list(count=PAGE_ROWS_MAX):
            if one.id != home and one.url == url and one.enabled:
                self.own.endpoints.disable(one.id, reason="it is there twice")


def _found(moved: Moved, event_id: str | None) -> Moved:
    if event_id is not None and not moved.done:
        raise DEAD_LETTER_NOT_FOUND(event_id=event_id)
    return moved


def _named(document: Json) -> tuple[str, str]:
    """The id and the type of an event; everything else in it is the receiver's to judge."""
    if not isinstance(document, dict):
        raise invalid([Problem("body", "type")])
    wrong = []
    event_type, event_id = document.get("event_type"), document.get("event_id")
    if event_type is None:
        wrong.append(Problem("event_type", REQUIRED))
    elif not isinstance(event_type, str) or not _TYPE.match(event_type):
        wrong.append(Problem("event_type", "format"))
    if event_id is not None and not (isinstance(event_id, str) and _ID.match(event_id)):
        wrong.append(Problem("event_id", "format"))
    if wrong:
        raise invalid(wrong)
    return event_id or new_event_id(), str(event_type)


def _letter(row: Row) -> DeadLetter:
    (job_id, event_id, event_type, body, code, message, reason, status, attempts, last_us, failed_us, endpoint_id) = row
    return DeadLetter(
        id=job_id,
        event_id=event_id,
        event_type=event_type,
        payload=decode(body),
        error_message=message,
        error_code=code,
        reason=None if reason is None else redacted_text(reason, REASON_CHARS_MAX),
        status_code=status,
        attempts=attempts,
        last_attempt_at=None if last_us is None else utc_text(last_us),
        created_at=utc_text(failed_us),
        endpoint_id=endpoint_id,
        failed_us=failed_us,
    )
