"""The operator's routes: keys, quotas and maintenance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from holdfast.base import Json, now_us, utc_text
from holdfast.guard import Answer
from holdfast.http.arrival import REQUEST_ID_KEY
from holdfast.operate import actor_of
from holdfast_systems.records import fields, shapes
from holdfast_systems.records.callers import Callers
from holdfast_systems.records.maintenance import Maintenance, Window
from holdfast_systems.records.model import ACCOUNT_CHARS_MAX, Scope
from holdfast_systems.records.openapi import Describing
from holdfast_systems.records.quotas import Quota, Quotas
from holdfast_systems.records.service import Service, body_of, told

ACCOUNT_SHAPE = rf"^[!-~]([ -~]{{0,{ACCOUNT_CHARS_MAX - 2}}}[!-~])?$"
QUOTA_MAX = 10**12
PER_MINUTE_MAX = 10_000_000
ACCOUNTS_MAX = 1_000
REASON_CHARS_MAX = 500
YEARS_MAX_US = 100 * 365 * 86_400_000_000
ACCOUNT: shapes.Shape = {"type": "string", "pattern": ACCOUNT_SHAPE, "examples": ["acct_acme"]}

NEW_KEY: shapes.Shape = {
    "type": "object",
    "required": ["account_id", "scopes"],
    "additionalProperties": False,
    "properties": {
        "account_id": ACCOUNT,
        "scopes": shapes.SCOPES,
        "expires_at": shapes.optional({**shapes.MOMENT, "examples": ["2030-01-01T00:00:00Z"]}),
    },
}
NEW_QUOTA: shapes.Shape = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "daily": shapes.optional({"type": "integer", "minimum": 0, "maximum": QUOTA_MAX}),
        "monthly": shapes.optional({"type": "integer", "minimum": 0, "maximum": QUOTA_MAX}),
        "per_minute": shapes.optional({"type": "integer", "minimum": 1, "maximum": PER_MINUTE_MAX}),
    },
}
NEW_WINDOW: shapes.Shape = {
    "type": "object",
    "required": ["until"],
    "additionalProperties": False,
    "properties": {
        "from": shapes.optional({**shapes.MOMENT, "examples": ["2030-01-01T02:00:00Z"]}),
        "until": {**shapes.MOMENT, "examples": ["2030-01-01T04:00:00Z"]},
    },
}
AccountQuery = Annotated[str, Query(pattern=ACCOUNT_SHAPE)]
Reason = Annotated[
    str | None,
    Query(max_length=REASON_CHARS_MAX, pattern=r"^[^\x00]*$", description="Why, for the audit that operators read."),
]


def admin_routes(
    service: Service, callers: Callers, quotas: Quotas, maintenance: Maintenance, say: Describing
) -> APIRouter:
    """Everything that takes the operator's token."""
    routes = APIRouter(tags=["admin"])
    _add_keys(routes, service, callers, say)
    _add_quotas(routes, service, callers, quotas, say)
    _add_maintenance(routes, service, maintenance, say)
    return routes


def _add_keys(routes: APIRouter, service: Service, callers: Callers, say: Describing) -> None:
    @routes.post("/keys", summary="Issue a key", **say.operates({201: shapes.ISSUED_KEY}, body=NEW_KEY))
    async def issue(request: Request, reason: Reason = None) -> Response:
        account_id, scopes, expires_us = _read_key(await body_of(request))
        actor = actor_of(request.scope)

        def work() -> dict[str, Any]:
            issued, granted = callers.issue(account_id, scopes, expires_us=expires_us, actor=actor, reason=reason)
            assert issued.key.expires_us is not None
            return {
                "key_id": issued.key.id,
                "api_key": issued.secret.reveal(),
                "account_id": account_id,
                "scopes": granted,
                "expires_at": utc_text(issued.key.expires_us),
            }

        return _told(request, await service.workers(work), status=201)

    @routes.get("/keys", summary="List the keys of an account", **say.operates({200: shapes.KEYS}))
    async def listed(request: Request, account_id: AccountQuery) -> Response:
        return _told(request, {"keys": await service.workers(callers.list, account_id)})

    @routes.delete("/keys/{key_id}", summary="Revoke a key", **say.operates({200: shapes.REVOKED_KEY}, "KEY_NOT_FOUND"))
    async def revoke(request: Request, key_id: str, reason: Reason = None) -> Response:
        known = key_id if fields.ID.match(key_id) else ""
        await service.workers(callers.revoke, known, actor=actor_of(request.scope), reason=reason)
        return _told(request, {"key_id": key_id, "status": "revoked"})


def _add_quotas(routes: APIRouter, service: Service, callers: Callers, quotas: Quotas, say: Describing) -> None:
    @routes.get("/accounts", summary="List accounts", **say.operates({200: shapes.ACCOUNTS}))
    async def accounts(request: Request) -> Response:
        return _told(request, {"accounts": await service.workers(callers.accounts, ACCOUNTS_MAX)})

    @routes.get("/quotas/{account_id}", summary="Show a quota", **say.operates({200: shapes.QUOTA}))
    async def show(request: Request, account_id: str) -> Response:
        return _told(request, await service.workers(_quota, quotas, _account(account_id)))

    @routes.put("/quotas/{account_id}", summary="Set a quota", **say.operates({200: shapes.QUOTA}, body=NEW_QUOTA))
    async def set_quota(request: Request, account_id: str, reason: Reason = None) -> Response:
        account, quota = _account(account_id), _read_quota(await body_of(request))
        actor = actor_of(request.scope)

        def work() -> dict[str, Any]:
            quotas.set(account, quota, actor=actor, reason=reason)
            return _quota(quotas, account)

        return _told(request, await service.workers(work))


def _add_maintenance(routes: APIRouter, service: Service, maintenance: Maintenance, say: Describing) -> None:
    @routes.put("/maintenance", summary="Announce maintenance", **say.operates({200: shapes.WINDOW}, body=NEW_WINDOW))
    async def announce(request: Request, reason: Reason = None) -> Response:
        window = _read_window(await body_of(request))
        await service.workers(maintenance.announce, window, actor=actor_of(request.scope), reason=reason)
        return _told(request, window.shown())

    @routes.delete("/maintenance", summary="End maintenance", **say.operates({200: shapes.OPEN}))
    async def end(request: Request, reason: Reason = None) -> Response:
        await service.workers(maintenance.end, actor=actor_of(request.scope), reason=reason)
        return _told(request, {"status": "open"})


def _told(request: Request, body: dict[str, Any], *, status: int = 200) -> Response:
    return told(Answer.of_json({**body, "request_id": request.scope[REQUEST_ID_KEY]}, status=status))


def _quota(quotas: Quotas, account_id: str) -> dict[str, Any]:
    quota, used = quotas.read(account_id)
    return {"account_id": account_id, **quota.shown(), "used": used}


def _account(text: str) -> str:
    import re

    if not re.match(ACCOUNT_SHAPE, text, re.ASCII):
        raise fields.refused([_account_problem(text)])
    return text


def _account_problem(value: object) -> fields.Problem:
    return fields.problem("account_id", value, "pattern", f"Printable ASCII, at most {ACCOUNT_CHARS_MAX} characters")


def _read_key(document: Json) -> tuple[str, list[Scope], int | None]:
    import re

    body = _object(document, NEW_KEY)
    wrong = []
    account_id, scopes, expires = body.get("account_id"), body.get("scopes"), body.get("expires_at")
    if account_id is None:
        wrong.append(fields.problem("account_id", None, "required", "Account is required"))
    elif not (isinstance(account_id, str) and re.match(ACCOUNT_SHAPE, account_id, re.ASCII)):
        wrong.append(_account_problem(account_id))
    known = tuple(Scope)
    if not (isinstance(scopes, list) and 0 < len(scopes) <= len(known) and all(one in known for one in scopes)):
        constraint = "required" if not scopes else "enum"
        wrong.append(fields.problem("scopes", scopes, constraint, f"One or more of {', '.join(known)}"))
    expires_us = None
    if expires is not None:
        expires_us = moment_us(expires)
        if expires_us is None or not now_us() < expires_us < now_us() + YEARS_MAX_US:
            wrong.append(fields.problem("expires_at", expires, "format", "A moment in the future, as RFC 3339 says it"))
    if wrong:
        raise fields.refused(wrong)
    return str(account_id), [Scope(one) for one in scopes or ()], expires_us


def _read_quota(document: Json) -> Quota:
    body = _object(document, NEW_QUOTA)
    wrong = []
    for name, shape in NEW_QUOTA["properties"].items():
        value, bounds = body.get(name), shape["anyOf"][0]
        good = value is None or (type(value) is int and bounds["minimum"] <= value <= bounds["maximum"])
        if not good:
            least, most = bounds["minimum"], bounds["maximum"]
            wrong.append(fields.problem(name, value, "range", f"A whole number from {least} to {most}, or null"))
    if wrong:
        raise fields.refused(wrong)
    return Quota(**body)


def _read_window(document: Json) -> Window:
    body = _object(document, NEW_WINDOW)
    from_us = now_us() if body.get("from") is None else moment_us(body["from"])
    until_us = moment_us(body.get("until"))
    wrong = []
    if from_us is None:
        wrong.append(fields.problem("from", body.get("from"), "format", "A moment, as RFC 3339 says it"))
    if until_us is None:
        missing = "required" if body.get("until") is None else "format"
        wrong.append(fields.problem("until", body.get("until"), missing, "A moment, as RFC 3339 says it"))
    if from_us is not None and until_us is not None and until_us <= from_us:
        wrong.append(fields.problem("until", body.get("until"), "minimum", "The end is later than the beginning"))
    if wrong or from_us is None or until_us is None:
        raise fields.refused(wrong)
    return Window(from_us, until_us)


def _object(document: Json, shape: shapes.Shape) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise fields.refused([fields.problem("body", None, "type", "The body must be a JSON object")])
    unknown = [name for name in document if name not in shape["properties"]]
    if unknown:
        raise fields.refused([fields.unknown(name, document[name]) for name in unknown])
    return document


def moment_us(value: object) -> int | None:
    """A moment in RFC 3339, with its zone; None when it is none."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            return None
        since = moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    found = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return found if found > 0 else None
