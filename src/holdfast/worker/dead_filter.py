"""Which dead letters are meant, and where a page of them begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from holdfast.base.formatting import us_of
from holdfast.catalog.core import BAD_REQUEST

LATEST_US = 2**63 - 1
EARLIEST_US = -(2**63)

Place = tuple[int, str]
"""When a letter died, and its id: they are kept in this order."""
NEWEST: Place = (LATEST_US, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFilter:
    """Which dead letters are meant; what is not given does not matter."""

    queue: str | None = None
    kind: str | None = None
    code: str | None = None
    remote_code: str | None = None
    """The upstream's own code."""
    tenant: str | None = None
    endpoint: str | None = None
    """Only deliveries to this webhook endpoint."""
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
            "remote_code": self.remote_code,
            "tenant": self.tenant,
            "endpoint": self.endpoint,
            "fingerprint": self.fingerprint,
            "text": self.text,
            "since_us": _us("since", self.since, EARLIEST_US),
            "until_us": min(before_us, _us("until", self.until, LATEST_US)),
        }

    def words(self) -> str:
        """As a subject in the audit: `dead: code=NETWORK_TIMEOUT queue=mail`."""
        named = " ".join(f"{name}={value}" for name, value in self.document().items())
        return f"dead: {named or 'all'}"

    def document(self) -> dict[str, str]:
        """What is given, as JSON can say it."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in given.items()
            if value is not None
        }

    @classmethod
    def of_document(cls, document: Mapping[str, str]) -> DeadFilter:
        """The filter that `document` told."""
        times = {name: datetime.fromisoformat(document[name]) for name in ("since", "until") if name in document}
        texts: dict[str, Any] = {**document, **times}
        return cls(**texts)


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
    return us_of(moment)
