"""Rate limits at the edge: by instance, origin, client, key or tenant.

A refusal is a 429 that says when to come back. Every reply that was counted carries the `RateLimit-Policy` and
`RateLimit` fields of draft-ietf-httpapi-ratelimit-headers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from holdfast.base.arguments import function, instance, is_a
from holdfast.http.access import identity
from holdfast.http.asgi import Scope, header
from holdfast.http.aside import aside
from holdfast.http.exchange import Exchange
from holdfast.http.leases import Leases, Taken
from holdfast.policy.rate_limit import Limited, RateLimit

if TYPE_CHECKING:
    from holdfast.store import Store

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")

By = Callable[[Scope], str | None]
"""Whose tokens a request takes; None takes nobody's."""


def by_origin(scope: Scope) -> str:
    """The page that the request comes from, as browsers tell it; all that tell nothing count together."""
    return header(scope, "origin").lower()


def by_client(scope: Scope) -> str:
    """The address that the connection comes from."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def by_key(scope: Scope) -> str | None:
    """The API key."""
    known = identity(scope)
    return None if known is None else known.id


def by_tenant(scope: Scope) -> str | None:
    """The tenant of the API key."""
    known = identity(scope)
    return None if known is None else known.tenant


def by_instance(pattern: str) -> By:
    """The part of the path that the pattern's first group finds, such as `/instances/([^/]+)`."""
    compiled = re.compile(pattern)

    def by_path(scope: Scope) -> str | None:
        found = compiled.search(scope["path"])
        return found[1] if found else None

    return by_path


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRule:
    """One limit: its name in the reply's fields, its rate, and whose requests are counted together."""

    name: str
    rate: RateLimit
    by: By
    """Whose requests count together, such as `by_client`; a request for which it answers None is not counted."""
    when: Callable[[Scope], bool] | None = None
    """Which requests it is about; None is all of them."""
    after_key: bool = False
    """Set where `by` is a function of yours that asks for the identity; `by_key` and `by_tenant` need not say it."""

    def __post_init__(self) -> None:
        if not is_a(self.name, str) or not _NAME.match(self.name):
            raise ValueError(f"{self.name!r} is not a name for a limit: a-z, 0-9, dot, dash and underscore, at most 64")
        instance("rate", self.rate, RateLimit, "write rate=RateLimit.per_minute(60)")
        function("by", self.by, "give by_client, by_key, … or a function of the scope", optional=False)
        function("when", self.when, "give a function of the scope")

    @property
    def identified(self) -> bool:
        """Whether it can be asked only when the API key is known."""
        return self.after_key or self.by in (by_key, by_tenant)


class RateLimits:
    """The limits of an edge. With a store all processes share them; without, each process has its own."""

    def __init__(self, *rules: RateRule, store: Store | None = None) -> None:
        for rule in rules:
            instance(
                "RateLimits", rule, RateRule, "write RateRule(name=…, rate=RateLimit.per_minute(60), by=by_client)"
            )
        names = [rule.name for rule in rules]
        if len(set(names)) != len(names):
            raise ValueError("two limits have the same name")
        counted = [_Counted(rule, Leases(rule.name, rule.rate, store)) for rule in rules]
        self.early = tuple(one for one in counted if not one.rule.identified)
        """Asked before the API key is looked at, so that guessing keys is limited too."""
        self.late = tuple(one for one in counted if one.rule.identified)


@dataclass(frozen=True, slots=True)
class _Counted:
    rule: RateRule
    leases: Leases


async def count(exchange: Exchange, counted: Sequence[_Counted]) -> None:
    """Take a token of every limit that this request is about.

    Raises:
        Failure: RATE_LIMIT_EXCEEDED with the time to wait.
    """
    scope = exchange.scope
    taken: list[tuple[_Counted, str]] = []
    for one in counted:
        if one.rule.when is not None and not one.rule.when(scope):
            continue
        subject = one.rule.by(scope)
        if subject is None:
            continue
        found = one.leases.quick(subject)
        answer = found if found is not None else await aside(partial(one.leases.take, subject))
        _tell(exchange, one.rule, answer)
        if isinstance(answer, Limited):
            for earlier, spent in taken:
                earlier.leases.refund(spent)
            details = one.rule.rate.details(answer)
            fault = exchange.voice.fault("RATE_LIMIT_EXCEEDED")
            raise fault.occur(retry_after_s=answer.retry_after_s, **details)
        taken.append((one, subject))


def _tell(exchange: Exchange, rule: RateRule, answer: Taken | Limited) -> None:
    rate = rule.rate
    if isinstance(answer, Limited):
        remaining, reset_s = 0, answer.retry_after_seconds
    else:
        remaining, reset_s = min(answer.remaining, rate.count), ceil(answer.reset_s)
    policy = f'"{rule.name}";q={rate.count};w={ceil(rate.per_s)}'
    exchange.headers += [
        (b"ratelimit-policy", policy.encode("ascii")),
        (b"ratelimit", f'"{rule.name}";r={remaining};t={reset_s}'.encode("ascii")),
    ]
