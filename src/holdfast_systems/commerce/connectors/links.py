"""Where the connectors call others: the control plane, the vault, and the tools themselves."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.policy import NEVER, Backoff, Full, Retry
from holdfast_systems.commerce.connectors.tools import Kind, Tool
from holdfast_systems.commerce.settings import Settings

TOOL_STATUSES = frozenset({502, 503, 504})
VAULT_STATUSES = frozenset({503, 504})
ATTEMPTS = 3
"""The first, and at most two retries."""
LINKS_MAX = 1_000
STATUS = "status"
"""The detail of a failure that says which status the callee answered with."""


def on_status(statuses: Collection[int]) -> Retry:
    """Retry what was answered with one of these statuses, and nothing else."""

    def answered(error: BaseException) -> bool:
        return isinstance(error, Failure) and error.details.get(STATUS) in statuses

    backoff = Backoff.exponential(0.1, cap_s=1.0, jitter=Full())
    return Retry(attempts=ATTEMPTS, backoff=backoff, on=answered, retry_after_max_s=2.0)


class Links:
    """The links of one process. The retries of the seed are exact, so that no budget takes one away."""

    def __init__(self, settings: Settings) -> None:
        self._tool_timeout_s = settings.tool_timeout_s
        self._tools: dict[Tool, Link] = {}
        self.control_plane = Link(
            "connectors → control plane",
            timeout_s=settings.control_plane_timeout_s,
            retry=on_status(TOOL_STATUSES),
            budget=None,
        )
        self.vault = Link(
            "connectors → vault", timeout_s=settings.vault_timeout_s, retry=on_status(VAULT_STATUSES), budget=None
        )

    def tool(self, tool: Tool) -> Link:
        """The link of a tool: all attempts of a call share its time; a write without a key has one attempt."""
        repeats = tool.kind is Kind.READ or tool.takes_key
        found = self._tools.get(tool)
        if found is None:
            while len(self._tools) >= LINKS_MAX:
                del self._tools[next(iter(self._tools))]
            found = self._tools[tool] = Link(
                f"connectors → {tool.name}",
                total_s=tool.timeout_s or self._tool_timeout_s,
                retry=on_status(TOOL_STATUSES) if repeats else NEVER,
                budget=None,
                writes=tool.kind is Kind.WRITE,
            )
        return found
