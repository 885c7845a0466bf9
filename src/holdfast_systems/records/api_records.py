"""The routes of companies and people."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from holdfast.guard import Answer
from holdfast.store import Tx
from holdfast_systems.records import companies, fields, people, shapes
from holdfast_systems.records.admission import caller_of
from holdfast_systems.records.model import COMPANY_SHAPE, Kind
from holdfast_systems.records.openapi import Describing
from holdfast_systems.records.service import PAGE_ROWS, PAGE_ROWS_MAX, Service, Told, body_of

# No database keeps a NUL in a text.
NO_NUL = r"^[^\x00]*$"
Cursor = Annotated[str | None, Query(max_length=500)]
Limit = Annotated[int, Query(ge=1, le=PAGE_ROWS_MAX)]
Search = Annotated[str | None, Query(max_length=200, pattern=NO_NUL)]
CompanyUid = Annotated[str | None, Query(pattern=f"^{COMPANY_SHAPE}$")]

CREATED = 201
DONE = 200


def company_routes(service: Service, say: Describing) -> APIRouter:
    """Create, show, list, change and remove companies."""
    routes = APIRouter(tags=["companies"])
    gone = "COMPANY_NOT_FOUND"

    @routes.post(
        "/companies",
        summary="Create a company with its slots",
        **say.writes({201: shapes.CREATED_COMPANY}, "DUPLICATE_RECORD", body=fields.schema(fields.COMPANY)),
    )
    async def create(request: Request) -> Response:
        account_id = caller_of(request.scope).account_id
        values = fields.read(await body_of(request), fields.COMPANY)

        def work() -> Answer:
            uid = service.numbers.one(Kind.COMPANY)
            return service.written(request, lambda tx: (CREATED, companies.create(tx, account_id, uid, values)))

        return await service.answered(work)

    @routes.get("/companies", summary="List companies", **say.reads(shapes.COMPANIES))
    async def listed(request: Request, cursor: Cursor = None, limit: Limit = PAGE_ROWS, q: Search = None) -> Response:
        account_id = caller_of(request.scope).account_id
        return await service.page(
            request,
            "companies",
            "company_uid",
            cursor=cursor,
            limit=limit,
            phase=lambda tx, after: companies.page(tx, account_id, after=after, count=limit + 1, q=q),
            filters=q,
        )

    @routes.get("/companies/{company_uid}", summary="Show a company", **say.reads(shapes.COMPANY, gone))
    async def show(request: Request, company_uid: str) -> Response:
        account_id = caller_of(request.scope).account_id
        return await service.look(request, lambda store: companies.look(store, account_id, _known(company_uid)))

    @routes.patch(
        "/companies/{company_uid}",
        summary="Change a company",
        **say.writes({200: shapes.COMPANY}, gone, "DUPLICATE_RECORD", body=fields.schema(fields.COMPANY, change=True)),
    )
    async def change(request: Request, company_uid: str) -> Response:
        account_id = caller_of(request.scope).account_id
        changes = fields.read_change(await body_of(request), fields.COMPANY)
        return await service.write(
            request, lambda tx: (DONE, companies.change(tx, account_id, _known(company_uid), changes))
        )

    @routes.delete(
        "/companies/{company_uid}",
        summary="Remove a company without people",
        **say.writes({200: shapes.REMOVED_COMPANY}, gone, "BUSINESS_RULE_VIOLATION"),
    )
    async def remove(request: Request, company_uid: str) -> Response:
        account_id = caller_of(request.scope).account_id

        def phase(tx: Tx) -> Told:
            companies.remove(tx, account_id, _known(company_uid))
            return DONE, {"company_uid": company_uid, "status": "deleted"}

        return await service.write(request, phase)

    return routes


def people_routes(service: Service, say: Describing) -> APIRouter:
    """Create, show, list, change and remove people."""
    routes = APIRouter(tags=["people"])
    gone = "PERSON_NOT_FOUND"

    @routes.post(
        "/people",
        summary="Create a person of a company",
        **say.writes({201: shapes.CREATED_PERSON}, "COMPANY_NOT_FOUND", body=fields.schema(fields.PERSON)),
    )
    async def create(request: Request) -> Response:
        account_id = caller_of(request.scope).account_id
        values = fields.read(await body_of(request), fields.PERSON)

        def work() -> Answer:
            uid = service.numbers.one(Kind.PERSON)
            return service.written(request, lambda tx: (CREATED, people.create(tx, account_id, uid, values)))

        return await service.answered(work)

    @routes.get("/people", summary="List people", **say.reads(shapes.PEOPLE))
    async def listed(
        request: Request,
        cursor: Cursor = None,
        limit: Limit = PAGE_ROWS,
        q: Search = None,
        company_uid: CompanyUid = None,
    ) -> Response:
        account_id = caller_of(request.scope).account_id
        return await service.page(
            request,
            "people",
            "person_uid",
            cursor=cursor,
            limit=limit,
            phase=lambda tx, after: people.page(
                tx, account_id, after=after, count=limit + 1, q=q, company_uid=company_uid
            ),
            filters=[q, company_uid],
        )

    @routes.get("/people/{person_uid}", summary="Show a person", **say.reads(shapes.PERSON, gone))
    async def show(request: Request, person_uid: str) -> Response:
        account_id = caller_of(request.scope).account_id
        return await service.read(request, lambda tx: people.show(tx, account_id, _known(person_uid)))

    @routes.patch(
        "/people/{person_uid}",
        summary="Change a person",
        **say.writes(
            {200: shapes.PERSON},
            gone,
            "COMPANY_NOT_FOUND",
            "BUSINESS_RULE_VIOLATION",
            body=fields.schema(fields.PERSON, change=True),
        ),
    )
    async def change(request: Request, person_uid: str) -> Response:
        account_id = caller_of(request.scope).account_id
        changes = fields.read_change(await body_of(request), fields.PERSON)
        return await service.write(
            request, lambda tx: (DONE, people.change(tx, account_id, _known(person_uid), changes))
        )

    @routes.delete(
        "/people/{person_uid}",
        summary="Remove a person; the slots they sat in are free",
        **say.writes({200: shapes.REMOVED_PERSON}, gone),
    )
    async def remove(request: Request, person_uid: str) -> Response:
        account_id = caller_of(request.scope).account_id

        def phase(tx: Tx) -> Told:
            freed = people.remove(tx, account_id, _known(person_uid))
            return DONE, {"person_uid": person_uid, "status": "deleted", "slots_freed": list(freed)}

        return await service.write(request, phase)

    return routes


def _known(uid: str) -> str:
    """An id that a database can look for; what cannot be one is found nowhere."""
    return uid if "\0" not in uid else ""
