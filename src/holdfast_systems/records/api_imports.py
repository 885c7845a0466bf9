"""The routes of imports: send a file, watch it, and fetch what became of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from holdfast.artifact import Artifacts
from holdfast.base import Json, decode, encode, utc_text
from holdfast.catalog import Catalog, Failure
from holdfast.guard import InProgress, Keys, Mismatch, Replay, Started, request_hash
from holdfast.http import ClientGone
from holdfast.http.idempotent import STARTED_KEY
from holdfast.store import Tx
from holdfast_systems.records import fields, shapes
from holdfast_systems.records.admission import caller_of
from holdfast_systems.records.api_outside import LAST
from holdfast_systems.records.api_records import Cursor, Limit
from holdfast_systems.records.faults import IDEMPOTENCY_CONFLICT, IMPORT_NOT_FOUND
from holdfast_systems.records.import_rows import Format
from holdfast_systems.records.imports import KIND, QUEUE
from holdfast_systems.records.openapi import Describing
from holdfast_systems.records.receiving import Received, drop, receive
from holdfast_systems.records.service import PAGE_ROWS, Service, Told, told

FORMATS = {
    "application/x-ndjson": Format.NDJSON,
    "application/ndjson": Format.NDJSON,
    "application/jsonl": Format.NDJSON,
    "text/csv": Format.CSV,
}
"""The types of content that an import may have."""
NDJSON = "application/x-ndjson"
ACCEPTED = 202
BATCHES_READ = 8
OPERATION = "POST imports"
Wanted = Annotated[str | None, Query(pattern="^(succeeded|failed)$")]


def import_routes(service: Service, say: Describing, artifacts: Artifacts, catalog: Catalog) -> APIRouter:
    """Send a file, watch it, and fetch what became of its rows."""
    routes = APIRouter(tags=["imports"])
    _add_sending(routes, service, say, artifacts, catalog)
    _add_watching(routes, service, say, catalog)
    return routes


def _add_sending(routes: APIRouter, service: Service, say: Describing, artifacts: Artifacts, catalog: Catalog) -> None:
    @routes.post(
        "/imports",
        summary="Import companies and people",
        **say.writes({202: shapes.IMPORT}, "STORAGE_UNAVAILABLE", body=shapes.IMPORT_BODY, contents=tuple(FORMATS)),
    )
    async def send(request: Request) -> Response:
        account_id = caller_of(request.scope).account_id
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            received = await receive(request.stream(), FORMATS.get(kind, Format.NDJSON), artifacts)
        except ClientDisconnect:
            raise ClientGone from None
        try:
            return await service.workers(_accepted, request, received, account_id)
        except Failure:
            await service.workers(drop, received, artifacts)
            raise

    def _accepted(request: Request, received: Received, account_id: str) -> Response:
        key = request.headers.get("idempotency-key")
        if key is not None:
            begun = _begun(service.keys, account_id, key, received)
            if isinstance(begun, Response):
                drop(received, artifacts)
                return begun
            request.scope[STARTED_KEY] = begun
        return told(service.written(request, lambda tx: _add(tx, service, account_id, received, catalog)))


def _begun(keys: Keys, account_id: str, key: str, received: Received) -> Started | Response:
    """The key, held; or the answer that it has already.

    Raises:
        Failure: IDEMPOTENCY_CONFLICT, IDEMPOTENCY_KEY_INVALID.
    """
    hashed = request_hash(method="POST", path="/imports", body=[received.format, received.hash.hexdigest()])
    match keys.begin(tenant=account_id, operation=OPERATION, key=key, request_hash=hashed):
        case Started() as started:
            return started
        case Replay(answer):
            reply = told(answer)
            reply.headers["idempotent-replayed"] = "true"
            return reply
        case InProgress(retry_after_s):
            raise IDEMPOTENCY_CONFLICT(retry_after_s=retry_after_s)
        case Mismatch():
            raise IDEMPOTENCY_CONFLICT()


def _add(tx: Tx, service: Service, account_id: str, received: Received, catalog: Catalog) -> Told:
    payload = {"import": received.id, "part": 0}
    made = service.jobs.enqueue(KIND, payload, queue=QUEUE, tenant=account_id, tx=tx)
    tx.run(
        "records_import.add",
        id=received.id,
        account_id=account_id,
        format=received.format.value,
        header=None if received.header is None else encode(received.header),
        bytes=received.bytes,
        sha256=received.hash.hexdigest(),
        parts=received.parts,
        rows_total=received.rows,
        job_id=made.id,
    )
    return ACCEPTED, _show(tx, account_id, received.id, catalog)


def _add_watching(routes: APIRouter, service: Service, say: Describing, catalog: Catalog) -> None:
    @routes.get("/imports", summary="List imports, newest first", **say.reads(shapes.IMPORTS))
    async def listed(request: Request, cursor: Cursor = None, limit: Limit = PAGE_ROWS) -> Response:
        account_id = caller_of(request.scope).account_id

        def page(tx: Tx, after: str) -> list[dict[str, Any]]:
            wanted = {"account_id": account_id, "before": after or LAST, "count": limit + 1}
            return [_shown(row, catalog) for row in tx.records("records_import.list", **wanted)]

        return await service.page(request, "imports", "import_id", cursor=cursor, limit=limit, phase=page)

    @routes.get("/imports/{import_id}", summary="Watch an import", **say.reads(shapes.IMPORT, "IMPORT_NOT_FOUND"))
    async def show(request: Request, import_id: str) -> Response:
        account_id = caller_of(request.scope).account_id
        return await service.read(request, lambda tx: _show(tx, account_id, import_id, catalog))

    @routes.get(
        "/imports/{import_id}/rows",
        summary="What became of the rows; as application/x-ndjson, all of them",
        **say.reads(shapes.IMPORT_ROWS, "IMPORT_NOT_FOUND"),
    )
    async def import_rows(
        request: Request, import_id: str, status: Wanted = None, cursor: Cursor = None, limit: Limit = PAGE_ROWS
    ) -> Response:
        account_id = caller_of(request.scope).account_id
        if NDJSON in request.headers.get("accept", ""):
            await service.workers(
                service.store.atomic, lambda tx: _show(tx, account_id, import_id, catalog), write=False
            )
            headers = {"content-disposition": f'attachment; filename="import-{import_id}.ndjson"'}
            lines = _lines(lambda phase: service.store.atomic(phase, write=False), import_id, status)
            return StreamingResponse(lines, media_type=NDJSON, headers=headers)

        def page(tx: Tx, after: str) -> list[dict[str, Any]]:
            _show(tx, account_id, import_id, catalog)
            return rows_after(tx, import_id, int(after or 0), limit + 1, status)

        return await service.page(
            request, "rows", "row", cursor=cursor, limit=limit, phase=page, filters=[import_id, status]
        )


def rows_after(tx: Tx, import_id: str, after: int, count: int, status: str | None) -> list[dict[str, Any]]:
    """The next rows of an import that have ended as wanted."""
    found: list[dict[str, Any]] = []
    batch = tx.row("records_import.batch_of", import_id=import_id, row=after + 1)
    first = 0 if batch is None or batch[0] is None else batch[0]
    while len(found) < count:
        wanted = {"import_id": import_id, "first_row": first, "failed": int(status == "failed"), "count": BATCHES_READ}
        batches = tx.rows("records_import.batches", **wanted)
        for _, outcomes in batches:
            found += [row for row in _read(outcomes) if row["row"] > after and status in (None, row["status"])]
            if len(found) >= count:
                break
        if len(batches) < BATCHES_READ:
            break
        first = batches[-1][0] + 1
    return found[:count]


def _lines(read: Callable[[Callable[[Tx], Any]], Any], import_id: str, status: str | None) -> Iterator[bytes]:
    """All rows that have ended as wanted, a few batches at a time."""
    after = 0
    while True:
        found = read(lambda tx: rows_after(tx, import_id, after, 2_000, status))  # noqa: B023 - called at once
        if not found:
            return
        yield b"".join(encode(row).encode() + b"\n" for row in found)
        after = found[-1]["row"]


def _read(outcomes: str) -> Iterator[dict[str, Any]]:
    kept: Json = decode(outcomes, bytes_max=len(outcomes) * 4)
    for row, uid, *bad in kept:
        code, message, details = bad if bad else (None, None, None)
        yield {
            "row": row,
            "status": "failed" if bad else "succeeded",
            "uid": uid,
            "error_code": code,
            "message": message,
            "details": details,
        }


def _show(tx: Tx, account_id: str, import_id: str, catalog: Catalog) -> dict[str, Any]:
    found = None
    if fields.ID.match(import_id):
        found = tx.records("records_import.show", id=import_id, account_id=account_id)
    if not found:
        raise IMPORT_NOT_FOUND(import_id=import_id)
    return _shown(found[0], catalog)


def _shown(row: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    done = row["rows_succeeded"] + row["rows_failed"]
    status = _status(row, done)
    return {
        "import_id": row["id"],
        "status": status,
        "format": row["format"],
        "bytes": row["bytes"],
        "sha256": row["sha256"],
        "rows_total": row["rows_total"],
        "rows_succeeded": row["rows_succeeded"],
        "rows_failed": row["rows_failed"],
        "progress": round(done / row["rows_total"], 4) if row["rows_total"] else 1.0,
        "error": _error(row, catalog) if status == "failed" else None,
        "created_at": utc_text(row["created_us"]),
        "finished_at": None if row["finished_us"] is None else utc_text(row["finished_us"]),
    }


def _status(row: Mapping[str, Any], done: int) -> str:
    if row["finished_us"] is not None:
        return "complete"
    if row["job_state"] in (None, "failed"):
        return "failed"
    return "running" if done or row["job_state"] == "processing" else "queued"


def _error(row: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    fault = catalog.get(row["error_code"] or "") or catalog["INTERNAL_ERROR"]
    return {"error_code": fault.code, "message": row["error_message"] or fault.says}
