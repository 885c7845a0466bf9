"""Sinks as a policy file declares them. A secret may stand in the file, or in an environment variable that it names.

Always true: no message about a sink shows a value of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.base import Secret
from holdfast.catalog.fault import Severity
from holdfast.delivery import SecretInvalid
from holdfast.delivery.standard import StandardWebhooks
from holdfast.policy.overlay import Problem
from holdfast.watch.sinks import Sink, WebhookSink
from holdfast.watch.sinks_pagerduty import PagerDutySink
from holdfast.watch.sinks_slack import SlackSink

VARIABLE = "_variable"
KINDS: dict[str, tuple[type[Any], tuple[str, ...], tuple[str, ...]]] = {
    "slack": (SlackSink, ("url",), ()),
    "pagerduty": (PagerDutySink, ("routing_key",), ("url",)),
    "webhook": (WebhookSink, ("url",), ("secret",)),
}
"""For each kind: what makes it, what it needs, and what it may have."""


def sink_of(name: str, block: Mapping[str, Any], environment: Mapping[str, str]) -> Sink:
    """The sink of a block without problems."""
    make, needed, possible = KINDS[block["kind"]]
    given: dict[str, Any] = {
        field: Secret(value) for field in (*needed, *possible) if (value := _value(block, field, environment))
    }
    if "severities" in block:
        given["severities"] = frozenset(Severity(one) for one in block["severities"])
    made: Sink = make(name=name, **given)
    return made


def sink_problems(at: str, block: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Problem]:
    """Everything that is wrong with a block."""
    if block.get("kind") not in KINDS:
        yield Problem(f"{at}.kind", "is missing or not known", f"write one of {', '.join(KINDS)}")
        return
    _, needed, possible = KINDS[block["kind"]]
    fields = (*needed, *possible)
    known = {"kind", "severities", *fields, *(field + VARIABLE for field in fields)}
    for name in block:
        if name not in known:
            yield Problem(f"{at}.{name}", "is not a field of this sink", f"the fields are {', '.join(sorted(known))}")
    for field in fields:
        yield from _field_problems(at, field, block, environment, needed=field in needed)
    yield from _severity_problems(f"{at}.severities", block)


def _field_problems(
    at: str, field: str, block: Mapping[str, Any], environment: Mapping[str, str], *, needed: bool
) -> Iterator[Problem]:
    variable = field + VARIABLE
    if field in block and variable in block:
        yield Problem(f"{at}.{variable}", f"contradicts {field}", "remove one of them")
        return
    if variable in block and not environment.get(str(block[variable])):
        yield Problem(f"{at}.{variable}", "names an environment variable that is not set", "set it")
        return
    value = _value(block, field, environment)
    if not value:
        if needed or field in block:
            yield Problem(f"{at}.{field}", "is missing", f"write it, or {variable} with the name of a variable")
    elif field == "url" and not _is_url(value):
        yield Problem(f"{at}.{field}", "is not an http or https address", "write the whole address")
    elif field == "secret" and not _can_sign(value):
        yield Problem(f"{at}.{field}", "cannot sign", "write whsec_ and base64, as Standard Webhooks says")


def _severity_problems(at: str, block: Mapping[str, Any]) -> Iterator[Problem]:
    chosen = block.get("severities", ["warning"])
    known = {Severity.WARNING.value, Severity.CRITICAL.value}
    if not (isinstance(chosen, list) and chosen and all(isinstance(one, str) and one in known for one in chosen)):
        yield Problem(at, "is not a list of severities", 'write ["warning", "critical"], or one of them')


def _value(block: Mapping[str, Any], field: str, environment: Mapping[str, str]) -> str | None:
    given = block.get(field)
    if given is None and field + VARIABLE in block:
        given = environment.get(str(block[field + VARIABLE]))
    return given if isinstance(given, str) else None


def _is_url(value: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _can_sign(value: str) -> bool:
    try:
        StandardWebhooks().check_secret(Secret(value))
    except SecretInvalid:
        return False
    return True
