"""What the gateway does for its callers: open sessions, run, show runs. Its routes are in `api`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdfast.base import utc_text
from holdfast.http.asgi import Scope
from holdfast.http.aside import aside
from holdfast_systems.commerce.admission import TRUSTED, Caller, CallerKind
from holdfast_systems.commerce.faults import INSTANCE_NOT_FOUND, ORIGIN_NOT_ALLOWED, RUN_NOT_FOUND
from holdfast_systems.commerce.gateway.execution import Executor, lease_s, shielded
from holdfast_systems.commerce.gateway.instances import Instance, Instances
from holdfast_systems.commerce.gateway.limits import MinuteLimits
from holdfast_systems.commerce.gateway.model import (
    Billing,
    Run,
    RunState,
    answer_of,
    billing_word,
    code_of,
    input_hash,
    run_key,
)
from holdfast_systems.commerce.gateway.origins import Origins, let_read, origin_of_request
from holdfast_systems.commerce.gateway.runs import NewRun, Runs
from holdfast_systems.commerce.model import RUN, make_id
from holdfast_systems.commerce.tokens import WIDGET_S, TokenKind, Tokens

LOOKUPS_PER_SESSION = 10
"""Number of requests that a website may make for each session that it may open; further ones are refused unread."""
PAGE_ROWS = 50
SERVICE_USER = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAsked:
    """One request to run an instance."""

    instance_id: str
    input: str
    client_run_id: str
    user_id: str | None = None


class Gateway:
    """The gateway's work, without its routes."""

    def __init__(
        self,
        *,
        tokens: Tokens,
        instances: Instances,
        runs: Runs,
        executor: Executor,
        limits: MinuteLimits,
        origins: Origins,
        sessions_per_minute: int,
    ) -> None:
        self._tokens = tokens
        self._instances = instances
        self._runs = runs
        self._executor = executor
        self._limits = limits
        self._origins = origins
        self._requests_per_minute = sessions_per_minute * LOOKUPS_PER_SESSION

    async def open_session(self, scope: Scope, instance_id: str, user_id: str) -> dict[str, Any]:
        """A token with which a widget may run one instance for one person.

        Raises:
            Failure: INSTANCE_NOT_FOUND, ORIGIN_NOT_ALLOWED, RATE_LIMITED, BILLING_UNAVAILABLE.
        """
        origin = origin_of_request(scope)
        await self._limits.take("widget_session_requests", self._requests_per_minute, origin)
        instance = await self._instances.get(instance_id)
        if not self._origins.allows(origin, instance):
            raise ORIGIN_NOT_ALLOWED(instanceId=instance_id, origin=origin)
        let_read(scope)
        await self._limits.take("widget_sessions", instance.sessions_per_minute, origin)
        token = self._tokens.sign(
            TokenKind.WIDGET, instance.tenant, lasting_s=WIDGET_S, instance=instance.id, user=user_id, ticket=origin
        )
        return {"token": token, "instanceId": instance.id, "expiresInSeconds": round(WIDGET_S)}

    async def run(self, caller: Caller, asked: RunAsked) -> dict[str, Any]:
        """Run the instance, or say again what the same request came to.

        Raises:
            Failure: whatever keeps the run from its answer.
        """
        run, instance, own = await self._begun(caller, asked)
        return await shielded(self._executor.begin(run, instance)) if own else answer_of(run)

    async def stream(self, caller: Caller, asked: RunAsked) -> AsyncIterator[dict[str, Any]]:
        """The same as events: the pieces of the output as they come, then the end with what was charged.

        Raises:
            Failure: as `run`.
        """
        run, instance, own = await self._begun(caller, asked)
        if not own:
            yield {"type": "delta", "text": run.output}
            yield {"type": "end", **answer_of(run)}
            return
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        task = self._executor.begin(run, instance, pieces.put_nowait)
        task.add_done_callback(lambda _: pieces.put_nowait(None))
        while (piece := await pieces.get()) is not None:
            yield {"type": "delta", "text": piece}
        yield {"type": "end", **await shielded(task)}

    async def show(self, caller: Caller, run_id: str) -> dict[str, Any]:
        """One run.

        Raises:
            Failure: RUN_NOT_FOUND, also for a run that is not the caller's.
        """
        run = await aside(partial(self._runs.find, run_id))
        if run is None or not _sees(caller, run):
            raise RUN_NOT_FOUND(runId=run_id)
        return shown(run)

    async def page(self, caller: Caller, instance_id: str, cursor: str | None) -> dict[str, Any]:
        """Runs of an instance, newest first, with what each cost.

        Raises:
            Failure: INSTANCE_NOT_FOUND.
        """
        instance = await self._instances.get(instance_id, tenant=caller.tenant)
        rows = await aside(partial(self._runs.page, instance.tenant, instance.id, before=cursor, count=PAGE_ROWS + 1))
        more = len(rows) > PAGE_ROWS
        return {
            "runs": [_line(row) for row in rows[:PAGE_ROWS]],
            "nextCursor": rows[PAGE_ROWS - 1]["id"] if more else None,
        }

    async def _begun(self, caller: Caller, asked: RunAsked) -> tuple[Run, Instance, bool]:
        claims = caller.claims
        if caller.kind is CallerKind.WIDGET and (claims is None or claims.instance != asked.instance_id):
            raise INSTANCE_NOT_FOUND(instanceId=asked.instance_id)
        instance = await self._instances.get(asked.instance_id, tenant=caller.tenant)
        if claims is not None and caller.kind is CallerKind.WIDGET:
            if not self._origins.allows(claims.id, instance):
                raise ORIGIN_NOT_ALLOWED(instanceId=instance.id, origin=claims.id)
            await self._limits.take("widget_chats", instance.chats_per_minute, claims.id)
        await self._limits.take("instance_requests", instance.requests_per_minute, instance.id)
        user_id = _user(caller, asked)
        new = NewRun(
            id=make_id(RUN),
            key=run_key(user_id, instance.id, asked.client_run_id),
            user_id=user_id,
            input=asked.input,
            input_hash=input_hash(asked.input),
            instance=instance,
            lease_s=lease_s(instance),
        )
        run, own = await aside(partial(self._runs.begin, new))
        return run, instance, own


def shown(run: Run) -> dict[str, Any]:
    """A run as its caller sees it."""
    return {
        "runId": run.id,
        "instanceId": run.instance_id,
        "userId": run.user_id,
        "status": run.state.value,
        "input": run.input,
        "output": run.output,
        "charged": run.charged if run.output is None else answer_of(run)["charged"],
        "billing": billing_word(run.state, run.billing),
        "ledgerEntryId": run.ledger_entry_id,
        "error": code_of(run.failure),
        "createdAt": utc_text(run.created_us),
        "endedAt": None if run.ended_us is None else utc_text(run.ended_us),
    }


def _line(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "runId": row["id"],
        "userId": row["user_id"],
        "status": row["state"],
        "charged": row["charged"],
        "billing": billing_word(RunState(row["state"]), Billing(row["billing"])),
        "ledgerEntryId": row["ledger_entry_id"],
        "error": code_of(row["failure"]),
        "createdAt": utc_text(row["created_us"]),
        "endedAt": None if row["ended_us"] is None else utc_text(row["ended_us"]),
    }


def _sees(caller: Caller, run: Run) -> bool:
    if not caller.sees(run.tenant):
        return False
    claims = caller.claims
    return caller.kind is not CallerKind.WIDGET or (
        claims is not None and claims.instance == run.instance_id and claims.user == run.user_id
    )


def _user(caller: Caller, asked: RunAsked) -> str:
    """Who runs: the person of the widget, the buyer, or whom a service speaks for."""
    if caller.kind in TRUSTED:
        return asked.user_id or SERVICE_USER
    return caller.claims.user if caller.kind is CallerKind.WIDGET and caller.claims is not None else caller.tenant
