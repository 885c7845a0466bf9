"""Where this system calls others: the engine, from a platform. One rule for the durable way and for the library."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from holdfast.catalog import Failure
from holdfast.delivery import Outgoing, Reply
from holdfast.guard import Link
from holdfast.http import ANYWHERE, Reach, WebhookSender
from holdfast.http.aside import aside
from holdfast.policy import Backoff, Retry
from holdfast_systems.credentials.settings import DELAYS_S, SenderSettings

RETRY_AFTER_MAX_S = 3_600.0
ADDRESS_REFUSED = "ADDRESS_REFUSED"
RATE_LIMITED = 429


def platform_to_engine(delays_s: tuple[float, ...] = DELAYS_S) -> Link:
    """A webhook, here and now: at once, then after 1, 2, 4 and 8 seconds. The client keeps the time of an attempt."""
    attempts = len(delays_s) + 1
    return Link(
        "platform → engine",
        retry=Retry(
            attempts=attempts,
            backoff=Backoff.listed(*(delays_s or (0.0,))),
            retry_after_max_s=RETRY_AFTER_MAX_S,
            # A 429 is waited for within the attempt, and spends none; when that took too long, it is final.
            when=lambda failure: failure.remote is None or failure.remote.status != RATE_LIMITED,
        ),
        writes=True,
    )


class EngineSender:
    """Posts deliveries: to public addresses, to those that the settings name, and to the engine wherever it is now.

    The engine's address is decided by the process that started last, which may be another one than this: a worker that
    knew only its own settings would refuse to call it, and every event would end as a dead letter.
    """

    keeps_time = True
    """As `WebhookSender`, of which it is two."""

    def __init__(self, reach: Reach, engine_url: Callable[[], str | None]) -> None:
        """
        Args:
            engine_url: where the engine is, by our own configuration; it may block.
        """
        self._careful = WebhookSender(reach=reach)
        self._own = WebhookSender(reach=ANYWHERE)
        self._engine_url = engine_url
        self._known: str | None = None
        """The engine's address as it was when it was asked for last."""

    async def __call__(self, request: Outgoing, /) -> Reply:
        """Post the body, and return the reply.

        Raises:
            Failure: there was no reply, or the address is refused; the fault says why.
        """
        if request.url == self._known:
            return await self._own(request)
        try:
            return await self._careful(request)
        except Failure as failure:
            if failure.code != ADDRESS_REFUSED:
                raise
            self._known = await aside(self._engine_url)
            if request.url != self._known:
                raise
        return await self._own(request)


def sender(settings: SenderSettings, *own: str, engine_url: Callable[[], str | None] = lambda: None) -> EngineSender:
    """What posts deliveries; `own` are URLs of our own that the settings name."""
    targets = {target(url) for url in own if url}
    return EngineSender(Reach(allowed=settings.allowed_targets | targets), engine_url)


def target(url: str) -> str:
    """The exact host and port of a URL, as the guard's list has them."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = (parts.hostname or "").lower()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
