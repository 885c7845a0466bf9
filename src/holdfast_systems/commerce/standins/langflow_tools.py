"""How the flows of the stand-in call tools: as a real flow would, over HTTP, at the connectors."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from holdfast.base import encode
from holdfast.catalog import Failure
from holdfast.http import Reply, Timeouts
from holdfast_systems.commerce.loop_client import LoopClient
from holdfast_systems.commerce.tokens import Tokens

TOOL_S = 30.0
RESULT_CHARS_MAX = 2_000


class ConnectorTools:
    """Calls tools of an instance; what goes wrong is told in the answer, as a model would."""

    def __init__(self, address: str, tokens: Tokens) -> None:
        self._address = address
        self._tokens = tokens
        self._client = LoopClient(Timeouts(read_s=TOOL_S, total_s=TOOL_S))

    async def __call__(self, instance_id: str, tool: str, arguments: dict[str, Any], run_id: str) -> str:
        """What to say about the call."""
        url = f"{self._address}/v1/instances/{quote(instance_id, safe='')}/tools/{quote(tool, safe='')}"
        body = {"arguments": arguments, "runId": run_id, "idempotencyKey": f"{run_id}:{tool}"}
        try:
            reply = await self._client.here.send("POST", url, json=body, headers=self._tokens.headers())
            answer = reply.json()
        except Failure as failure:
            return f"The tool {tool} could not be reached ({failure.code})."
        if not reply.ok or not isinstance(answer, dict):
            return f"The tool {tool} refused ({_code(reply, answer)})."
        return f"{tool} says: {encode(answer.get('result'))[:RESULT_CHARS_MAX]}"


def _code(reply: Reply, answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return str(code or reply.status)[:64]
