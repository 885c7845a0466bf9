"""What the control plane says about an instance: its limits, its allowlist and its bindings, remembered for seconds.

Always true: what is older than the time it may be remembered is not used, so that without the control plane no tool
runs. What the control plane does not know is asked again each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from holdfast.base import monotonic_s
from holdfast.catalog import Failure, Fault
from holdfast.guard import Link
from holdfast.http import HttpClient, Reply, Timeouts
from holdfast_systems.commerce.connectors.links import STATUS
from holdfast_systems.commerce.faults import BINDING_NOT_FOUND, INSTANCE_NOT_FOUND, UPSTREAM_ERROR
from holdfast_systems.commerce.faults_outside import CONTROL_PLANE_UNAVAILABLE
from holdfast_systems.commerce.model import BindingStatus, InstanceStatus
from holdfast_systems.commerce.tokens import Tokens

REMEMBERED_MAX = 10_000
ANSWER_BYTES_MAX = 262_144


@dataclass(frozen=True, slots=True)
class Instance:
    """What the connectors have to know of an instance."""

    id: str
    tenant: str
    status: str
    tool_calls_per_minute: int

    @property
    def paused(self) -> bool:
        """Whether its tools are not to be used now."""
        return self.status == InstanceStatus.PAUSED


@dataclass(frozen=True, slots=True)
class Binding:
    """How an instance uses a tool."""

    status: str
    fields: Mapping[str, Any]
    secret_path: str

    @property
    def active(self) -> bool:
        """Whether the tool may be used with it."""
        return self.status == BindingStatus.ACTIVE


class ControlPlane:
    """Asks the control plane. One for each event loop."""

    def __init__(
        self, client: HttpClient, link: Link, *, address: str, tokens: Tokens, timeout_s: float, remembered_s: float
    ) -> None:
        self._client = client
        self._link = link
        self._address = address
        self._tokens = tokens
        self._timeouts = Timeouts(connect_s=timeout_s, read_s=timeout_s, total_s=timeout_s)
        self._remembered_s = remembered_s
        self._known: dict[str, tuple[float, dict[str, Any]]] = {}

    async def instance(self, instance_id: str) -> Instance:
        """The instance.

        Raises:
            Failure: INSTANCE_NOT_FOUND, CONTROL_PLANE_UNAVAILABLE, UPSTREAM_ERROR.
        """
        said = await self._ask(f"/instances/{quote(instance_id, safe='')}", missing=INSTANCE_NOT_FOUND)
        limits = said.get("limits")
        count = limits.get("toolCallsPerMinute") if isinstance(limits, dict) else None
        if not isinstance(said.get("tenant"), str) or not isinstance(count, int) or count < 1:
            raise UPSTREAM_ERROR(reason="unreadable_answer")
        return Instance(instance_id, said["tenant"], str(said.get("status")), count)

    async def allowed(self, instance_id: str) -> frozenset[str]:
        """The tools that the instance may use.

        Raises:
            Failure: as `instance`.
        """
        said = await self._ask(f"/instances/{quote(instance_id, safe='')}/allowlist", missing=INSTANCE_NOT_FOUND)
        tools = said.get("tools")
        return frozenset(str(one) for one in tools) if isinstance(tools, list) else frozenset()

    async def binding(self, instance_id: str, tool: str) -> Binding:
        """How the instance uses the tool.

        Raises:
            Failure: BINDING_NOT_FOUND; and as `instance`.
        """
        path = f"/instances/{quote(instance_id, safe='')}/bindings/{quote(tool, safe='')}"
        said = await self._ask(path, missing=BINDING_NOT_FOUND)
        fields = said.get("fields")
        return Binding(
            str(said.get("status")), fields if isinstance(fields, dict) else {}, str(said.get("secretPath") or "")
        )

    async def _ask(self, path: str, *, missing: Fault) -> dict[str, Any]:
        known = self._known.get(path)
        asked_s = monotonic_s()
        if known is not None and asked_s < known[0]:
            return known[1]
        try:
            reply = await self._link.call(self._attempt, path)
            said = reply.json() if reply.ok else None
        except (Failure, TimeoutError) as failed:
            status = failed.details.get(STATUS) if isinstance(failed, Failure) else None
            raise CONTROL_PLANE_UNAVAILABLE(reason=f"http_{status}" if status else "no_answer") from failed
        if reply.status == 404:
            self._known.pop(path, None)
            raise missing()
        if not isinstance(said, dict):
            raise UPSTREAM_ERROR(reason=f"http_{reply.status}")
        while len(self._known) >= REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        # Counted from before the question: an answer that was long on its way is not younger for that.
        self._known[path] = (asked_s + self._remembered_s, said)
        return said

    async def _attempt(self, path: str) -> Reply:
        reply = await self._client.send(
            "GET",
            f"{self._address}{path}",
            headers=self._tokens.headers(),
            timeouts=self._timeouts,
            body_bytes_max=ANSWER_BYTES_MAX,
        )
        if reply.status >= 500 or reply.status == 429:
            raise CONTROL_PLANE_UNAVAILABLE(retry_after_s=reply.retry_after_s, **{STATUS: reply.status})
        return reply
