"""What every route needs: the store, the numbers of ids, cursors, threads, and how answers are made.

Always true: the effect of a write and its answer under an idempotency key commit in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from holdfast.base import CodecError, Json, decode, encode
from holdfast.guard import Answer, Keys
from holdfast.http import ClientGone
from holdfast.http.arrival import REQUEST_ID_KEY
from holdfast.http.idempotent import STARTED_KEY
from holdfast.store import Store, Tx
from holdfast.worker import Jobs
from holdfast_systems.records.admission import caller_of
from holdfast_systems.records.cursors import Cursors
from holdfast_systems.records.faults import MALFORMED_JSON
from holdfast_systems.records.settings import Settings
from holdfast_systems.records.shedding import Workers
from holdfast_systems.records.tables import Numbers

PAGE_ROWS = 50
PAGE_ROWS_MAX = 200
BODY_BYTES_MAX = 65_536
JSON = "application/json"

Told = tuple[int, dict[str, Any]]
"""The status and the body of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the routes share."""

    store: Store
    settings: Settings
    keys: Keys
    jobs: Jobs
    numbers: Numbers
    cursors: Cursors
    workers: Workers

    async def read(self, request: Request, phase: Callable[[Tx], dict[str, Any]]) -> Response:
        """Answer with what the phase finds."""
        request_id = request.scope[REQUEST_ID_KEY]
        found = await self.workers(self.store.atomic, phase, write=False)
        return told(Answer.of_json({**found, "request_id": request_id}))

    async def look(self, request: Request, find: Callable[[Store], dict[str, Any]]) -> Response:
        """Answer with what one statement finds."""
        request_id = request.scope[REQUEST_ID_KEY]
        found = await self.workers(find, self.store)
        return told(Answer.of_json({**found, "request_id": request_id}))

    async def write(self, request: Request, phase: Callable[[Tx], Told]) -> Response:
        """Do what the phase does and answer with what it says; under a key, both commit together."""
        return told(await self.workers(self.written, request, phase))

    async def answered(self, work: Callable[[], Answer]) -> Response:
        """Run work that makes an answer in a thread."""
        return told(await self.workers(work))

    def written(self, request: Request, phase: Callable[[Tx], Told]) -> Answer:
        """The same, for a caller that is in a thread already."""
        request_id, started = request.scope[REQUEST_ID_KEY], request.scope.get(STARTED_KEY)

        def whole(tx: Tx) -> Answer:
            status, body = phase(tx)
            answer = Answer.of_json({**body, "request_id": request_id}, status=status)
            if started is not None:
                self.keys.finish(started, answer, tx=tx)
            return answer

        return self.store.atomic(whole)

    async def page(
        self,
        request: Request,
        name: str,
        key: str,
        *,
        cursor: str | None,
        limit: int,
        phase: Callable[[Tx, str], Sequence[dict[str, Any]]],
        filters: object = None,
    ) -> Response:
        """Answer with one page of a list, and the cursor of the next.

        Args:
            name: what the list is called in the body.
            key: the field of its entries by which it is ordered.
            phase: the page after a place; it asks for one more than `limit`.
            filters: a cursor serves only for the same ones.
        """
        of = encode([name, caller_of(request.scope).account_id, filters])
        after = self.cursors.read(cursor, of=of)

        def found(tx: Tx) -> dict[str, Any]:
            rows = phase(tx, after)
            shown = rows[:limit]
            following = self.cursors.write(str(shown[-1][key]), of=of) if len(rows) > limit else None
            return {name: shown, "next_cursor": following}

        return await self.read(request, found)


def told(answer: Answer) -> Response:
    """The answer as a response."""
    return Response(answer.body, answer.status, media_type=JSON)


async def body_of(request: Request) -> Json:
    """The JSON of the request; None when there is no body.

    Raises:
        Failure: MALFORMED_JSON.
    """
    try:
        body = await request.body()
    except ClientDisconnect:
        raise ClientGone from None
    if not body:
        return None
    try:
        return decode(body, bytes_max=BODY_BYTES_MAX)
    except CodecError as broken:
        raise MALFORMED_JSON(reason=broken.reason, explanation=broken.explanation[:200]) from None
