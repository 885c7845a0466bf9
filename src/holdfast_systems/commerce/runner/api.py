"""The runner's one route: run a flow and say what it answered and what that costs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import FastAPI, Header, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from holdfast.catalog import Catalog
from holdfast.http import BodyRule, Edge, describe, documented
from holdfast.http.asgi import Application
from holdfast.policy import left_s, within
from holdfast_systems.commerce.admission import Admission
from holdfast_systems.commerce.event_stream import EventStream, wants_stream
from holdfast_systems.commerce.faults import EXECUTION_UNAVAILABLE, REMAP, RUN_TIMEOUT, UPSTREAM_ERROR
from holdfast_systems.commerce.runner.langflow import Delta, Langflow, Run
from holdfast_systems.commerce.runner.usage import credits_of
from holdfast_systems.commerce.tokens import Tokens

INPUT_CHARS_MAX = 32_000
BODY_BYTES_MAX = 262_144
ID_PATTERN = r"^[A-Za-z0-9._:-]{1,100}$"
MARGIN_S_MAX = 0.5
"""Maximum time before its caller's deadline at which the runner gives up, so that the caller hears of it."""
MARGIN_SHARE = 10


class RunRequest(BaseModel):
    """What the gateway asks for."""

    model_config = ConfigDict(extra="forbid")
    runId: str = Field(pattern=ID_PATTERN)  # noqa: N815 - the names of the wire
    instanceId: str = Field(pattern=ID_PATTERN)  # noqa: N815
    tenant: str = Field(min_length=1, max_length=200)
    flow: str = Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")
    input: str = Field(min_length=1, max_length=INPUT_CHARS_MAX)
    sessionId: str = Field(min_length=1, max_length=500)  # noqa: N815
    timeoutS: float | None = Field(default=None, gt=0, le=3_600)  # noqa: N815

    def run(self) -> Run:
        """The same as the runtime's client takes it."""
        return Run(
            id=self.runId,
            instance_id=self.instanceId,
            tenant=self.tenant,
            flow=self.flow,
            text=self.input,
            session_id=self.sessionId,
        )


def application(langflow: Langflow, tokens: Tokens, catalog: Catalog, *, timeout_s: float) -> Application:
    """The runner, for services and operators.

    Args:
        timeout_s: the longest that a run may take at the runtime.
    """
    app = FastAPI(
        title="Runner",
        summary="Runs an agent's flow at the runtime",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )

    @app.post(
        "/v1/runs", responses=documented(EXECUTION_UNAVAILABLE, UPSTREAM_ERROR, RUN_TIMEOUT), summary="Run a flow"
    )
    async def run(request: RunRequest, accept: Annotated[str, Header()] = "") -> Response:
        seconds = time_for(timeout_s, request.timeoutS, left_s())
        if wants_stream(accept):
            return EventStream(_events(langflow, request.run(), seconds))
        with within(seconds):
            output = await langflow.run(request.run())
        return JSONResponse(_completed(request.runId, output))

    describe(app, catalog=catalog, remap=REMAP)
    return Edge(app, catalog=catalog, remap=REMAP, body=BodyRule(bytes_max=BODY_BYTES_MAX), access=Admission(tokens))


def time_for(timeout_s: float, asked_s: float | None, left: float) -> float:
    """How long the runtime may take: the shortest of our own limit, the caller's, and what its deadline leaves."""
    margin_s = min(MARGIN_S_MAX, left / MARGIN_SHARE)
    return max(0.0, min(timeout_s, timeout_s if asked_s is None else asked_s, left - margin_s))


async def _events(langflow: Langflow, run: Run, seconds: float) -> AsyncIterator[dict[str, Any]]:
    with within(seconds):
        async for piece in langflow.stream(run):
            if isinstance(piece, Delta):
                yield {"type": "delta", "text": piece.text}
            else:
                yield {"type": "end", **_completed(run.id, piece.text)}


def _completed(run_id: str, output: str) -> dict[str, Any]:
    return {"runId": run_id, "output": output, "usage": {"credits": credits_of(output), "words": len(output.split())}}
