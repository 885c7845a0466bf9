"""Which dead letters are meant, and where a page of them begins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.catalog.core import BAD_REQUEST

LATEST_US = 2**63 - 1
EARLIEST_US = -(2**63)

Place = tuple[int, str]
"""When a letter died, and its id: they are kept in this order."""
NEWEST: Place = (LATEST_US, "")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFilter:
    """Which dead letters are meant; what is not given does not matter."""

    queue: str | None = None
    kind: str | None = None
    code: str | None = None
    tenant: str | None = None
    fingerprint: str | None = None
    text: str | None = None
    """Stands somewhere in the message or in the technical line; capitals do not matter."""
    since: datetime | None = None
    """Died at this time or later."""
    until: datetime | None = None
    """Died before this time."""

    def parameters(self, before_us: int = LATEST_US) -> dict[str, Any]:
        """As the statements take them; only letters that died before the given time.

        Raises:
            Failure: BAD_REQUEST when a time names no zone.
        """
        return {
            "queue": self.queue,
            "kind": self.kind,
            "code": self.code,
            "tenant": self.tenant,
            "fingerprint": self.fingerprint,
            "text": self.text,
            "since_us": _us("since", self.since, EARLIEST_US),
            "until_us": min(before_us, _us("until", self.until, LATEST_US)),
        }


def place_text(failed_us: int, job_id: str) -> str:
    """A place as a caller carries it."""
    return f"{failed_us}.{job_id}"


def place_of(text: str) -> Place:
    """The place that a page gave.

    Raises:
        Failure: BAD_REQUEST.
    """
    digits, dot, job_id = text.partition(".")
    if not (dot and job_id and digits.isascii() and digits.isdigit() and int(digits) <= LATEST_US):
        raise BAD_REQUEST("{field} is not what a page gave as the next one.", field="before")
    return int(digits), job_id


def _us(field: str, moment: datetime | None, otherwise: int) -> int:
    if moment is None:
        return otherwise
    if moment.tzinfo is None:
        raise BAD_REQUEST("{field} names no time zone.", field=field)
    return (moment - _EPOCH) // timedelta(microseconds=1)
