"""The gateway's routes."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from holdfast.catalog import Catalog
from holdfast.catalog.durable import IDEMPOTENCY_IN_PROGRESS, IDEMPOTENCY_PAYLOAD_MISMATCH
from holdfast.http import BodyRule, Edge, describe, documented
from holdfast.http.asgi import Application, Scope
from holdfast_systems.commerce.admission import Admission, CallerKind, caller_of
from holdfast_systems.commerce.event_stream import EventStream, wants_stream
from holdfast_systems.commerce.faults import (
    BILLING_UNAVAILABLE,
    CONCURRENT_RUNS_EXCEEDED,
    EXECUTION_UNAVAILABLE,
    INSTANCE_NOT_FOUND,
    INSTANCE_PAUSED,
    INSUFFICIENT_CREDITS,
    ORIGIN_NOT_ALLOWED,
    RATE_LIMITED,
    REMAP,
    RUN_INTERRUPTED,
    RUN_NOT_FOUND,
    RUN_TIMEOUT,
    UPSTREAM_ERROR,
)
from holdfast_systems.commerce.gateway.origins import Cors, OriginAdmission
from holdfast_systems.commerce.gateway.service import Gateway, RunAsked
from holdfast_systems.commerce.tokens import Tokens

INPUT_CHARS_MAX = 32_000
BODY_BYTES_MAX = 262_144
SESSIONS = "/v1/widget/sessions"
OPENAPI = "/openapi.json"
# No colon: the key of a run is made of these, with colons between.
USER = r"^[A-Za-z0-9._@=+/|-]{1,100}$"
CLIENT_RUN = r"^[A-Za-z0-9._=+-]{1,100}$"
ID = r"^[A-Za-z0-9._:-]{1,100}$"
EVERYBODY = frozenset(CallerKind)
OWNERS = EVERYBODY - {CallerKind.WIDGET}

InstanceId = Annotated[str, Path(pattern=ID)]


def _said(text: str) -> str:
    """An input that says something, and that every database can keep."""
    if not text.strip():
        raise ValueError("this says nothing")
    if "\0" in text:
        raise ValueError("this holds a NUL character")
    return text


class Session(BaseModel):
    """Who wants to chat with which instance."""

    model_config = ConfigDict(extra="forbid")
    instanceId: str = Field(pattern=ID)  # noqa: N815 - the names of the wire
    userId: str = Field(pattern=USER)  # noqa: N815


class RunRequest(BaseModel):
    """What is asked, and the id by which a repeat is known."""

    model_config = ConfigDict(extra="forbid")
    input: Annotated[str, Field(max_length=INPUT_CHARS_MAX), AfterValidator(_said)]
    clientRunId: str = Field(pattern=CLIENT_RUN)  # noqa: N815
    userId: str | None = Field(default=None, pattern=USER)  # noqa: N815
    """For services, which speak for somebody; of others it is not read."""


def application(gateway: Gateway, tokens: Tokens, catalog: Catalog) -> Application:
    """The gateway's API."""
    app = FastAPI(
        title="Gateway",
        summary="Runs agents for widgets and buyers, each charged once",
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _session_routes(app, gateway)
    _run_routes(app, gateway)
    describe(app, catalog=catalog, remap=REMAP)
    edge = Edge(
        app,
        catalog=catalog,
        remap=REMAP,
        body=BodyRule(bytes_max=BODY_BYTES_MAX),
        access=OriginAdmission(Admission(tokens, kinds=_kinds, public=_is_public)),
    )
    return Cors(edge)


def _session_routes(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        SESSIONS,
        summary="Open a session for a widget",
        responses=documented(INSTANCE_NOT_FOUND, ORIGIN_NOT_ALLOWED, RATE_LIMITED, BILLING_UNAVAILABLE),
    )
    async def open_session(body: Session, request: Request) -> Response:
        return _json(await gateway.open_session(request.scope, body.instanceId, body.userId))


def _run_routes(app: FastAPI, gateway: Gateway) -> None:
    @app.post(
        "/v1/instances/{instance_id}/runs",
        summary="Run an instance; with `Accept: text/event-stream`, piece by piece",
        responses=documented(
            INSUFFICIENT_CREDITS,
            INSTANCE_PAUSED,
            ORIGIN_NOT_ALLOWED,
            INSTANCE_NOT_FOUND,
            IDEMPOTENCY_PAYLOAD_MISMATCH,
            IDEMPOTENCY_IN_PROGRESS,
            RATE_LIMITED,
            CONCURRENT_RUNS_EXCEEDED,
            UPSTREAM_ERROR,
            RUN_INTERRUPTED,
            BILLING_UNAVAILABLE,
            EXECUTION_UNAVAILABLE,
            RUN_TIMEOUT,
        ),
    )
    async def run(instance_id: InstanceId, body: RunRequest, request: Request) -> Response:
        asked = RunAsked(instance_id=instance_id, input=body.input, client_run_id=body.clientRunId, user_id=body.userId)
        caller = caller_of(request.scope)
        if wants_stream(request.headers.get("accept", "")):
            return EventStream(gateway.stream(caller, asked))
        return _json(await gateway.run(caller, asked))

    @app.get(
        "/v1/instances/{instance_id}/runs",
        summary="Runs of an instance with what each cost, newest first",
        responses=documented(INSTANCE_NOT_FOUND, BILLING_UNAVAILABLE),
    )
    async def page(
        instance_id: InstanceId, request: Request, cursor: Annotated[str | None, Query(pattern=ID)] = None
    ) -> Response:
        return _json(await gateway.page(caller_of(request.scope), instance_id, cursor))

    @app.get("/v1/runs/{run_id}", summary="A run", responses=documented(RUN_NOT_FOUND, ORIGIN_NOT_ALLOWED))
    async def show(run_id: Annotated[str, Path(pattern=ID)], request: Request) -> Response:
        return _json(await gateway.show(caller_of(request.scope), run_id))


def _kinds(scope: Scope) -> frozenset[CallerKind]:
    """Everybody may run; what an instance has done in all is for its owner."""
    path = _below(scope)
    listed = scope["method"] == "GET" and path.startswith("/v1/instances/")
    return OWNERS if listed else EVERYBODY


def _is_public(scope: Scope) -> bool:
    path = _below(scope)
    return path == SESSIONS or (path == OPENAPI and scope["method"] in ("GET", "HEAD"))


def _below(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _json(content: object) -> Response:
    return JSONResponse(content, headers={"cache-control": "no-store"})
