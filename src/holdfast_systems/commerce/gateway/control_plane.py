"""What the gateway asks of the control plane: each question is a value, sent by one driver or the other.

Always true: a repeat of a question is the same request; whatever the control plane says that is not declared here is
BILLING_UNAVAILABLE or UPSTREAM_ERROR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from holdfast.catalog import Failure
from holdfast.catalog.core import INVALID_RESPONSE
from holdfast.guard import Link
from holdfast.http import Reply, Timeouts
from holdfast_systems.commerce.faults import (
    BILLING_UNAVAILABLE,
    INSTANCE_NOT_FOUND,
    INSTANCE_PAUSED,
    INSUFFICIENT_CREDITS,
    NOT_ENTITLED,
    RESERVATION_NOT_FOUND,
    RESERVATION_RELEASED,
    RESERVATION_SETTLED,
    SETTLE_EXCEEDS_RESERVATION,
    UPSTREAM_ERROR,
    WALLET_NOT_FOUND,
)
from holdfast_systems.commerce.gateway.links import Links
from holdfast_systems.commerce.gateway.model import Run
from holdfast_systems.commerce.loop_client import LoopClient
from holdfast_systems.commerce.tokens import Tokens

T = TypeVar("T")

RETRY_AFTER_S = 5.0
PASSED_ON = frozenset(
    fault.code
    for fault in (
        INSTANCE_NOT_FOUND,
        INSTANCE_PAUSED,
        INSUFFICIENT_CREDITS,
        NOT_ENTITLED,
        RESERVATION_NOT_FOUND,
        RESERVATION_RELEASED,
        RESERVATION_SETTLED,
        SETTLE_EXCEEDS_RESERVATION,
        WALLET_NOT_FOUND,
    )
)
"""What the control plane decides about a run, and the gateway says in the same words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Generic[T]):
    """One request to the control plane."""

    link: Link
    method: str
    path: str
    read: Callable[[Reply], T]
    json: dict[str, Any] | None = None
    key: str | None = None
    """What makes a repeat the same request."""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Authorized:
    """Credits are reserved."""

    reservation_id: str
    budget: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The charge stands in the ledger."""

    ledger_entry_id: str
    charged: int


class ControlPlane:
    """Asks the control plane, from the loop and from jobs."""

    def __init__(self, address: str, tokens: Tokens, links: Links, *, timeout_s: float) -> None:
        self._address = address
        self._tokens = tokens
        self._links = links
        self._client = LoopClient(Timeouts(connect_s=timeout_s, read_s=timeout_s, total_s=timeout_s))

    def instance(self, instance_id: str) -> Ask[dict[str, Any]]:
        """The document of an instance."""
        path = f"/instances/{quote(instance_id, safe='')}"
        return Ask(link=self._links.lookup, method="GET", path=path, read=_object)

    def authorize(self, run: Run) -> Ask[Authorized | Failure]:
        """Reserve the budget of a run; a failure among the answers is a refusal."""
        body = {"instanceId": run.instance_id, "requestedBudget": run.budget, "runId": run.billing_id}
        return self.authorize_as(body, run.tenant)

    def authorize_as(self, body: dict[str, Any], tenant: str) -> Ask[Authorized | Failure]:
        """The same, by the body of an earlier request."""
        return Ask(
            link=self._links.authorize,
            method="POST",
            path="/billing/authorize",
            read=lambda reply: _authorized(_object(reply), body),
            json=body,
            key=f"authorize:{body['runId']}",
            tenant=tenant,
        )

    def settle(self, reservation_id: str, amount: int, tenant: str) -> Ask[Settled]:
        """Charge what a run has cost."""
        return Ask(
            link=self._links.settle,
            method="POST",
            path="/billing/settle",
            read=lambda reply: _settled(_object(reply)),
            json={"reservationId": reservation_id, "amount": amount},
            key=f"settle:{reservation_id}",
            tenant=tenant,
        )

    def release(self, reservation_id: str, tenant: str) -> Ask[dict[str, Any]]:
        """Give back what a run does not need."""
        return Ask(
            link=self._links.settle,
            method="POST",
            path="/billing/release",
            read=_object,
            json={"reservationId": reservation_id},
            key=f"release:{reservation_id}",
            tenant=tenant,
        )

    async def ask(self, ask: Ask[T]) -> T:
        """The answer, for the event loop.

        Raises:
            Failure: BILLING_UNAVAILABLE, UPSTREAM_ERROR, or what the control plane decided.
        """
        try:
            answer: T = await self._client.here.call(ask.link, ask.method, self._address + ask.path, **self._said(ask))
        except Failure as failure:
            raise translated(failure) from failure
        return answer

    def ask_now(self, ask: Ask[T]) -> T:
        """The same for code that blocks.

        Raises:
            Failure: as `ask`.
        """
        try:
            answer: T = self._client.sync.call(ask.link, ask.method, self._address + ask.path, **self._said(ask))
        except Failure as failure:
            raise translated(failure) from failure
        return answer

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _said(self, ask: Ask[T]) -> dict[str, Any]:
        body = {} if ask.json is None else {"json": ask.json}
        return {"key": ask.key, "read": ask.read, "headers": self._tokens.headers(ask.tenant), **body}


def translated(failure: Failure) -> Failure:
    """What a failure of the control plane is to the gateway's callers. Pure."""
    if failure.code in PASSED_ON:
        return failure
    status = None if failure.remote is None else failure.remote.status
    if failure.code == INVALID_RESPONSE.code or (status is not None and 400 <= status < 500):
        return UPSTREAM_ERROR(service="control-plane")
    wait_s = max(failure.retry_after_s or 0.0, RETRY_AFTER_S)
    return BILLING_UNAVAILABLE(retry_after_s=wait_s)


def _object(reply: Reply) -> dict[str, Any]:
    read = reply.json()
    if not isinstance(read, dict):
        raise INVALID_RESPONSE(reason="no_object")
    return read


def _authorized(answer: dict[str, Any], asked: dict[str, Any]) -> Authorized | Failure:
    if answer.get("allowed") is True:
        try:
            return Authorized(str(answer["reservationId"]), int(answer["budget"]))
        except (KeyError, TypeError, ValueError) as wrong:
            raise INVALID_RESPONSE(reason="authorized") from wrong
    if answer.get("allowed") is not False:
        raise INVALID_RESPONSE(reason="allowed")
    if answer.get("code") == INSTANCE_PAUSED.code:
        return INSTANCE_PAUSED(instanceId=asked["instanceId"])
    if answer.get("code") == NOT_ENTITLED.code:
        return NOT_ENTITLED(instanceId=asked["instanceId"])
    return INSUFFICIENT_CREDITS(
        instanceId=asked["instanceId"],
        balance=answer.get("balance"),
        requiredBudget=answer.get("requiredBudget", asked["requestedBudget"]),
    )


def _settled(answer: dict[str, Any]) -> Settled:
    try:
        return Settled(str(answer["ledgerEntryId"]), int(answer["charged"]))
    except (KeyError, TypeError, ValueError) as wrong:
        raise INVALID_RESPONSE(reason="settled") from wrong
