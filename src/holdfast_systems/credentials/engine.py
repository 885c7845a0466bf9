"""The engine without its HTTP: from a platform's headers and bytes to an answer.

The order is always address → size → signature → rate limit → payload → effect, so that each step is paid for only by
what the step before let through. Sending anything again is always safe.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from holdfast.base import Secret, now_us
from holdfast.catalog import Dialect, Failure
from holdfast.delivery import BodyHmac, Incoming, Receiver
from holdfast.guard import Answer
from holdfast.http.client_address import Address, Network, within
from holdfast.policy import Limited
from holdfast.store import Store
from holdfast_systems.credentials import payload
from holdfast_systems.credentials.faults import (
    CREDENTIALS,
    FORBIDDEN,
    INTERNAL_ERROR,
    NOT_FOUND,
    SERVICE_UNAVAILABLE,
)
from holdfast_systems.credentials.model import Event
from holdfast_systems.credentials.refusal_log import RefusalLog
from holdfast_systems.credentials.settings import PlatformSettings, Settings
from holdfast_systems.credentials.steps import Outcome, Processor
from holdfast_systems.credentials.window import Window

BYTES_MAX = 1_048_576
AWAY_S = 5.0
"""When the database is away, senders are asked to come back after this time."""
MAINTENANCE_S = 60.0
LARGE_BYTES = 65_536
"""A larger body is read in a thread: it would hold up all others."""
REPLAYED = ("Idempotent-Replayed", "true")

_LOG = logging.getLogger("holdfast.credentials")


class Engine:
    """Takes the webhooks of all platforms. Threads may share it."""

    def __init__(self, store: Store, settings: Settings, secrets: Mapping[str, Sequence[Secret]]) -> None:
        """
        Args:
            secrets: those in force for each platform.
        """
        self.store = store
        self.settings = settings
        self.processor = Processor(store)
        self.refusal_log = RefusalLog(store)
        self._receivers = {name: _receiver(store, name, one, secrets[name]) for name, one in settings.platforms.items()}

    @property
    def platforms(self) -> Sequence[str]:
        """The names of those who may send."""
        return list(self._receivers)

    @property
    def trusted_proxies(self) -> Sequence[Network]:
        return self.settings.trusted_proxies

    def admit(self, platform: str, address: Address | None) -> None:
        """Admit a sender by its platform and address, before a byte of the body is read.

        Raises:
            Failure: NOT_FOUND, FORBIDDEN; SERVICE_UNAVAILABLE during maintenance.
        """
        known = self.settings.platforms.get(platform)
        if known is None:
            raise NOT_FOUND(platform=platform[:50])
        if known.networks and not within(address, known.networks):
            raise FORBIDDEN(platform=platform, address="an unknown address" if address is None else str(address))
        if self.settings.maintenance:
            raise SERVICE_UNAVAILABLE(retry_after_s=MAINTENANCE_S)

    async def receive(self, platform: str, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Answer:
        """The answer to a request of a platform that was admitted. Never raises an `Exception`."""

        async def handle(incoming: Incoming) -> Answer:
            return await self._handle(platform, incoming)

        return await self._receivers[platform].receive_async(headers, body, handle)

    async def _handle(self, platform: str, incoming: Incoming) -> Answer:
        large = len(incoming.body) > LARGE_BYTES
        read = await asyncio.to_thread(_read, platform, incoming) if large else _read(platform, incoming)
        try:
            if isinstance(read, Event):
                return _answer(await self.processor.process(read))
            # What was good when it came first may have grown too old since; a repeat gets the first answer.
            event_id, refusal = read
            outcome = await asyncio.to_thread(self.processor.repeated, platform, event_id)
            if outcome is None:
                raise refusal
        except Failure as failure:
            raise answerable(failure) from failure
        return _answer(outcome)


class _Careful:
    """The window, whose troubles with the database are answered like all others."""

    def __init__(self, window: Window) -> None:
        self.limit = window.limit
        self._window = window

    def take(self) -> Limited | None:
        try:
            return self._window.take()
        except Failure as failure:
            raise answerable(failure) from failure

    def try_take(self) -> tuple[bool, Limited | None]:
        return self._window.try_take()


def answerable(failure: Failure) -> Failure:
    """The failure under a code of the contract: what a sender may try again is SERVICE_UNAVAILABLE, with a time."""
    if failure.fault.catalog == CREDENTIALS.name:
        return failure
    if failure.retryable or failure.status == SERVICE_UNAVAILABLE.status:
        return SERVICE_UNAVAILABLE(retry_after_s=failure.retry_after_s or AWAY_S)
    _LOG.error("%s: %s", failure.code, failure.technical)
    return INTERNAL_ERROR()


def _receiver(store: Store, name: str, settings: PlatformSettings, secrets: Sequence[Secret]) -> Receiver:
    # Without a store of its own: repeats are recognised in the very transaction that has the effect.
    return Receiver(
        BodyHmac(),
        secrets=tuple(secrets),
        limit=_Careful(Window(store, name, settings.limit)),
        bytes_max=BYTES_MAX,
        dialect=Dialect.FLAT,
        tenant=name,
        source=name,
        report=lambda error: _LOG.error("a webhook of %s met an exception", name, exc_info=error),
    )


def _read(platform: str, incoming: Incoming) -> Event | tuple[str, Failure]:
    """The event of a request; or its id, and why it is not good.

    Raises:
        Failure: it has no id that could be read.
    """
    document = payload.parsed(incoming.body)
    event_id = payload.event_id_of(document)
    incoming.known_as(event_id)
    try:
        return payload.read_event(platform, event_id, document, now_us())
    except Failure as failure:
        return event_id, failure


def _answer(outcome: Outcome) -> Answer:
    answer = Answer.of_json(outcome.result, status=outcome.status)
    return Answer(answer.status, (*answer.headers, REPLAYED), answer.body) if outcome.repeated else answer
