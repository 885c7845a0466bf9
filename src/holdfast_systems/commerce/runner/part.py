"""Assembly of the runner."""

from __future__ import annotations

from holdfast.base import Secret
from holdfast.http import Timeouts, link_check
from holdfast_systems.commerce.loop_client import LoopClient
from holdfast_systems.commerce.model import CONNECTORS, RUNNER
from holdfast_systems.commerce.parts import Context, Part
from holdfast_systems.commerce.runner.api import application
from holdfast_systems.commerce.runner.langflow import Langflow
from holdfast_systems.commerce.runner.links import runner_to_runtime
from holdfast_systems.commerce.settings import SettingInvalid
from holdfast_systems.commerce.standins.langflow import LangflowStandIn
from holdfast_systems.commerce.standins.langflow_tools import ConnectorTools

STANDIN = "langflow"
STANDIN_KEY = Secret("stand-in")
CONNECT_S = 5.0


def part(context: Context) -> Part:
    """The runner, with the stand-in of its runtime where stand-ins are on and no other is set."""
    settings = context.settings
    own = context.ground.standins and not settings.langflow_url
    seconds = settings.runtime_timeout_s
    client = LoopClient(Timeouts(connect_s=min(CONNECT_S, seconds), read_s=seconds, total_s=seconds))
    link = runner_to_runtime()
    langflow = Langflow(
        client,
        link,
        address=context.standin(STANDIN),
        key=settings.langflow_key or STANDIN_KEY,
    )
    return Part(
        name=RUNNER,
        app=application(langflow, context.tokens, context.catalog, timeout_s=seconds),
        checks={"runtime": link_check(link)},
        standins={STANDIN: LangflowStandIn(_tools(context))} if own else {},
        says=[] if context.standin(STANDIN) else ["No agent runtime: set HOLDFAST_COMMERCE_LANGFLOW_URL"],
        stop=client.close,
    )


def _tools(context: Context) -> ConnectorTools | None:
    """How the stand-in's flows reach their tools; without an address of the connectors, not at all."""
    try:
        return ConnectorTools(context.address_of(CONNECTORS), context.tokens)
    except SettingInvalid:
        return None
