"""A webhook that was received and whose signature fits: its headers, its body, and the event in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.base import CodecError, Json, decode
from holdfast.catalog import Failure, Fault
from holdfast.delivery.envelope import unwrapped
from holdfast.delivery.faults import INVALID_JSON
from holdfast.delivery.signing import RawHeaders, Verified


@dataclass(slots=True)
class Heard:
    """What is reported of a request to the listeners of the bus."""

    began_s: float
    event_id: str | None = None
    fault: Fault | None = None
    """What the handler failed with, where that is the answer; a repeat that gets it again is a repeat like any."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A genuine request."""

    headers: RawHeaders = field(repr=False)
    body: bytes = field(repr=False)
    verified: Verified
    _heard: Heard | None = field(default=None, repr=False, compare=False)
    _opened: list[tuple[str | None, Json]] = field(default_factory=list, repr=False, compare=False)

    @property
    def type(self) -> str | None:
        """The type of the event, such as `order.paid`, from its envelope; None when the body is not an envelope."""
        try:
            return self._open()[0]
        except Failure:
            return None

    @property
    def data(self) -> Json:
        """The payload: what is in the envelope, or the whole body as JSON when it is not one.

        Raises:
            Failure: INVALID_JSON.
        """
        return self._open()[1]

    def known_as(self, event_id: str) -> None:
        """Say which event it is, where only the handler finds out; the listeners of the bus are told."""
        if self._heard is not None:
            self._heard.event_id = event_id

    def json(self) -> Json:
        """The body as JSON.

        Raises:
            Failure: INVALID_JSON.
        """
        try:
            return decode(self.body, bytes_max=max(len(self.body), 1))
        except CodecError as broken:
            raise INVALID_JSON(reason=broken.reason, explanation=broken.explanation) from broken

    def _open(self) -> tuple[str | None, Json]:
        if not self._opened:
            document = self.json()
            self._opened.append(unwrapped(document) or (None, document))
        return self._opened[0]
