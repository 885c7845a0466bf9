"""One attempt at a tool, and what its outcome means: over plain HTTP here, over MCP in `mcp_client`.

Always true: what the tool's service says about its failure is translated and never passed on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.base import Json, Secret
from holdfast.catalog import CORE, Failure
from holdfast.http import HttpClient, Reply, Timeouts
from holdfast_systems.commerce.connectors.links import STATUS, TOOL_STATUSES
from holdfast_systems.commerce.connectors.tools import Kind, Tool
from holdfast_systems.commerce.faults import TOOL_TIMEOUT, UPSTREAM_ERROR
from holdfast_systems.commerce.faults_outside import TOOL_REFUSED, TOOL_UNAVAILABLE

ANSWER_BYTES_MAX = 262_144
CONNECT_S = 5.0
KEY_HEADER, RUN_HEADER = "idempotency-key", "x-run-id"
_LATE = {CORE["NETWORK_TIMEOUT"].code, CORE["DEADLINE_EXCEEDED"].code}
_NOT_SENT = {"CONNECTION_REFUSED", "DNS_FAILED", "TLS_ERROR", "ADDRESS_REFUSED"}
"""Failures after which the tool's service cannot have seen the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool, with everything that it is sent with."""

    tool: Tool
    url: str
    arguments: dict[str, Json] = field(repr=False)
    secret: Secret | None = None
    key: str = ""
    run_id: str = ""
    timeout_s: float

    def headers(self) -> dict[str, str]:
        """What goes along: the secret as a bearer token, the key, and the run."""
        secret = {} if self.secret is None else {"authorization": f"Bearer {self.secret.reveal()}"}
        key = {KEY_HEADER: self.key} if self.key else {}
        return {**secret, **key, **({RUN_HEADER: self.run_id} if self.run_id else {})}


async def call_http(client: HttpClient, call: Call) -> Json:
    """Send the arguments once and return the JSON of the answer.

    Raises:
        Failure: TOOL_UNAVAILABLE, TOOL_TIMEOUT, TOOL_REFUSED, UPSTREAM_ERROR.
    """
    timeouts = Timeouts(connect_s=min(CONNECT_S, call.timeout_s), read_s=call.timeout_s, total_s=call.timeout_s)
    try:
        reply = await client.send(
            "POST",
            call.url,
            json=call.arguments,
            headers=call.headers(),
            timeouts=timeouts,
            body_bytes_max=ANSWER_BYTES_MAX,
        )
    except Failure as failed:
        failure = unanswered(call, failed.code)
    else:
        return _result(call, reply)
    raise failure  # outside, so that nothing of the exchange comes along as its context


def _result(call: Call, reply: Reply) -> Json:
    if not reply.ok:
        raise answered(call, reply.status, retry_after_s=reply.retry_after_s)
    try:
        return reply.json() if reply.body else None
    except Failure:
        failure = UPSTREAM_ERROR(**_facts(call, "unreadable_answer", known=False))
    raise failure  # outside: what could not be read may hold the secret


def answered(call: Call, status: int, *, retry_after_s: float | None = None, sent: bool = True) -> Failure:
    """The failure that a status of the tool's service is.

    Args:
        sent: whether the call itself was sent; False where the status answered what comes before it.
    """
    reason = f"http_{status}"
    # A gateway in front of the service may answer 502 or 504 after the service has done its work.
    known = not sent or status in (429, 503)
    if status in TOOL_STATUSES or status == 429:
        return TOOL_UNAVAILABLE(retry_after_s=retry_after_s, **_facts(call, reason, known=known), **{STATUS: status})
    if status in (401, 403, 407):
        return UPSTREAM_ERROR(**_facts(call, "credentials_refused", known=True))
    if 400 <= status < 500:
        return TOOL_REFUSED(**_facts(call, reason, known=True))
    return UPSTREAM_ERROR(**_facts(call, reason, known=not sent))


def unanswered(call: Call, code: str) -> Failure:
    """The failure to report when there was no whole answer; the code says why."""
    if code in _LATE:
        return TOOL_TIMEOUT(**_facts(call, "timeout", known=False))
    if code == "RESPONSE_TOO_LARGE":
        return UPSTREAM_ERROR(**_facts(call, "answer_too_large", known=False))
    return TOOL_UNAVAILABLE(**_facts(call, code.lower(), known=code in _NOT_SENT))


def _facts(call: Call, reason: str, *, known: bool) -> dict[str, Any]:
    """What the caller learns. Of a write it learns whether it may have happened."""
    told = {"tool": call.tool.name, "reason": reason}
    return told if call.tool.kind is Kind.READ else {**told, "outcome": "not_run" if known else "unknown"}
