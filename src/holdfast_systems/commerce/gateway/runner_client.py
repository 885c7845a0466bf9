"""The runner as the gateway calls it: one request for each run, never repeated.

Always true: a failure says by `mayHaveRun` whether the run may have done some work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.base import CodecError, decode
from holdfast.catalog import Failure
from holdfast.catalog.core import (
    BREAKER_OPEN,
    CONNECTION_REFUSED,
    DEADLINE_EXCEEDED,
    DNS_FAILED,
    INVALID_RESPONSE,
    NETWORK_TIMEOUT,
)
from holdfast.guard import Link
from holdfast.http import Reply, Timeouts
from holdfast.policy import within
from holdfast_systems.commerce.event_stream import MEDIA_TYPE
from holdfast_systems.commerce.faults import COMMERCE, EXECUTION_UNAVAILABLE, RUN_TIMEOUT, UPSTREAM_ERROR
from holdfast_systems.commerce.gateway.instances import Instance
from holdfast_systems.commerce.gateway.model import Run
from holdfast_systems.commerce.loop_client import LoopClient
from holdfast_systems.commerce.tokens import Tokens

RETRY_AFTER_S = 5.0
RUN_S_MAX = 3_600.0
UNREACHED = frozenset({CONNECTION_REFUSED.code, DNS_FAILED.code, BREAKER_OPEN.code})
LATE = frozenset({NETWORK_TIMEOUT.code, DEADLINE_EXCEEDED.code})
OWN = frozenset({EXECUTION_UNAVAILABLE.code, RUN_TIMEOUT.code, UPSTREAM_ERROR.code})
"""What the runner says in words that are also the gateway's."""

TellDelta = Callable[[str], None]
"""Told of each piece of the answer as it comes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run came to."""

    output: str
    credits: int


class RunnerClient:
    """Calls the runner."""

    def __init__(self, address: str, tokens: Tokens, link: Link) -> None:
        self._url = f"{address}/v1/runs"
        self._tokens = tokens
        self._link = link
        self._client = LoopClient(Timeouts(read_s=RUN_S_MAX, total_s=RUN_S_MAX))

    async def run(self, run: Run, instance: Instance, tell: TellDelta | None) -> Answer:
        """Execute the run, within the time of its instance; with `tell`, piece by piece.

        Raises:
            Failure: EXECUTION_UNAVAILABLE, RUN_TIMEOUT or UPSTREAM_ERROR.
        """
        asked = {
            "json": _body(run, instance),
            "headers": {
                **self._tokens.headers(run.tenant),
                "accept": "application/json" if tell is None else MEDIA_TYPE,
            },
        }
        try:
            with within(instance.run_timeout_s):
                if tell is None:
                    answer = await self._link.call(self._whole, asked)
                else:
                    answer = await self._link.call(self._streamed, asked, tell)
        except Failure as failure:
            raise translated(failure, run.id) from failure
        if isinstance(answer, Failure):
            raise translated(answer, run.id)
        return answer

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    # A failure that the runner tells is returned: one flow that is broken must not open the breaker for all others.

    async def _whole(self, asked: dict[str, Any]) -> Answer | Failure:
        reply = await self._client.here.send("POST", self._url, **asked)
        return refusal_of(reply) if reply.status != 200 else _answer(reply.json())

    async def _streamed(self, asked: dict[str, Any], tell: TellDelta) -> Answer | Failure:
        async with self._client.here.stream("POST", self._url, **asked) as reply:
            if reply.status != 200:
                return refusal_of(await reply.whole())
            async for line in reply.lines():
                event = _event(line)
                if event is None:
                    continue
                if event.get("type") == "delta":
                    tell(str(event.get("text", "")))
                elif event.get("type") == "end":
                    return _answer(event)
                elif event.get("type") == "error":
                    return _named(event) or INVALID_RESPONSE(reason="error_event")
        raise INVALID_RESPONSE(reason="no_end")


def translated(failure: Failure, run_id: str) -> Failure:
    """What a failure of the runner is to the gateway's callers. Pure."""
    facts: dict[str, Any] = {"runId": run_id, "charged": 0, "mayHaveRun": True}
    if failure.code in OWN and "mayHaveRun" in failure.details:
        facts["mayHaveRun"] = bool(failure.details["mayHaveRun"])
        again = None if facts["mayHaveRun"] else failure.retry_after_s or RETRY_AFTER_S
        return failure.fault.occur(retry_after_s=again, **facts)
    connecting = failure.code == NETWORK_TIMEOUT.code and failure.details.get("phase") == "connect"
    if failure.code in UNREACHED or connecting:
        return EXECUTION_UNAVAILABLE(retry_after_s=RETRY_AFTER_S, **{**facts, "mayHaveRun": False})
    if failure.code in LATE:
        return RUN_TIMEOUT(**facts)
    if failure.code == INVALID_RESPONSE.code:
        return UPSTREAM_ERROR(**facts)
    return EXECUTION_UNAVAILABLE(**facts)


def refusal_of(reply: Reply) -> Failure:
    """The failure that the runner's reply is: by its code, and where something else answered, by its status."""
    try:
        body = reply.json()
    except Failure:
        body = None
    named = _named(body)
    if named is not None:
        named.retry_after_s = reply.retry_after_s
        return named
    if reply.status in (429, 503):
        return EXECUTION_UNAVAILABLE(retry_after_s=reply.retry_after_s, mayHaveRun=False)
    if reply.status == 504:
        return RUN_TIMEOUT(mayHaveRun=True)
    if reply.status >= 500:
        return EXECUTION_UNAVAILABLE(mayHaveRun=True)
    # Refused before it began: another version of the runner, or a token that it does not know.
    return UPSTREAM_ERROR(mayHaveRun=False)


def _named(body: Any) -> Failure | None:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or error.get("code") not in OWN:
        return None
    details = error.get("details")
    may_have_run = details.get("mayHaveRun", True) if isinstance(details, dict) else True
    return COMMERCE[error["code"]].occur(mayHaveRun=bool(may_have_run))


def _body(run: Run, instance: Instance) -> dict[str, Any]:
    return {
        "runId": run.id,
        "instanceId": run.instance_id,
        "tenant": run.tenant,
        "flow": instance.flow,
        "input": run.input,
        "sessionId": f"{run.instance_id}:{run.user_id}",
        "timeoutS": instance.run_timeout_s,
    }


def _answer(read: Any) -> Answer:
    try:
        # PostgreSQL keeps no NUL character, and an answer that cannot be kept would be an answer that is lost.
        output = str(read["output"]).replace("\0", "\ufffd")
        return Answer(output, max(0, int(read["usage"]["credits"])))
    except (KeyError, TypeError, ValueError) as wrong:
        raise INVALID_RESPONSE(reason="answer") from wrong


def _event(line: bytes) -> dict[str, Any] | None:
    """The event of a line; None for a line that only names it."""
    if not line.startswith(b"data:"):
        return None
    try:
        read = decode(line.removeprefix(b"data:").strip(), bytes_max=len(line))
    except CodecError as broken:
        raise INVALID_RESPONSE(reason=broken.reason) from broken
    return read if isinstance(read, dict) else None
