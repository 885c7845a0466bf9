"""The agent runtime: Langflow's `POST /api/v1/run/{flow}`, at once or as a stream.

Always true: every request carries the run id, so that a runtime that knows it executes a run once; what it says about
its failures is translated, and a failure says whether the flow may have run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from holdfast.base import CodecError, Secret, decode
from holdfast.catalog import Failure
from holdfast.catalog.core import (
    BREAKER_OPEN,
    CONNECTION_REFUSED,
    DEADLINE_EXCEEDED,
    DNS_FAILED,
    GATEWAY_TIMEOUT,
    INVALID_RESPONSE,
    NETWORK_TIMEOUT,
    SERVICE_UNAVAILABLE,
    UPSTREAM_BUSY,
    UPSTREAM_REJECTED,
    UPSTREAM_UNAUTHORIZED,
)
from holdfast.catalog.status import DEFAULT_STATUSES
from holdfast.guard import Link
from holdfast.http import Reply
from holdfast.http.judge import Judge
from holdfast.http.streaming import StreamedReply
from holdfast_systems.commerce.faults import EXECUTION_UNAVAILABLE, RUN_TIMEOUT, UPSTREAM_ERROR
from holdfast_systems.commerce.loop_client import LoopClient

STATUSES = DEFAULT_STATUSES.but({500: UPSTREAM_REJECTED})
"""A flow that failed does not mean that the runtime is away: it must not open the breaker for all other flows."""
RETRY_AFTER_S = 5.0
"""When to come back, where the runtime does not say."""
UNREACHED = frozenset({CONNECTION_REFUSED.code, DNS_FAILED.code, BREAKER_OPEN.code})
REFUSED = frozenset({SERVICE_UNAVAILABLE.code, UPSTREAM_BUSY.code})
REJECTED = frozenset({UPSTREAM_REJECTED.code, UPSTREAM_UNAUTHORIZED.code})
LATE = frozenset({NETWORK_TIMEOUT.code, DEADLINE_EXCEEDED.code, GATEWAY_TIMEOUT.code})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a flow."""

    id: str
    instance_id: str
    tenant: str
    flow: str
    text: str
    session_id: str


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The whole answer."""

    text: str


class Langflow:
    """Runs flows. The deadline of the context bounds every run."""

    def __init__(self, client: LoopClient, link: Link, *, address: str, key: Secret) -> None:
        self._client = client
        self._link = link
        self._address = address
        self._key = key

    async def run(self, run: Run) -> str:
        """The text that the flow answers.

        Raises:
            Failure: EXECUTION_UNAVAILABLE, RUN_TIMEOUT or UPSTREAM_ERROR, with `mayHaveRun`.
        """
        try:
            return await self._client.here.call(
                self._link,
                "POST",
                self._url(run, streams=False),
                key=run.id,
                read=_text,
                statuses=STATUSES,
                json=_body(run),
                headers=self._headers(run),
            )
        except Failure as failure:
            raise translated(failure, run.id) from failure

    async def stream(self, run: Run) -> AsyncIterator[Delta | Completed]:
        """The same piece by piece; the last is `Completed`. It is begun again only while nothing has come.

        Raises:
            Failure: as `run`.
        """
        try:
            async with AsyncExitStack() as stack:
                reply = await self._link.keyed(run.id).call(self._opened, run, stack)
                said = ""
                async for line in reply.lines():
                    event, data = _event(line)
                    if event == "token":
                        chunk = str(data.get("chunk", ""))
                        said += chunk
                        yield Delta(chunk)
                    elif event == "end":
                        yield Completed(_answer(data.get("result")) or said)
                        return
                    elif event == "error":
                        raise UPSTREAM_ERROR(runId=run.id, mayHaveRun=True)
                raise INVALID_RESPONSE(reason="no_end")
        except Failure as failure:
            raise translated(failure, run.id) from failure

    async def _opened(self, run: Run, stack: AsyncExitStack) -> StreamedReply:
        """A stream that has begun, as one attempt."""
        own = AsyncExitStack()
        async with own:
            reply = await own.enter_async_context(
                self._client.here.stream(
                    "POST", self._url(run, streams=True), json=_body(run), headers=self._headers(run)
                )
            )
            if reply.status != 200:
                failure = Judge(link=self._link, statuses=STATUSES).failure(await reply.whole())
                raise INVALID_RESPONSE(reason="status") if failure is None else failure
            stack.push_async_exit(own.pop_all())
            return reply
        raise AssertionError("an attempt returns or raises")

    def _url(self, run: Run, *, streams: bool) -> str:
        return f"{self._address}/api/v1/run/{quote(run.flow, safe='')}?stream={'true' if streams else 'false'}"

    def _headers(self, run: Run) -> dict[str, str]:
        # Langflow hands headers of this form to the flow as its variables.
        return {
            "x-api-key": self._key.reveal(),
            "x-run-id": run.id,
            "x-langflow-global-var-run-id": run.id,
            "x-langflow-global-var-instance-id": run.instance_id,
        }


def translated(failure: Failure, run_id: str) -> Failure:
    """What a failure of the runtime is to our callers. Pure."""
    if failure.code in (EXECUTION_UNAVAILABLE.code, RUN_TIMEOUT.code) or "mayHaveRun" in failure.details:
        return failure
    facts: dict[str, Any] = {"runId": run_id, "mayHaveRun": True}
    connecting = failure.code == NETWORK_TIMEOUT.code and failure.details.get("phase") == "connect"
    if failure.code in UNREACHED | REFUSED or connecting:
        wait_s = max(failure.retry_after_s or 0.0, RETRY_AFTER_S)
        return EXECUTION_UNAVAILABLE(retry_after_s=wait_s, **{**facts, "mayHaveRun": False})
    if failure.code in LATE:
        return RUN_TIMEOUT(**facts)
    if failure.code in REJECTED:
        ran = failure.remote is not None and failure.remote.status == 500
        return UPSTREAM_ERROR(**{**facts, "mayHaveRun": ran})
    if failure.code == INVALID_RESPONSE.code:
        return UPSTREAM_ERROR(**facts)
    return EXECUTION_UNAVAILABLE(retry_after_s=RETRY_AFTER_S, **facts)


def _body(run: Run) -> dict[str, Any]:
    return {
        "input_value": run.text,
        "input_type": "chat",
        "output_type": "chat",
        "session_id": run.session_id,
        "tweaks": {},
    }


def _text(reply: Reply) -> str:
    found = _answer(reply.json())
    if found is None:
        raise INVALID_RESPONSE(reason="no_message")
    return found


def _answer(result: Any) -> str | None:
    """The text at `outputs[0].outputs[0].results.message.text`; None where there is none."""
    try:
        text = result["outputs"][0]["outputs"][0]["results"]["message"]["text"]
    except (KeyError, IndexError, TypeError):
        return None
    return text if isinstance(text, str) else None


def _event(line: bytes) -> tuple[str, Mapping[str, Any]]:
    """An event of a stream: JSON by itself, or behind `data:` as standard event streams have it."""
    try:
        read = decode(line.removeprefix(b"data:").strip(), bytes_max=max(1, len(line)))
    except CodecError as broken:
        raise INVALID_RESPONSE(reason=broken.reason) from broken
    if not isinstance(read, dict):
        raise INVALID_RESPONSE(reason="no_object")
    data = read.get("data")
    return str(read.get("event", "")), data if isinstance(data, dict) else {}
