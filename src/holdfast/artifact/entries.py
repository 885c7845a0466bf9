"""What Holdfast tells about artifacts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stored:
    """What a put, or a measurement, found out about an artifact."""

    name: str
    sha256: str
    """In hex."""
    bytes: int
    created: bool
    """False when the same content was there already, also from an earlier try whose reply was lost."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An artifact as the storage lists it."""

    name: str
    bytes: int
    modified_us: int
    """When it was stored, by the storage's clock."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some artifacts, in the storage's order."""

    entries: tuple[Entry, ...]
    after: str | None
    """What to ask the next page with; None on the last one."""
