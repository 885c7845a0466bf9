"""What the gateway knows about instances: asked of the control plane, remembered for seconds, kept for an outage."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from holdfast.base import decode, encode, monotonic_s
from holdfast.catalog import Failure
from holdfast.policy.deadline import without_deadline
from holdfast.store import Store
from holdfast_systems.commerce.faults import BILLING_UNAVAILABLE, INSTANCE_NOT_FOUND, UPSTREAM_ERROR
from holdfast_systems.commerce.model import InstanceStatus

KNOWN_MAX = 10_000
KEEP_EVERY_S = 60.0
"""How often what is kept for an outage is written again although it has not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """What the control plane says about an instance, as far as a run needs it."""

    id: str
    tenant: str
    flow: str
    paused: bool
    soft_fail: bool
    run_budget: int
    run_timeout_s: float
    requests_per_minute: int
    concurrent_runs: int
    sessions_per_minute: int
    chats_per_minute: int
    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    instance: Instance
    seen_s: float
    kept_s: float


Fetch = Callable[[str], Awaitable[dict[str, Any]]]
"""Asks the control plane for the document of an instance."""


class Instances:
    """Looks instances up. While the control plane is away, what was said last still counts."""

    def __init__(self, store: Store, fetch: Fetch, *, cache_s: float, defaults: dict[str, int]) -> None:
        """
        Args:
            cache_s: how long an answer serves without asking again.
            defaults: limits that a document does not name.
        """
        self._store = store
        self._fetch = fetch
        self._cache_s = cache_s
        self._defaults = defaults
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def get(self, instance_id: str, *, tenant: str = "") -> Instance:
        """The instance; with a tenant, only if it is theirs.

        Raises:
            Failure: INSTANCE_NOT_FOUND; BILLING_UNAVAILABLE while the control plane is away and never spoke of it.
        """
        instance = await self._get(instance_id)
        if tenant and instance.tenant != tenant:
            raise INSTANCE_NOT_FOUND(instanceId=instance_id)
        return instance

    async def _get(self, instance_id: str) -> Instance:
        known = self._known.get(instance_id)
        # One that is said to be paused is asked about again: it may have been resumed a moment ago.
        if known is not None and monotonic_s() - known.seen_s < self._cache_s and not known.instance.paused:
            return known.instance
        try:
            # What is found out serves others too: a caller that is in a hurry must not make it look like an outage.
            with without_deadline():
                document = await self._fetch(instance_id)
        except Failure as failure:
            if failure.code == INSTANCE_NOT_FOUND.code:
                self._known.pop(instance_id, None)
            if failure.code != BILLING_UNAVAILABLE.code:
                raise
            return await self._remembered(instance_id, failure)
        instance = read_instance(document, self._defaults)
        kept_s = known.kept_s if known is not None and known.instance == instance else float("-inf")
        if monotonic_s() - kept_s > KEEP_EVERY_S:
            text = encode(document)
            await self._store.atomic_async(
                lambda tx: tx.run("gateway.know", id=instance.id, document=text), repeatable=True
            )
            kept_s = monotonic_s()
        self._remember(_Known(instance, monotonic_s(), kept_s))
        return instance

    async def _remembered(self, instance_id: str, failure: Failure) -> Instance:
        known = self._known.get(instance_id)
        if known is not None:
            return known.instance
        found = await self._store.atomic_async(lambda tx: tx.row("gateway.known", id=instance_id), write=False)
        if found is None:
            raise failure
        return read_instance(decode(found[0]), self._defaults)

    def _remember(self, known: _Known) -> None:
        self._known[known.instance.id] = known
        self._known.move_to_end(known.instance.id)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)


def read_instance(document: Any, defaults: dict[str, int]) -> Instance:
    """The instance of a document.

    Raises:
        Failure: UPSTREAM_ERROR when it says something else.
    """
    try:
        limits = {**defaults, **{name: value for name, value in document["limits"].items() if value is not None}}
        return Instance(
            id=str(document["instanceId"]),
            tenant=str(document["tenant"]),
            flow=str(document["flow"]),
            paused=document["status"] == InstanceStatus.PAUSED,
            soft_fail=bool(document["softFail"]),
            run_budget=int(document["runBudget"]),
            run_timeout_s=float(document["runTimeoutS"]),
            requests_per_minute=int(limits["requestsPerMinute"]),
            concurrent_runs=int(limits["concurrentRuns"]),
            sessions_per_minute=int(limits["sessionsPerMinute"]),
            chats_per_minute=int(limits["chatsPerMinute"]),
            origins=tuple(str(origin) for origin in document.get("origins") or ()),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise UPSTREAM_ERROR(service="control-plane", reason="instance") from wrong
