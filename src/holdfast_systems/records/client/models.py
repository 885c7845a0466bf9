"""What the API answers, as values with types. Fields that a newer API adds are passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

Model = TypeVar("Model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One slot of a company; without a person it is free."""

    slot_uid: str
    role: str
    person_uid: str | None = None
    full_name: str | None = None
    assigned_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedCompany:
    """A company that was created with its slots."""

    company_uid: str
    status: str
    slots_created: int
    created_at: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """A company with its slots."""

    company_uid: str
    name: str
    website: str | None
    industry: str | None
    created_at: str
    changed_at: str
    title: str | None = None
    description: str | None = None
    contact_emails: tuple[str, ...] = ()
    social_links: tuple[str, ...] = ()
    enriched_at: str | None = None
    slots: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedPerson:
    """A person who was created."""

    person_uid: str
    company_uid: str
    status: str
    created_at: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person of a company."""

    person_uid: str
    company_uid: str
    full_name: str
    email: str
    role: str | None
    created_at: str
    changed_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A slot as it is now, or the review that a person has to decide."""

    slot_uid: str
    status: str
    person_uid: str | None = None
    previous_occupant: str | None = None
    current_occupant: str | None = None
    review_id: str | None = None
    assigned_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """An assignment that a person decides about."""

    review_id: str
    slot_uid: str
    person_uid: str
    current_occupant: str
    status: str
    created_at: str
    decided_at: str | None = None
    decided_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The verification of an e-mail address."""

    verification_id: str
    email: str
    status: str
    provider: str | None = None
    result: str | None = None
    details: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    cached: bool = False

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.status != "queued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrichment:
    """What was found on a company's website."""

    enrichment_id: str
    company_uid: str
    status: str
    outcome: str | None = None
    reason: str | None = None
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.status != "queued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """An import, and how far it has come."""

    import_id: str
    status: str
    rows_total: int
    rows_succeeded: int
    rows_failed: int
    progress: float = 0.0
    error: Mapping[str, Any] | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.status in ("complete", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRow:
    """What became of one row."""

    row: int
    status: str
    uid: str | None = None
    error_code: str | None = None
    message: str | None = None
    details: Mapping[str, Any] | None = field(default=None)


def model(kind: type[Model], document: Mapping[str, Any]) -> Model:
    """The document as a value of this type."""
    known = {part.name for part in fields(kind)}  # type: ignore[arg-type]  # every model is a dataclass
    values = {name: _value(name, value) for name, value in document.items() if name in known}
    return kind(**values)


def _value(name: str, value: Any) -> Any:
    if name == "slots":
        return tuple(model(Slot, one) for one in value)
    return tuple(value) if isinstance(value, list) else value
