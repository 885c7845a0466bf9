"""One exchange with an endpoint: what is sent, what comes back, and who sends it.

Delivery does not know HTTP itself. The code that runs it hands in a `Send`, which posts the body, follows no redirect,
reads no more of the reply than it must, and raises what the network raises.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.delivery.signing import HeaderPair

BODY_SHOWN_BYTES = 200
"""Number of bytes of a refusal's body that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A POST to an endpoint."""

    url: str
    headers: tuple[HeaderPair, ...] = field(repr=False)
    body: bytes = field(repr=False)
    timeout_s: float
    """For the whole exchange."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the endpoint answered."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    """The beginning of it; `BODY_SHOWN_BYTES` are enough."""


class Send(Protocol):
    """Posts one request; a coroutine function, or a function that blocks."""

    def __call__(self, request: Outgoing, /) -> Awaitable[Reply] | Reply:
        """The reply, whatever its status.

        Raises:
            Exception: there was no reply; the catalog's classifier knows what it means.
        """
        ...
