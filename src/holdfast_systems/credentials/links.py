"""Where this system calls others: the engine, from a platform. One rule for the durable way and for the library."""

from __future__ import annotations

from urllib.parse import urlsplit

from holdfast.guard import Link
from holdfast.http import Reach, WebhookSender
from holdfast.policy import Backoff, Retry
from holdfast_systems.credentials.settings import DELAYS_S, SenderSettings

RETRY_AFTER_MAX_S = 3_600.0


def platform_to_engine(delays_s: tuple[float, ...] = DELAYS_S) -> Link:
    """A webhook, here and now: at once, then after 1, 2, 4 and 8 seconds. The client keeps the time of an attempt."""
    attempts = len(delays_s) + 1
    return Link(
        "platform → engine",
        retry=Retry(
            attempts=attempts,
            backoff=Backoff.listed(*(delays_s or (0.0,))),
            retry_after_max_s=RETRY_AFTER_MAX_S,
        ),
        writes=True,
    )


def sender(settings: SenderSettings, *own: str) -> WebhookSender:
    """What posts deliveries: to public addresses, and to those that the settings or our own URLs name."""
    targets = {target(url) for url in own if url}
    return WebhookSender(reach=Reach(allowed=settings.allowed_targets | targets))


def target(url: str) -> str:
    """The exact host and port of a URL, as the guard's list has them."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = (parts.hostname or "").lower()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
