"""The routes, and the edge around them. Everything that blocks runs in a thread."""

from __future__ import annotations

import re
from asyncio import get_running_loop, to_thread
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar
from urllib.parse import quote, urlsplit

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse, StreamingResponse

from holdfast.artifact import Stream
from holdfast.catalog import CORE
from holdfast.http import BodyRule, Edge, RateLimits, RateRule
from holdfast.http.asgi import Application, Receive, Scope, Send
from holdfast.http.origin import is_foreign, origin_of
from holdfast.policy import RateLimit
from holdfast.store import Store
from holdfast_systems.conversion.bulk import Bulk
from holdfast_systems.conversion.conversions import PAGE_ROWS, Conversions
from holdfast_systems.conversion.faults import CONVERSION_FAULTS, FORBIDDEN, too_large
from holdfast_systems.conversion.live import Live
from holdfast_systems.conversion.model import disposition
from holdfast_systems.conversion.quota import Quota
from holdfast_systems.conversion.session import OWNER_KEY
from holdfast_systems.conversion.settings import Settings
from holdfast_systems.conversion.uploads import Refused, receive

P = ParamSpec("P")
T = TypeVar("T")

READING = frozenset({"GET", "HEAD", "OPTIONS"})
UPLOAD_PATH = "/api/upload"
SMALL_BYTES_MAX = 65_536
UPLOAD_BYTES_MAX = 2**62
"""No limit: an upload that is too large leaves a row under its name, so that `uploads` has to see and count it."""
UPLOAD_WAIT_S = 30.0
LENGTH_DIGITS_MAX = 18
MINUTE_S = 60.0
ID_SHAPE = r"^[0-9a-f-]{36}$"

PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # Not `no-referrer`: what the page sends could then name no origin.
    "referrer-policy": "same-origin",
    "cache-control": "no-cache",
}
ARCHIVE_NAME = "conversions.zip"
DATA_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
SCRIPT = "text/javascript; charset=utf-8"
ASSETS = {"page.js": SCRIPT, "uploads.js": SCRIPT, "page.css": "text/css; charset=utf-8"}

UPLOAD_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "mapping": {"type": "string", "default": "text", "pattern": "^[a-z0-9][a-z0-9_-]{0,39}$"},
                    },
                }
            }
        },
    }
}


class Patient:
    """Threads of their own for what waits for the storage: a slow one must not keep the list waiting."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads

    async def __call__(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the work in a thread, in a copy of this context."""
        call = partial(copy_context().run, work, *args, **kwargs)
        return await get_running_loop().run_in_executor(self._threads, call)


def application(
    conversions: Conversions,
    bulk: Bulk,
    live: Live,
    settings: Settings,
    store: Store,
    patient: Patient,
    quota: Quota,
    *,
    address: str,
    spool: Path,
) -> Application:
    """The system's own application, standing at this address."""
    root = urlsplit(address).path
    app = FastAPI(
        title="Conversion",
        summary="PDF → XML with a queue",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _pages(app, root, settings)
    _jobs(app, conversions, live, patient)
    _all_jobs(app, bulk, patient)
    _upload(app, conversions, settings, patient, quota, spool)
    large = too_large(settings.bytes_max)
    rate = RateLimit(count=settings.uploads_per_minute, per_s=MINUTE_S)
    per_address = RateRule(name="conversion-uploads", rate=rate, by=quota.group, when=_is_upload)
    return Edge(
        _from_own_pages(_with_slash(app, f"{root}/"), origin_of(address)),
        catalog=CONVERSION_FAULTS,
        remap={"PAYLOAD_TOO_LARGE": large, "TOO_LARGE": large},
        body=_body_rule(),
        limits=RateLimits(per_address, store=store),
    )


def _from_own_pages(app: Application, origin: str) -> Application:
    """Refuse changes that a page of another site sends with the cookie of its visitor."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in READING and is_foreign(scope, origin):
            raise FORBIDDEN("The request came from another site.")
        await app(scope, receive, send)

    return answer


def _with_slash(app: Application, page: str) -> Application:
    """Redirect requests for the bare path of the system to its page."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in ("", scope.get("root_path", "")):
            await RedirectResponse(page, status_code=308)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer


def _pages(app: FastAPI, root: str, settings: Settings) -> None:
    folder = files("holdfast_systems.conversion").joinpath("pages")
    page = (
        folder.joinpath("page.html")
        .read_text("utf-8")
        .replace("{root}", quote(root))
        .replace("{bytes_max}", str(settings.bytes_max))
        .replace("{too_large}", too_large(settings.bytes_max).says)
        .encode()
    )
    assets = {name: folder.joinpath(name).read_bytes() for name in ASSETS}

    @app.get("/", include_in_schema=False)
    async def show_page() -> Response:
        return Response(page, media_type="text/html; charset=utf-8", headers=PAGE_HEADERS)

    async def asset(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        return Response(assets[name], media_type=ASSETS[name], headers=PAGE_HEADERS)

    for name in ASSETS:
        app.add_api_route(f"/{name}", asset, include_in_schema=False)


def _jobs(app: FastAPI, conversions: Conversions, live: Live, patient: Patient) -> None:
    @app.get("/api/jobs", summary="Your conversions, newest first")
    async def list_jobs(
        request: Request,
        before: Annotated[str | None, Query(pattern=ID_SHAPE)] = None,
        count: Annotated[int, Query(ge=1, le=PAGE_ROWS)] = PAGE_ROWS,
    ) -> Response:
        return _json(await to_thread(conversions.listing, _owner(request), before=before, count=count))

    @app.get("/api/events", summary="Your conversions as they change")
    async def watch_jobs(request: Request) -> Response:
        headers = {**DATA_HEADERS, "x-accel-buffering": "no"}
        return StreamingResponse(live.open(_owner(request)), media_type="text/event-stream", headers=headers)

    @app.get("/api/jobs/{job_id}", summary="One conversion and what happened to it")
    async def show_job(request: Request, job_id: str) -> Response:
        return _json(await to_thread(conversions.show, _owner(request), _known(job_id)))

    @app.get("/api/jobs/{job_id}/download", summary="The XML")
    async def download(request: Request, job_id: str) -> Response:
        stream, name = await patient(conversions.open_result, _owner(request), _known(job_id))
        headers = {
            **DATA_HEADERS,
            "content-length": str(stream.entry.bytes),
            "content-disposition": disposition(name),
            "content-security-policy": "default-src 'none'; sandbox",
        }
        return StreamingResponse(_pieces(stream), media_type="application/xml", headers=headers)

    @app.post("/api/jobs/{job_id}/retry", summary="Try a failed conversion again")
    async def retry(request: Request, job_id: str) -> Response:
        return _json(await patient(conversions.retry, _owner(request), _known(job_id)))

    @app.delete("/api/jobs/{job_id}", status_code=204, summary="Delete a conversion and its files")
    async def delete(request: Request, job_id: str) -> Response:
        await patient(conversions.delete, _owner(request), _known(job_id))
        return Response(status_code=204)


def _all_jobs(app: FastAPI, bulk: Bulk, patient: Patient) -> None:
    @app.post("/api/retry", summary="Try every failed conversion again")
    async def retry_all(request: Request) -> Response:
        return _json(await patient(bulk.retry, _owner(request)))

    @app.post("/api/clear", summary="Delete every conversion that has ended, with its files")
    async def clear(request: Request) -> Response:
        return _json(await patient(bulk.clear, _owner(request)))

    @app.get("/api/download", summary="Every XML that is ready, as a ZIP")
    async def download_all(request: Request) -> Response:
        owner = _owner(request)
        parts = await patient(bulk.parts, owner)
        headers = {**DATA_HEADERS, "content-disposition": disposition(ARCHIVE_NAME)}
        return StreamingResponse(bulk.archive(owner, parts), media_type="application/zip", headers=headers)


def _upload(
    app: FastAPI, conversions: Conversions, settings: Settings, patient: Patient, quota: Quota, spool: Path
) -> None:
    large = too_large(settings.bytes_max)

    @app.post(UPLOAD_PATH, status_code=201, summary="Upload a PDF to be converted", openapi_extra=UPLOAD_FORM)
    async def upload(request: Request) -> Response:
        sender = quota.sender(_owner(request), request.scope)
        with quota.arriving(sender):
            try:
                received = await receive(
                    request.stream(),
                    request.headers.get("content-type", ""),
                    spool=spool,
                    limit=settings.bytes_max,
                    large=large,
                    announced=_announced(request),
                )
            except Refused as refused:
                raise await to_thread(conversions.refuse, sender, refused) from refused
            job, created = await patient(conversions.accept, sender, received)
        return _json({**job, "created": created}, status=201 if created else 200)


def _pieces(stream: Stream) -> Iterator[bytes]:
    with stream:
        yield from stream


def _json(document: Any, *, status: int = 200) -> Response:
    return JSONResponse(document, status_code=status, headers=DATA_HEADERS)


def _owner(request: Request) -> str:
    return str(request.scope[OWNER_KEY])


def _known(job_id: str) -> str:
    """An id that may be one of ours; whatever else is asked for cannot be there."""
    if not re.match(ID_SHAPE, job_id):
        raise CORE["NOT_FOUND"]()
    return job_id


def _is_upload(scope: Scope) -> bool:
    return scope["method"] == "POST" and str(scope["path"]).endswith(UPLOAD_PATH)


def _announced(request: Request) -> int | None:
    length = request.headers.get("content-length", "")
    return int(length) if length.isdecimal() and len(length) <= LENGTH_DIGITS_MAX else None


def _body_rule() -> Any:
    upload = BodyRule(bytes_max=UPLOAD_BYTES_MAX, wait_s=UPLOAD_WAIT_S, json_checked=False)
    small = BodyRule(bytes_max=SMALL_BYTES_MAX)
    return lambda scope: upload if _is_upload(scope) else small
