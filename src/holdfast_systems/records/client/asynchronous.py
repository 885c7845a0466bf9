"""The client for coroutines: the same calls as `Records`, to be awaited on one event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Self, TypeVar

from holdfast.base import Secret, world
from holdfast.catalog import Failure
from holdfast.http import ANYWHERE, HttpClient
from holdfast.policy import within
from holdfast_systems.records.client import calls, sending
from holdfast_systems.records.client.calls import Call, Page
from holdfast_systems.records.client.errors import RenderDBError
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
)

T = TypeVar("T")


class AsyncRecords:
    """The records API on one event loop; close it with `aclose`, or use it in an `async with`."""

    def __init__(self, url: str, *, api_key: Secret | str, timeout_s: float = sending.TIMEOUT_S) -> None:
        """
        Args:
            url: where the system stands, such as `https://records.example/records`.
            timeout_s: how long one call may take, with all its attempts; a shorter deadline of the caller counts.
        """
        self._url = f"{url.rstrip('/')}/v1"
        self._key = Secret(api_key) if isinstance(api_key, str) else api_key
        self._timeout_s = timeout_s
        self.link = sending.new_link()
        self._client = HttpClient(reach=ANYWHERE, timeouts=sending.TIMEOUTS, pool=sending.POOL)

    async def create_company(
        self, name: str, *, website: str | None = None, industry: str | None = None, idempotency_key: str | None = None
    ) -> CreatedCompany:
        """Create a company with its slots; the same key again is the same company."""
        return await self.send(calls.create_company(name, website, industry), idempotency_key)

    async def company(self, company_uid: str) -> Company:
        """One company with its slots."""
        return await self.send(calls.company(company_uid))

    def companies(self, *, q: str | None = None, page_rows: int = sending.PAGE_ROWS) -> AsyncIterator[Company]:
        """All companies, fetched a page at a time."""
        return self._pages(lambda cursor: calls.companies(cursor, page_rows, q))

    async def change_company(self, company_uid: str, **changes: str | None) -> Company:
        """Change some values of a company; None takes a value away."""
        return await self.send(calls.change_company(company_uid, changes))

    async def remove_company(self, company_uid: str) -> None:
        """Remove a company that has no people."""
        await self.send(calls.remove_company(company_uid))

    async def create_person(
        self,
        company_uid: str,
        full_name: str,
        email: str,
        *,
        role: str | None = None,
        idempotency_key: str | None = None,
    ) -> CreatedPerson:
        """Create a person of a company."""
        return await self.send(calls.create_person(company_uid, full_name, email, role), idempotency_key)

    async def person(self, person_uid: str) -> Person:
        """One person."""
        return await self.send(calls.person(person_uid))

    def people(
        self, *, q: str | None = None, company_uid: str | None = None, page_rows: int = sending.PAGE_ROWS
    ) -> AsyncIterator[Person]:
        """All people, or those of one company, fetched a page at a time."""
        return self._pages(lambda cursor: calls.people(cursor, page_rows, q, company_uid))

    async def change_person(self, person_uid: str, **changes: str | None) -> Person:
        """Change some values of a person; None takes a value away."""
        return await self.send(calls.change_person(person_uid, changes))

    async def remove_person(self, person_uid: str) -> None:
        """Remove a person."""
        await self.send(calls.remove_person(person_uid))

    async def assign_slot(self, slot_uid: str, person_uid: str, *, on_conflict: str = "fail") -> Assignment:
        """Put a person into a slot."""
        return await self.send(calls.assign_slot(slot_uid, person_uid, on_conflict))

    async def free_slot(self, slot_uid: str) -> Assignment:
        """Remove the current occupant from a slot."""
        return await self.send(calls.free_slot(slot_uid))

    def reviews(self, *, status: str | None = None, page_rows: int = sending.PAGE_ROWS) -> AsyncIterator[Review]:
        """All reviews, fetched a page at a time."""
        return self._pages(lambda cursor: calls.reviews(cursor, page_rows, status))

    async def approve_review(self, review_id: str) -> Review:
        """Give the slot to the person who asked for it."""
        return await self.send(calls.decide_review(review_id, "approve"))

    async def reject_review(self, review_id: str) -> Review:
        """Leave the slot as it is."""
        return await self.send(calls.decide_review(review_id, "reject"))

    async def verify(
        self, email: str | None = None, *, person_uid: str | None = None, timeout_s: float | None = None
    ) -> Verification:
        """Verify an address and wait for the result.

        Raises:
            RenderDBError: the API refused, or the result did not come in time (NETWORK_TIMEOUT).
        """
        asked = await self.send(calls.ask_verification(email, person_uid))
        return await self._ended(asked, calls.verification(asked.verification_id), timeout_s)

    async def enrich(self, company_uid: str, *, timeout_s: float | None = None) -> Enrichment:
        """Fill in a company from its website and wait for the result.

        Raises:
            RenderDBError: the API refused, or the result did not come in time (NETWORK_TIMEOUT).
        """
        asked = await self.send(calls.ask_enrichment(company_uid))
        return await self._ended(asked, calls.enrichment(asked.enrichment_id), timeout_s)

    async def send_import(
        self, content: bytes | Path, *, format: str = "ndjson", idempotency_key: str | None = None
    ) -> Import:
        """Send rows; they are stored when this returns. A file is read while it is sent, and not held in memory."""
        return await self.send(calls.send_import(sending.content(content), format), idempotency_key)

    async def wait_import(
        self,
        import_id: str,
        *,
        progress: Callable[[Import], None] | None = None,
        timeout_s: float | None = None,
    ) -> Import:
        """Wait for the end of an import; `progress` is told whenever it has moved on."""
        return await self._ended(None, calls.import_(import_id), timeout_s, progress)

    def import_rows(self, import_id: str, *, status: str | None = None) -> AsyncIterator[ImportRow]:
        """What became of the rows of an import."""
        return self._pages(lambda cursor: calls.import_rows(import_id, cursor, sending.PAGE_ROWS, status))

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def send(self, call: Call[T], idempotency_key: str | None = None) -> T:
        """Send a call until it is answered for good.

        Raises:
            RenderDBError: the API refused it, or no attempt came through in time.
        """
        headers = sending.headers_of(call, self._key)

        async def attempt() -> T:
            try:
                reply = await self._client.send(
                    call.method, f"{self._url}{call.path}", headers=headers, **sending.options_of(call)
                )
            except Failure as failure:
                raise sending.failed(failure) from failure.__cause__
            return sending.result(call, reply)

        try:
            with within(self._timeout_s + call.takes_s):
                return await self.link.keyed(sending.key_of(idempotency_key)).call(attempt)
        except Failure as failure:
            raise RenderDBError.of(failure) from failure

    async def _pages(self, page: Callable[[str | None], Call[Page[T]]]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            found = await self.send(page(cursor))
            for one in found.entries:
                yield one
            cursor = found.next_cursor
            if cursor is None:
                return

    async def _ended(
        self, known: T | None, look: Call[T], timeout_s: float | None, progress: Callable[[T], None] | None = None
    ) -> T:
        with within(timeout_s) as deadline:
            poll_s = sending.POLL_S
            while True:
                found = known if known is not None else await self.send(look)
                known = None
                if progress is not None:
                    progress(found)
                if found.ended:  # type: ignore[attr-defined]  # what is waited for can end
                    return found
                if deadline.left_s <= poll_s:
                    raise sending.too_late(look)
                await world().pause(poll_s)
                poll_s = min(poll_s * 1.5, sending.POLL_S_MAX)
