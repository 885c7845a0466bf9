"""What every route of the control plane needs: the store, idempotency keys, and how answers are made.

Always true: the effect of a write and its answer under an idempotency key commit in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from holdfast.guard import Answer, Keys
from holdfast.http.aside import aside
from holdfast.http.idempotent import STARTED_KEY
from holdfast.operate import actor_of, carry_out
from holdfast.store import Store, Tx
from holdfast_systems.commerce.admission import caller_of
from holdfast_systems.commerce.faults import IDEMPOTENCY_KEY_REQUIRED

JSON = "application/json"
KEY = "idempotency-key"
NAME_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class Told:
    """What a write answers, and what repeats of it under the same key are answered."""

    body: Any
    status: int = 200
    resources: Mapping[str, str] | None = None
    """The ids of what was created."""
    again: Any = None
    """The body for repeats; None is the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the routes share."""

    store: Store
    keys: Keys

    async def read(self, phase: Callable[[Tx], Any]) -> Response:
        """Answer with what the phase finds."""
        return told(Answer.of_json(await self.store.atomic_async(phase, write=False)))

    async def write(self, request: Request, phase: Callable[[Tx], Told]) -> Response:
        """Do what the phase does and answer with what it says; under a key, both commit together."""
        return told(await self.store.atomic_async(self._answering(request, phase)))

    async def operate(self, request: Request, verb: str, subject: str, phase: Callable[[Tx], Told]) -> Response:
        """The same for an operator's verb: who did it and why is written down in the same transaction."""
        caller = caller_of(request.scope)
        name = f"{caller.kind}:{caller.tenant}"[:NAME_CHARS_MAX] if caller.tenant else str(caller.kind)
        actor, reason = actor_of(request.scope, name), request.query_params.get("reason")
        change = self._answering(request, phase)

        def work() -> Answer:
            return carry_out(self.store, verb, subject, change, actor=actor, reason=reason)

        return told(await aside(work))

    def _answering(self, request: Request, phase: Callable[[Tx], Told]) -> Callable[[Tx], Answer]:
        started = request.scope.get(STARTED_KEY)

        def whole(tx: Tx) -> Answer:
            said = phase(tx)
            answer = Answer.of_json(said.body, status=said.status, resources=said.resources)
            if started is not None:
                again = said.body if said.again is None else said.again
                kept = Answer.of_json(again, status=said.status, resources=said.resources)
                self.keys.finish(started, kept, tx=tx)
            return answer

        return whole


def told(answer: Answer) -> Response:
    """The answer as a response."""
    return Response(answer.body, answer.status, media_type=JSON, headers={"cache-control": "no-store"})


def require_key(request: Request) -> str:
    """The idempotency key, on a route that cannot do without.

    Raises:
        Failure: IDEMPOTENCY_KEY_REQUIRED.
    """
    key = request.headers.get(KEY)
    if key is None:
        raise IDEMPOTENCY_KEY_REQUIRED()
    return key
