"""The routes of slots and reviews."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from holdfast.store import Tx
from holdfast_systems.records import fields, shapes, slots
from holdfast_systems.records.admission import caller_of
from holdfast_systems.records.api_records import Cursor, Limit
from holdfast_systems.records.faults import REVIEW_NOT_FOUND
from holdfast_systems.records.model import Decision, OnConflict
from holdfast_systems.records.openapi import Describing
from holdfast_systems.records.service import PAGE_ROWS, Service, Told, body_of

ACCEPTED = 202
DONE = 200
Status = Annotated[str | None, Query(pattern="^(open|approved|rejected)$")]


def slot_routes(service: Service, say: Describing) -> APIRouter:
    """Assign and free slots."""
    routes = APIRouter(tags=["slots"])

    @routes.put(
        "/slots/{slot_uid}",
        summary="Put a person into a slot",
        **say.writes(
            {200: shapes.ASSIGNED, 202: shapes.PENDING_REVIEW},
            "SLOT_NOT_FOUND",
            "PERSON_NOT_FOUND",
            "SLOT_CONFLICT",
            "BUSINESS_RULE_VIOLATION",
            body=fields.schema(fields.ASSIGNMENT),
        ),
    )
    async def assign(request: Request, slot_uid: str) -> Response:
        account_id = caller_of(request.scope).account_id
        values = fields.read(await body_of(request), fields.ASSIGNMENT)
        person_uid, on_conflict = str(values["person_uid"]), OnConflict(values["on_conflict"] or OnConflict.FAIL)

        def phase(tx: Tx) -> Told:
            assigned = slots.assign(tx, account_id, slot_uid, person_uid, on_conflict)
            return (ACCEPTED if assigned.waits else DONE), assigned.body

        return await service.write(request, phase)

    @routes.delete("/slots/{slot_uid}", summary="Free a slot", **say.writes({200: shapes.FREED}, "SLOT_NOT_FOUND"))
    async def free(request: Request, slot_uid: str) -> Response:
        account_id = caller_of(request.scope).account_id
        return await service.write(request, lambda tx: (DONE, slots.free(tx, account_id, slot_uid)))

    return routes


def review_routes(service: Service, say: Describing) -> APIRouter:
    """List reviews and decide them."""
    routes = APIRouter(tags=["reviews"])

    @routes.get("/reviews", summary="List reviews", **say.reads(shapes.REVIEWS))
    async def listed(
        request: Request, cursor: Cursor = None, limit: Limit = PAGE_ROWS, status: Status = None
    ) -> Response:
        account_id = caller_of(request.scope).account_id
        return await service.page(
            request,
            "reviews",
            "review_id",
            cursor=cursor,
            limit=limit,
            phase=lambda tx, after: slots.reviews(tx, account_id, after=after, count=limit + 1, status=status),
            filters=status,
        )

    def add(decision: Decision, summary: str) -> None:
        codes = ("REVIEW_NOT_FOUND", "PERSON_NOT_FOUND", "SLOT_NOT_FOUND", "BUSINESS_RULE_VIOLATION")

        @routes.post(
            f"/reviews/{{review_id}}/{decision}",
            summary=summary,
            operation_id=f"{decision}_review",
            **say.writes({200: shapes.REVIEW}, *codes),
        )
        async def decide(request: Request, review_id: str) -> Response:
            caller = caller_of(request.scope)
            if not fields.ID.match(review_id):
                raise REVIEW_NOT_FOUND(review_id=review_id)
            return await service.write(
                request,
                lambda tx: (DONE, slots.decide(tx, caller.account_id, review_id, decision, by=caller.name)),
            )

    add(Decision.APPROVE, "Give the slot to the person who asked for it")
    add(Decision.REJECT, "Leave the slot as it is")
    return routes
