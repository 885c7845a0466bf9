"""One tool call, from the question whether it may be to the answer without its secret.

The order is fixed: the instance, its allowlist, the tool, its binding, the limit, the secret, the call. Whatever fails
before the call means that no tool ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.base import Json, Secret, digest, encode, new_id
from holdfast.catalog import Failure
from holdfast.http import HttpClient
from holdfast.http.aside import aside
from holdfast_systems.commerce.admission import Caller
from holdfast_systems.commerce.connectors.control_plane import Binding, ControlPlane, Instance
from holdfast_systems.commerce.connectors.limits import ToolLimits
from holdfast_systems.commerce.connectors.links import Links
from holdfast_systems.commerce.connectors.mcp_client import call_mcp
from holdfast_systems.commerce.connectors.redaction import masked
from holdfast_systems.commerce.connectors.tools import STANDIN, Tool, Tools, Transport
from holdfast_systems.commerce.connectors.upstream import ANSWER_BYTES_MAX, Call, call_http, unanswered
from holdfast_systems.commerce.connectors.vault import Vault
from holdfast_systems.commerce.faults import (
    BINDING_INCOMPLETE,
    INSTANCE_NOT_FOUND,
    INSTANCE_PAUSED,
    TOOL_NOT_ALLOWED,
    TOOL_NOT_FOUND,
    UPSTREAM_ERROR,
)
from holdfast_systems.commerce.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a runtime asks for."""

    arguments: Mapping[str, Any]
    run_id: str = ""
    key: str = ""


class ToolCalls:
    """Calls tools for instances. One for each event loop."""

    def __init__(
        self,
        *,
        client: HttpClient,
        links: Links,
        control_plane: ControlPlane,
        vault: Vault,
        tools: Tools,
        limits: ToolLimits,
        settings: Settings,
        standin: Callable[[str], str],
    ) -> None:
        """
        Args:
            standin: where a stand-in is.
        """
        self._client = client
        self._links = links
        self._control_plane = control_plane
        self._vault = vault
        self._tools = tools
        self._limits = limits
        self._timeout_s = settings.tool_timeout_s
        self._standin = standin

    async def call(self, caller: Caller, instance_id: str, name: str, asked: Asked) -> Json:
        """The result of the tool.

        Raises:
            Failure: what stands in the way, or what became of the call.
        """
        instance = await self.instance(caller, instance_id)
        if name not in await self._control_plane.allowed(instance_id):
            raise TOOL_NOT_ALLOWED(instanceId=instance_id, tool=name)
        tool = await aside(lambda: self._tools.get(name))
        if tool is None:
            raise TOOL_NOT_FOUND(tool=name)
        binding = await self._control_plane.binding(instance_id, name)
        if not binding.active:
            raise TOOL_NOT_ALLOWED(instanceId=instance_id, tool=name, reason="binding_disabled")
        if missing := tool.missing(binding.fields, binding.secret_path):
            raise BINDING_INCOMPLETE(instanceId=instance_id, tool=name, missing=missing)
        if instance.paused:
            raise INSTANCE_PAUSED(instanceId=instance_id)
        await self._limits.take(instance_id, instance.tool_calls_per_minute)
        secret = await self._secret(tool, binding)
        return await self._run(instance_id, tool, binding, secret, asked)

    async def listed(self, caller: Caller, instance_id: str) -> list[tuple[Tool, dict[str, Json]]]:
        """The tools that the instance may use, each with the state of its binding.

        Raises:
            Failure: INSTANCE_NOT_FOUND, CONTROL_PLANE_UNAVAILABLE.
        """
        await self.instance(caller, instance_id)
        allowed = await self._control_plane.allowed(instance_id)
        tools = await aside(self._tools.all)
        return [(tool, await self._state(instance_id, tool)) for tool in tools if tool.name in allowed]

    async def instance(self, caller: Caller, instance_id: str) -> Instance:
        """The instance, if it exists for this caller.

        Raises:
            Failure: INSTANCE_NOT_FOUND, CONTROL_PLANE_UNAVAILABLE.
        """
        instance = await self._control_plane.instance(instance_id)
        if not caller.sees(instance.tenant):
            raise INSTANCE_NOT_FOUND()
        return instance

    async def _state(self, instance_id: str, tool: Tool) -> dict[str, Json]:
        try:
            binding = await self._control_plane.binding(instance_id, tool.name)
        except Failure as failure:
            if failure.code != "BINDING_NOT_FOUND":
                raise
            return {"binding": "missing", "missing": []}
        missing: list[Json] = [*tool.missing(binding.fields, binding.secret_path)]
        if not binding.active:
            return {"binding": "disabled", "missing": missing}
        return {"binding": "incomplete" if missing else "active", "missing": missing}

    async def _secret(self, tool: Tool, binding: Binding) -> Secret | None:
        if not tool.secret_field:
            return None
        return await self._vault.read(binding.secret_path, tool.secret_field, tool=tool.name)

    async def _run(self, instance_id: str, tool: Tool, binding: Binding, secret: Secret | None, asked: Asked) -> Json:
        key = _key(instance_id, tool, asked) if tool.takes_key else ""
        call = Call(
            tool=tool,
            url=self._address(tool),
            # What the operator bound wins over what a model made up.
            arguments={**asked.arguments, **binding.fields},
            secret=secret,
            key=key,
            run_id=asked.run_id,
            timeout_s=tool.timeout_s or self._timeout_s,
        )
        link = self._links.tool(tool)
        try:
            result = await (link.keyed(key) if key else link).call(self._attempt, call)
        except TimeoutError:
            failure = unanswered(call, "NETWORK_TIMEOUT")
        except Failure as failed:
            failure = failed if "tool" in failed.details else unanswered(call, failed.code)
        else:
            result = masked(result, secret)
            if len(encode(result)) > ANSWER_BYTES_MAX:
                raise UPSTREAM_ERROR(tool=tool.name, reason="answer_too_large")
            return result
        raise failure

    async def _attempt(self, call: Call) -> Json:
        if call.tool.transport is Transport.MCP:
            return await call_mcp(call)
        return await call_http(self._client, call)

    def _address(self, tool: Tool) -> str:
        if not tool.url.startswith(STANDIN):
            return tool.url
        name, _, path = tool.url.removeprefix(STANDIN).partition("/")
        return f"{self._standin(name)}/{path}"


def _key(instance_id: str, tool: Tool, asked: Asked) -> str:
    """The key of a write: the caller's own, or one that the same call of the same run has again.

    It begins with the instance, so that keys of different tenants cannot meet.
    """
    if asked.key:
        own = asked.key
    elif asked.run_id:
        own = f"{asked.run_id}:{digest(dict(asked.arguments))[:32]}"
    else:
        own = new_id()
    return f"{instance_id}:{tool.name}:{own}"
