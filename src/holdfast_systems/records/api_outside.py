"""The routes of verifications and enrichments. `Prefer: wait=10` waits for the result instead of answering 202."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from holdfast.base import decode, monotonic_s, world
from holdfast.catalog import Catalog
from holdfast.guard import Answer
from holdfast.http.arrival import REQUEST_ID_KEY
from holdfast.policy import left_s
from holdfast.store import Tx
from holdfast_systems.records import fields, shapes
from holdfast_systems.records.admission import caller_of
from holdfast_systems.records.api_records import Cursor, Limit
from holdfast_systems.records.enrichment import Enrichments
from holdfast_systems.records.faults import ENRICHMENT_NOT_FOUND, VERIFICATION_NOT_FOUND
from holdfast_systems.records.openapi import Describing
from holdfast_systems.records.service import PAGE_ROWS, Service, body_of, told
from holdfast_systems.records.verification import COME_BACK_S, Verifications

ACCEPTED = 202
WAIT_S_MAX = 30.0
LOOK_S = 0.05
LAST = "z"
"""Comes after every id, which are hex digits."""
BAD_ONES = ("NETWORK_TIMEOUT", "CONNECTION_RESET", "EXTERNAL_SERVICE_TIMEOUT", "EXTERNAL_SERVICE_ERROR")

_WAIT = re.compile(r"(?:^|[,;\s])wait=(\d{1,3})(?:$|[,;\s])")


def verification_routes(service: Service, say: Describing, verifications: Verifications, catalog: Catalog) -> APIRouter:
    """Ask for verifications, and what became of them."""
    routes = APIRouter(tags=["verifications"])
    waiting = _Waiting(service, catalog)

    @routes.post(
        "/verifications",
        summary="Verify an e-mail address",
        **say.writes(
            {200: shapes.VERIFICATION_ASKED, 202: shapes.VERIFICATION_ASKED},
            "PERSON_NOT_FOUND",
            "VALIDATION_QUEUE_FULL",
            "VALIDATION_SERVICE_ERROR",
            *BAD_ONES,
            body=shapes.VERIFICATION_BODY,
        ),
    )
    async def ask(request: Request) -> Response:
        account_id = caller_of(request.scope).account_id
        given = _read_question(await body_of(request))
        reply = await service.write(request, lambda tx: verifications.ask(tx, account_id, **given))
        return await waiting.for_end(
            request, reply, "verification_id", lambda tx, found: verifications.show(tx, account_id, found)
        )

    @routes.get("/verifications", summary="List verifications, newest first", **say.reads(shapes.VERIFICATIONS))
    async def listed(request: Request, cursor: Cursor = None, limit: Limit = PAGE_ROWS) -> Response:
        account_id = caller_of(request.scope).account_id

        def page(tx: Tx, after: str) -> list[dict[str, Any]]:
            wanted = {"account_id": account_id, "before": after or LAST, "count": limit + 1}
            return [verifications.shown(row) for row in tx.records("records_outside.verifications", **wanted)]

        return await service.page(request, "verifications", "verification_id", cursor=cursor, limit=limit, phase=page)

    @routes.get(
        "/verifications/{verification_id}",
        summary="Show a verification",
        **say.reads(shapes.VERIFICATION, "VERIFICATION_NOT_FOUND"),
    )
    async def show(request: Request, verification_id: str) -> Response:
        account_id = caller_of(request.scope).account_id
        if not fields.ID.match(verification_id):
            raise VERIFICATION_NOT_FOUND(verification_id=verification_id)
        return await service.read(request, lambda tx: verifications.show(tx, account_id, verification_id))

    return routes


def enrichment_routes(service: Service, say: Describing, enrichments: Enrichments, catalog: Catalog) -> APIRouter:
    """Ask for enrichments, and what became of them."""
    routes = APIRouter(tags=["enrichments"])
    waiting = _Waiting(service, catalog)

    @routes.post(
        "/enrichments",
        summary="Fill in a company from its website",
        **say.writes(
            {200: shapes.ENRICHMENT, 202: shapes.ENRICHMENT},
            "COMPANY_NOT_FOUND",
            "BUSINESS_RULE_VIOLATION",
            *BAD_ONES,
            body=fields.schema(fields.ENRICHMENT),
        ),
    )
    async def ask(request: Request) -> Response:
        account_id = caller_of(request.scope).account_id
        company_uid = str(fields.read(await body_of(request), fields.ENRICHMENT)["company_uid"])
        reply = await service.write(request, lambda tx: (ACCEPTED, enrichments.ask(tx, account_id, company_uid)))
        return await waiting.for_end(
            request, reply, "enrichment_id", lambda tx, found: enrichments.show(tx, account_id, found)
        )

    @routes.get(
        "/enrichments/{enrichment_id}",
        summary="Show an enrichment",
        **say.reads(shapes.ENRICHMENT, "ENRICHMENT_NOT_FOUND"),
    )
    async def show(request: Request, enrichment_id: str) -> Response:
        account_id = caller_of(request.scope).account_id
        if not fields.ID.match(enrichment_id):
            raise ENRICHMENT_NOT_FOUND(enrichment_id=enrichment_id)
        return await service.read(request, lambda tx: enrichments.show(tx, account_id, enrichment_id))

    return routes


class _Waiting:
    """Waits for the end of what was asked for, where the request prefers to."""

    def __init__(self, service: Service, catalog: Catalog) -> None:
        self._service = service
        self._catalog = catalog

    async def for_end(
        self, request: Request, reply: Response, key: str, show: Callable[[Tx, str], dict[str, Any]]
    ) -> Response:
        """The reply, or the result as soon as it is there.

        Raises:
            Failure: what it failed with.
        """
        wait_s = _preferred_s(request)
        if reply.status_code != ACCEPTED or not wait_s:
            return reply
        identifier = str(decode(bytes(reply.body))[key])
        give_up_s = monotonic_s() + min(wait_s, left_s())
        while monotonic_s() < give_up_s:
            await world().pause(LOOK_S)
            found = await self._service.workers(
                self._service.store.atomic, lambda tx: show(tx, identifier), write=False
            )
            if found["status"] == "failed":
                raise self._failure(found["error"])
            if found["status"] == "complete":
                told_ = {**found, "request_id": request.scope[REQUEST_ID_KEY]}
                if key == "verification_id":
                    told_["cached"] = False
                return told(Answer.of_json(told_))
        return reply

    def _failure(self, error: dict[str, Any]) -> Exception:
        fault = self._catalog[error["error_code"]]
        wait_s = COME_BACK_S.get(fault.code, 60.0) if fault.retryable else None
        return fault(retry_after_s=wait_s, **error.get("details", {}))


def _preferred_s(request: Request) -> float:
    found = _WAIT.search(request.headers.get("prefer", ""))
    return min(float(found[1]), WAIT_S_MAX) if found else 0.0


def _read_question(document: object) -> dict[str, str | None]:
    """Either an address or a person.

    Raises:
        Failure: VALIDATION_ERROR.
    """
    named = [
        field for field in (fields.EMAIL, fields.PERSON_UID) if isinstance(document, dict) and field.name in document
    ]
    if len(named) > 1:
        raise fields.refused([fields.problem("person_uid", None, "conflict", "Send email or person_uid, not both")])
    values = fields.read(document, named or (fields.EMAIL,))
    return {name: values.get(name) for name in ("email", "person_uid")}
