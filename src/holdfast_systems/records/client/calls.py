"""The calls of the API as values: what is asked, and how the answer is read. Both clients send the same ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from holdfast.base import encode
from holdfast.http import FileBody
from holdfast_systems.records.client.models import (
    Assignment,
    Company,
    CreatedCompany,
    CreatedPerson,
    Enrichment,
    Import,
    ImportRow,
    Person,
    Review,
    Verification,
    model,
)

T = TypeVar("T")
JSON = "application/json"
BYTES_PER_S_MIN = 1_000_000
"""Lowest transfer rate at which a file is still given enough time to arrive."""
TYPES = {"ndjson": "application/x-ndjson", "csv": "text/csv"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One call: a read may be repeated as it is, a write under its key."""

    method: str
    path: str
    read: Callable[[Mapping[str, Any]], T]
    body: bytes | FileBody | None = field(default=None, repr=False)
    content_type: str = JSON
    takes_s: float = 0.0
    """How long the body may take to send, besides the usual time."""

    @property
    def writes(self) -> bool:
        """Whether the call changes something."""
        return self.method != "GET"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list, and the cursor of the next."""

    entries: tuple[T, ...]
    next_cursor: str | None


def create_company(name: str, website: str | None, industry: str | None) -> Call[CreatedCompany]:
    body = _given(name=name, website=website, industry=industry)
    return _write("POST", "/companies", CreatedCompany, body)


def company(company_uid: str) -> Call[Company]:
    return _read(f"/companies/{_part(company_uid)}", Company)


def change_company(company_uid: str, changes: Mapping[str, Any]) -> Call[Company]:
    return _write("PATCH", f"/companies/{_part(company_uid)}", Company, changes)


def remove_company(company_uid: str) -> Call[None]:
    return Call(method="DELETE", path=f"/companies/{_part(company_uid)}", read=_nothing)


def companies(cursor: str | None, limit: int, q: str | None) -> Call[Page[Company]]:
    return _page("companies", Company, cursor=cursor, limit=limit, q=q)


def create_person(company_uid: str, full_name: str, email: str, role: str | None) -> Call[CreatedPerson]:
    body = _given(company_uid=company_uid, full_name=full_name, email=email, role=role)
    return _write("POST", "/people", CreatedPerson, body)


def person(person_uid: str) -> Call[Person]:
    return _read(f"/people/{_part(person_uid)}", Person)


def change_person(person_uid: str, changes: Mapping[str, Any]) -> Call[Person]:
    return _write("PATCH", f"/people/{_part(person_uid)}", Person, changes)


def remove_person(person_uid: str) -> Call[None]:
    return Call(method="DELETE", path=f"/people/{_part(person_uid)}", read=_nothing)


def people(cursor: str | None, limit: int, q: str | None, company_uid: str | None) -> Call[Page[Person]]:
    return _page("people", Person, cursor=cursor, limit=limit, q=q, company_uid=company_uid)


def assign_slot(slot_uid: str, person_uid: str, on_conflict: str) -> Call[Assignment]:
    body = {"person_uid": person_uid, "on_conflict": on_conflict}
    return _write("PUT", f"/slots/{_part(slot_uid)}", Assignment, body)


def free_slot(slot_uid: str) -> Call[Assignment]:
    return Call(method="DELETE", path=f"/slots/{_part(slot_uid)}", read=lambda found: model(Assignment, found))


def reviews(cursor: str | None, limit: int, status: str | None) -> Call[Page[Review]]:
    return _page("reviews", Review, cursor=cursor, limit=limit, status=status)


def decide_review(review_id: str, decision: str) -> Call[Review]:
    path = f"/reviews/{_part(review_id)}/{decision}"
    return Call(method="POST", path=path, read=lambda found: model(Review, found))


def ask_verification(email: str | None, person_uid: str | None) -> Call[Verification]:
    return _write("POST", "/verifications", Verification, _given(email=email, person_uid=person_uid))


def verification(verification_id: str) -> Call[Verification]:
    return _read(f"/verifications/{_part(verification_id)}", Verification)


def ask_enrichment(company_uid: str) -> Call[Enrichment]:
    return _write("POST", "/enrichments", Enrichment, {"company_uid": company_uid})


def enrichment(enrichment_id: str) -> Call[Enrichment]:
    return _read(f"/enrichments/{_part(enrichment_id)}", Enrichment)


def send_import(content: bytes | FileBody, format: str) -> Call[Import]:
    return Call(
        method="POST",
        path="/imports",
        read=lambda found: model(Import, found),
        body=content,
        content_type=TYPES[format],
        takes_s=len(content) / BYTES_PER_S_MIN,
    )


def import_(import_id: str) -> Call[Import]:
    return _read(f"/imports/{_part(import_id)}", Import)


def import_rows(import_id: str, cursor: str | None, limit: int, status: str | None) -> Call[Page[ImportRow]]:
    return _page(f"imports/{_part(import_id)}/rows", ImportRow, name="rows", cursor=cursor, limit=limit, status=status)


def _read(path: str, kind: type[T]) -> Call[T]:
    return Call(method="GET", path=path, read=lambda found: model(kind, found))


def _write(method: str, path: str, kind: type[T], body: Mapping[str, Any]) -> Call[T]:
    return Call(method=method, path=path, read=lambda found: model(kind, found), body=encode(dict(body)).encode())


def _page(path: str, kind: type[T], *, name: str = "", **query: Any) -> Call[Page[T]]:
    def read(found: Mapping[str, Any]) -> Page[T]:
        return Page(tuple(model(kind, one) for one in found[name or path]), found["next_cursor"])

    asked = urlencode({key: value for key, value in query.items() if value is not None})
    return Call(method="GET", path=f"/{path}?{asked}", read=read)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _part(text: str) -> str:
    return quote(text, safe="")


def _nothing(found: Mapping[str, Any]) -> None:  # noqa: ARG001 - it was done, and that is all
    return None
