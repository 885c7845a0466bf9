"""The routes. Everything here is for operators; what blocks runs in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Annotated, Any, ParamSpec, TypeVar

from fastapi import Body, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from holdfast.guard import Keys
from holdfast.http import BodyRule, Edge, Idempotency, describe, documented
from holdfast.http.asgi import Application, Scope
from holdfast.http.operator import OperatorAccess
from holdfast.http.system import Ground
from holdfast.operate import actor_of
from holdfast_systems.reports.documents import DOCUMENT_BYTES_MAX, RUN_ID, STEP_ID
from holdfast_systems.reports.events import read_event
from holdfast_systems.reports.faults import (
    FIRESTORE_CLAIM_FAILED,
    FIRESTORE_FINALIZE_FAILED,
    FIRESTORE_UNAVAILABLE,
    FLOW_RUN_INVALID,
    FLOW_RUN_NOT_FOUND,
    PROMPT_NOT_FOUND,
    REPORT_NOT_READY,
    REPORTS,
    RERUN_REFUSED,
    RUN_ID_TAKEN,
    SCHEMA_NOT_FOUND,
    STEP_NOT_FOUND,
)
from holdfast_systems.reports.flows import KEY, PAGE_MAX, Flows
from holdfast_systems.reports.invocation import Invocations
from holdfast_systems.reports.prompt import TEMPLATE_CHARS_MAX
from holdfast_systems.reports.rendering import policy, report_page

P = ParamSpec("P")
T = TypeVar("T")

EVENT_THREADS = 32
"""Events that are worked on at once; further ones wait."""
READ_THREADS = 16
PAGE_ROWS = 25
EVENT_BYTES_MAX = 4 * 1_048_576
IGNORED = "IGNORED"
"""The event is about something else than a run."""
DATA_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
EVENTS, RUNS = "/v1/events", "/v1/flow-runs"
RAW = BodyRule(bytes_max=EVENT_BYTES_MAX, json_checked=False)
JSON = BodyRule(bytes_max=DOCUMENT_BYTES_MAX + 65_536)
OPERATOR = "operator"

KeyName = Annotated[str, Field(pattern="^" + KEY.pattern.removesuffix(r"\Z") + "$")]
Why = Annotated[str | None, Query(max_length=500, pattern=r"^[^\x00]*$")]
"""The reason of an action, for the audit that operators read."""


class Prompt(BaseModel):
    """A prompt with places for `{ohlcv}`, `{charts}` and `{previousReports}`."""

    model_config = ConfigDict(extra="forbid")
    template: str = Field(min_length=1, max_length=TEMPLATE_CHARS_MAX)


class Schema(BaseModel):
    """The schema of a report."""

    model_config = ConfigDict(extra="forbid")
    jsonSchema: dict[str, Any]  # noqa: N815 - the name that clients send


class Threads:
    """Threads for what blocks: invocations must not keep readers waiting."""

    def __init__(self) -> None:
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="reports-api")
        self._invocations = ThreadPoolExecutor(EVENT_THREADS, thread_name_prefix="reports-event")

    async def read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something short."""
        return await _in_thread(self._readers, partial(work, *args, **kwargs))

    async def invoke(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run something that may take many minutes."""
        return await _in_thread(self._invocations, partial(work, *args, **kwargs))

    def close(self) -> None:
        """Take no more work; what runs goes on to its end."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._invocations.shutdown(wait=False, cancel_futures=True)


def api(
    flows: Flows,
    invocations: Invocations,
    ground: Ground,
    threads: Threads,
    *,
    signed_in: Callable[[Scope], Awaitable[bool]],
) -> Application:
    """The API, for callers with the operator's token or a session of the page."""
    app = FastAPI(
        title="Reports",
        summary="Flow runs whose reports are written by a language model",
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    _definitions(app, flows, threads)
    _runs(app, flows, threads)
    _reports(app, flows, threads)
    _events(app, invocations, threads)
    describe(app, catalog=REPORTS)
    return Edge(
        app,
        catalog=REPORTS,
        body=lambda scope: RAW if scope["path"].endswith(EVENTS) else JSON,
        access=OperatorAccess(ground.token, public=signed_in),
        # Access is checked first, so every caller is the operator.
        idempotency=Idempotency(keys=Keys(ground.store), caller=lambda _: OPERATOR, when=_is_submission),
    )


def _definitions(app: FastAPI, flows: Flows, threads: Threads) -> None:
    @app.put("/v1/prompts/{prompt_id}", summary="Store a new version of a prompt")
    async def put_prompt(request: Request, prompt_id: KeyName, prompt: Prompt, reason: Why = None) -> Response:
        actor = actor_of(request.scope)
        made = await threads.read(flows.put_prompt, prompt_id, prompt.template, actor=actor, reason=reason)
        document = {"promptId": prompt_id, "version": made.version}
        return _json(document, status=201 if made.created else 200)

    @app.get("/v1/prompts/{prompt_id}", summary="A prompt", responses=documented(PROMPT_NOT_FOUND))
    async def show_prompt(prompt_id: KeyName, version: Annotated[int | None, Query(ge=1)] = None) -> Response:
        found = await threads.read(flows.definitions.prompt, prompt_id, version)
        if found is None:
            raise PROMPT_NOT_FOUND(prompt_id=prompt_id)
        return _json({"promptId": prompt_id, "version": found.version, "template": found.content})

    @app.put("/v1/schemas/{schema_id}", summary="Store a new version of a schema")
    async def put_schema(request: Request, schema_id: KeyName, schema: Schema, reason: Why = None) -> Response:
        actor = actor_of(request.scope)
        made = await threads.read(flows.put_schema, schema_id, schema.jsonSchema, actor=actor, reason=reason)
        return _json({"schemaId": schema_id, "version": made.version}, status=201 if made.created else 200)

    @app.get("/v1/schemas/{schema_id}", summary="A schema", responses=documented(SCHEMA_NOT_FOUND))
    async def show_schema(schema_id: KeyName, version: Annotated[int | None, Query(ge=1)] = None) -> Response:
        found = await threads.read(flows.definitions.schema, schema_id, version)
        if found is None:
            raise SCHEMA_NOT_FOUND(schema_id=schema_id)
        return _json({"schemaId": schema_id, "version": found.version, "jsonSchema": found.content})


def _runs(app: FastAPI, flows: Flows, threads: Threads) -> None:
    @app.post(
        RUNS,
        status_code=201,
        summary="Submit a run",
        responses=documented(FLOW_RUN_INVALID, RUN_ID_TAKEN, FIRESTORE_UNAVAILABLE),
    )
    async def submit(body: Annotated[Any, Body()] = None) -> Response:
        made = await threads.read(flows.submit, body)
        return _json(made.document, status=201)

    @app.get(RUNS, summary="Runs, newest first", responses=documented(FIRESTORE_UNAVAILABLE))
    async def list_runs(
        count: Annotated[int, Query(ge=1, le=PAGE_MAX)] = PAGE_ROWS,
        after: Annotated[str | None, Query(pattern=r"^[0-9]{1,18}:[A-Za-z0-9_-]{1,100}$")] = None,
    ) -> Response:
        page = await threads.read(flows.page, count=count, after=after)
        return _json({"flowRuns": list(page.runs), "next": page.next})

    @app.get("/v1/flow-runs/{run_id}", summary="A run", responses=documented(FLOW_RUN_NOT_FOUND, FIRESTORE_UNAVAILABLE))
    async def show(run_id: str) -> Response:
        return _json(await threads.read(flows.show, _run(run_id)))

    @app.post(
        "/v1/flow-runs/{run_id}/steps/{step_id}/rerun",
        status_code=201,
        summary="Run a step again under a new identity",
        responses=documented(FLOW_RUN_NOT_FOUND, STEP_NOT_FOUND, RERUN_REFUSED, FIRESTORE_UNAVAILABLE),
    )
    async def rerun(request: Request, run_id: str, step_id: str, reason: Why = None) -> Response:
        actor, step = actor_of(request.scope), _step(run_id, step_id)
        fresh, document = await threads.read(flows.rerun, _run(run_id), step, actor=actor, reason=reason)
        return _json({"stepId": fresh, "flowRun": document}, status=201)


def _reports(app: FastAPI, flows: Flows, threads: Threads) -> None:
    missing = documented(FLOW_RUN_NOT_FOUND, STEP_NOT_FOUND, REPORT_NOT_READY)

    @app.get("/v1/flow-runs/{run_id}/steps/{step_id}/report", summary="The artifact of a step", responses=missing)
    async def report(run_id: str, step_id: str) -> Response:
        return _json(await threads.read(flows.report, _run(run_id), _step(run_id, step_id)))

    @app.get("/v1/flow-runs/{run_id}/steps/{step_id}/report.html", summary="A report to read", responses=missing)
    async def report_html(run_id: str, step_id: str) -> Response:
        def made() -> str:
            found = flows.report(_run(run_id), _step(run_id, step_id))
            return report_page(f"{run_id} · {step_id}", found, flows.charts_of(step_id, found))

        headers = {**DATA_HEADERS, "content-security-policy": policy(), "referrer-policy": "no-referrer"}
        return Response(await threads.read(made), media_type="text/html; charset=utf-8", headers=headers)


def _events(app: FastAPI, invocations: Invocations, threads: Threads) -> None:
    retried = documented(FIRESTORE_UNAVAILABLE, FIRESTORE_CLAIM_FAILED, FIRESTORE_FINALIZE_FAILED)

    @app.post(EVENTS, summary="A change of a run, as a CloudEvent", responses=retried)
    async def receive(request: Request) -> Response:
        event = read_event(dict(request.headers), await request.body())
        if event.run_id is None:
            return _json({"result": IGNORED})
        outcome = await threads.invoke(invocations.run, event.run_id, owner=f"event:{event.id}"[:200])
        if outcome.failure is not None:
            raise outcome.failure
        return _json(outcome.document())


async def _in_thread(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, copy_context().run, work)


def _json(document: Any, *, status: int = 200) -> Response:
    return JSONResponse(document, status_code=status, headers=DATA_HEADERS)


def _run(run_id: str) -> str:
    """An id that may be one of ours; whatever else is asked for cannot be there."""
    if not RUN_ID.match(run_id):
        raise FLOW_RUN_NOT_FOUND(run_id=run_id[:100])
    return run_id


def _step(run_id: str, step_id: str) -> str:
    if not STEP_ID.match(step_id):
        raise STEP_NOT_FOUND(run_id=run_id, step_id=step_id[:100])
    return step_id


def _is_submission(scope: Scope) -> bool:
    return scope["method"] == "POST" and not scope["path"].endswith(EVENTS)
