"""The routes of uploads, ingestions and questions to the knowledge base."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect

from holdfast.artifact import pieces_async
from holdfast.base import utc_text
from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.http import ClientGone, documented
from holdfast.store import Tx
from holdfast.worker import Jobs
from holdfast_systems.commerce.admission import caller_of
from holdfast_systems.commerce.control_plane import uploads
from holdfast_systems.commerce.control_plane.cursors import Cursors
from holdfast_systems.commerce.control_plane.fields import PAGE_ROWS, PRINTABLE, Cursor, IdPath, Limit
from holdfast_systems.commerce.control_plane.rag import Ragflow
from holdfast_systems.commerce.control_plane.service import Service
from holdfast_systems.commerce.control_plane.storage import Storage
from holdfast_systems.commerce.faults import (
    INGESTION_NOT_FOUND,
    INSTANCE_NOT_FOUND,
    NOT_ENTITLED,
    RAG_UNAVAILABLE,
    STORAGE_UNAVAILABLE,
)
from holdfast_systems.commerce.faults_outside import (
    UPLOAD_EXPIRED,
    UPLOAD_INCOMPLETE,
    UPLOAD_MISMATCH,
    UPLOAD_NOT_FOUND,
    UPLOADS_EXCEEDED,
)
from holdfast_systems.commerce.settings import Settings

NO_STORE = {"cache-control": "no-store"}
MEDIA_TYPE = r"^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$"
QUESTION_CHARS_MAX = 4_000
CHUNKS_MAX = 20


class NewUpload(BaseModel):
    """A file that is to come."""

    model_config = ConfigDict(extra="forbid")
    filename: str = Field(min_length=1, max_length=200, pattern=PRINTABLE)
    contentType: str = Field(pattern=MEDIA_TYPE)  # noqa: N815 - the names that clients send
    size: int = Field(ge=1, strict=True)


class NewIngestion(BaseModel):
    """Which upload is to be ingested."""

    model_config = ConfigDict(extra="forbid")
    uploadId: str = Field(min_length=1, max_length=200, pattern=PRINTABLE)  # noqa: N815


class Question(BaseModel):
    """What the knowledge base is asked."""

    model_config = ConfigDict(extra="forbid")
    question: str = Field(min_length=1, max_length=QUESTION_CHARS_MAX)
    count: int = Field(default=5, ge=1, le=CHUNKS_MAX, strict=True)


def upload_routes(service: Service, storage: Storage, settings: Settings) -> APIRouter:
    """Announce files, take them where the storage cannot itself, and read them again."""
    routes = APIRouter(tags=["uploads"])
    read = service.store.atomic_async

    @routes.post(
        "/instances/{instance_id}/uploads",
        status_code=201,
        summary="Announce a file and learn where to send it",
        responses=documented(INSTANCE_NOT_FOUND, NOT_ENTITLED, UPLOAD_MISMATCH, UPLOADS_EXCEEDED, STORAGE_UNAVAILABLE),
    )
    async def announce(request: Request, instance_id: IdPath, new: NewUpload) -> Response:
        caller = caller_of(request.scope)
        if new.size > settings.upload_bytes_max:
            raise UPLOAD_MISMATCH(reason=f"at most {settings.upload_bytes_max} bytes are taken")

        def phase(tx: Tx) -> Any:
            return uploads.announce(
                tx,
                instance_id,
                caller,
                filename=new.filename,
                content_type=new.contentType,
                size=new.size,
                settings=settings,
            )

        file = await read(phase)
        url, headers = await storage.address_for(file)
        told = {"uploadId": file.id, "method": "PUT", "url": url, "headers": headers}
        return JSONResponse({**told, "expiresAt": utc_text(file.expires_us)}, 201, headers=NO_STORE)

    @routes.put("/uploads/{upload_id}", summary="Send a file", responses=documented(UPLOAD_EXPIRED, UPLOAD_MISMATCH))
    async def receive(
        request: Request,
        upload_id: IdPath,
        expires: Annotated[int, Query(ge=0, le=1 << 62)] = 0,
        signature: Annotated[str, Query(max_length=200)] = "",
    ) -> Response:
        found = await read(lambda tx: uploads.announced(tx, upload_id), write=False)
        file = storage.check_address(found, expires_us=expires, signature=signature)
        if request.headers.get("content-type", "").lower() != file.content_type:
            raise UPLOAD_MISMATCH(reason=f"its content type is not {file.content_type}")
        try:
            await storage.receive(file, request.stream())
        except ClientDisconnect:
            raise ClientGone from None
        return Response(status_code=200, headers=NO_STORE)

    @routes.get(
        "/instances/{instance_id}/uploads/{upload_id}",
        summary="An upload",
        responses=documented(INSTANCE_NOT_FOUND, UPLOAD_NOT_FOUND),
    )
    async def show(request: Request, instance_id: IdPath, upload_id: IdPath) -> Response:
        caller = caller_of(request.scope)
        return await service.read(
            lambda tx: uploads.shown_upload(uploads.visible_upload(tx, instance_id, upload_id, caller))
        )

    @routes.get(
        "/instances/{instance_id}/uploads/{upload_id}/content",
        summary="The file of an upload",
        responses=documented(INSTANCE_NOT_FOUND, UPLOAD_NOT_FOUND, UPLOAD_INCOMPLETE, STORAGE_UNAVAILABLE),
    )
    async def content(request: Request, instance_id: IdPath, upload_id: IdPath) -> Response:
        caller = caller_of(request.scope)
        row = await read(lambda tx: uploads.visible_upload(tx, instance_id, upload_id, caller), write=False)
        stream = await storage.open(uploads.file_of(row))
        headers = {
            **NO_STORE,
            "content-length": str(stream.entry.bytes),
            # Whatever it says it is: never shown as a page of ours.
            "content-disposition": "attachment",
            "x-content-type-options": "nosniff",
        }
        return StreamingResponse(pieces_async(stream), media_type=row["content_type"], headers=headers)

    return routes


def ingestion_routes(service: Service, storage: Storage, jobs: Jobs, cursors: Cursors, settings: Settings) -> APIRouter:
    """Ask for ingestions, and see how far they are."""
    routes = APIRouter(tags=["ingestions"])
    store = service.store

    @routes.post(
        "/instances/{instance_id}/ingestions",
        status_code=202,
        summary="Bring an upload into the knowledge base",
        responses=documented(INSTANCE_NOT_FOUND, NOT_ENTITLED, UPLOAD_NOT_FOUND, UPLOAD_INCOMPLETE),
    )
    async def ask(request: Request, instance_id: IdPath, new: NewIngestion) -> Response:
        caller = caller_of(request.scope)

        def visible(tx: Tx) -> dict[str, Any]:
            uploads.entitled(tx, instance_id, caller)
            return uploads.visible_upload(tx, instance_id, new.uploadId, caller)

        row = await store.atomic_async(visible, write=False)
        await storage.check_arrived(uploads.file_of(row))
        made, created = await store.atomic_async(
            lambda tx: uploads.ask(tx, jobs, row, total_s=settings.ingestion_total_s)
        )
        return JSONResponse(made, 202 if created else 200, headers=NO_STORE)

    @routes.get(
        "/instances/{instance_id}/ingestions",
        summary="The ingestions of an instance, newest first",
        responses=documented(INSTANCE_NOT_FOUND),
    )
    async def listed(
        request: Request, instance_id: IdPath, cursor: Cursor = None, limit: Limit = PAGE_ROWS
    ) -> Response:
        caller, of = caller_of(request.scope), f"ingestions:{instance_id}"
        before = cursors.read(cursor, of=of)

        def page(tx: Tx) -> dict[str, Any]:
            found = uploads.listed(tx, instance_id, caller, before=before, count=limit + 1)
            more = len(found) > limit
            following = cursors.write(found[limit - 1]["ingestionId"], of=of) if more else None
            return {"ingestions": found[:limit], "nextCursor": following}

        return await service.read(page)

    @routes.get("/ingestions/{ingestion_id}", summary="An ingestion", responses=documented(INGESTION_NOT_FOUND))
    async def show(request: Request, ingestion_id: IdPath) -> Response:
        caller = caller_of(request.scope)
        return await service.read(lambda tx: uploads.show(tx, ingestion_id, caller))

    return routes


def retrieval_routes(service: Service, rag: Callable[[], Ragflow], link: Link) -> APIRouter:
    """Ask the knowledge base of an instance."""
    routes = APIRouter(tags=["retrieval"])

    @routes.post(
        "/instances/{instance_id}/retrieval",
        summary="The pieces of an instance's documents that fit a question",
        responses=documented(INSTANCE_NOT_FOUND, NOT_ENTITLED, RAG_UNAVAILABLE),
    )
    async def retrieve(request: Request, instance_id: IdPath, asked: Question) -> Response:
        caller = caller_of(request.scope)
        row = await service.store.atomic_async(lambda tx: uploads.entitled(tx, instance_id, caller), write=False)
        dataset_id, chunks = row["rag_dataset_id"], []
        if dataset_id is not None:
            try:
                chunks = await link.call(rag().retrieve, dataset_id, asked.question, count=asked.count)
            except TimeoutError:
                raise RAG_UNAVAILABLE(reason="timeout") from None
            except Failure as failure:
                raise RAG_UNAVAILABLE(reason=str(failure.details.get("reason", failure.code.lower()))) from failure
        told = [{"text": one.text, "document": one.document, "score": one.score} for one in chunks]
        return JSONResponse({"chunks": told}, headers=NO_STORE)

    return routes
