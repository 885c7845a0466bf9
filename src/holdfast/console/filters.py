"""What a list shows, as the address says it: state, code, queue, kind, tenant, text and time.

Times are written as how long ago (`30m`, `2h`, `1d`) or as `2026-03-01T12:30` in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.base.formatting import moment_of, read_moment, us_of
from holdfast.catalog.core import BAD_REQUEST
from holdfast.console.parts import choice, field
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element
from holdfast.lifecycle import JobState
from holdfast.worker import DeadFilter

STATES = tuple(state.value for state in JobState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs are meant; what is not given does not matter."""

    state: str | None = None
    code: str | None = None
    remote_code: str | None = None
    queue: str | None = None
    kind: str | None = None
    tenant: str | None = None
    endpoint: str | None = None
    text: str | None = None
    fingerprint: str | None = None
    since_us: int | None = None
    until_us: int | None = None

    def dead(self) -> DeadFilter:
        """The same of dead letters, as the commands take it."""
        return DeadFilter(
            queue=self.queue,
            kind=self.kind,
            code=self.code,
            remote_code=self.remote_code,
            tenant=self.tenant,
            endpoint=self.endpoint,
            fingerprint=self.fingerprint,
            text=self.text,
            since=None if self.since_us is None else moment_of(self.since_us),
            until=None if self.until_us is None else moment_of(self.until_us),
        )


def filter_of(visit: Visit, now_us: int) -> Filter:
    """The filter that an address or a form names.

    Raises:
        Failure: BAD_REQUEST names the field.
    """
    state = visit.get("state")
    if state is not None and state not in STATES:
        raise BAD_REQUEST("{field} is one of {known}.", field="state", known=", ".join(STATES))
    return Filter(
        state=state,
        code=visit.get("code"),
        remote_code=visit.get("remote_code"),
        queue=visit.get("queue"),
        kind=visit.get("kind"),
        tenant=visit.get("tenant"),
        endpoint=visit.get("endpoint"),
        text=visit.get("text"),
        fingerprint=visit.get("fingerprint"),
        since_us=time_of(visit, "since", now_us),
        until_us=time_of(visit, "until", now_us),
    )


def time_of(visit: Visit, name: str, now_us: int) -> int | None:
    """A moment of the address, in microseconds.

    Raises:
        Failure: BAD_REQUEST.
    """
    text = visit.get(name)
    if text is None:
        return None
    try:
        return us_of(read_moment(text, now_us))
    except ValueError as invalid:
        raise BAD_REQUEST("{field}: {problem}", field=name, problem=str(invalid)) from None


def iso(at_us: int) -> str:
    """A moment as an address carries it."""
    return moment_of(at_us).isoformat(timespec="seconds")[:19]


def filter_form(visit: Visit, *, names: Iterable[tuple[str, str]], states: bool) -> Markup:
    """The form that changes the address; it works without script."""
    options = [("", "any"), *((state, state) for state in STATES)]
    fields = [choice("State", "state", options, visit.get("state") or "")] if states else []
    fields += [field(label, name, visit.get(name) or "") for name, label in names]
    hint = {"placeholder": "2h or 2026-03-01T12:30"}
    fields += [field("Since", "since", visit.get("since") or "", **hint)]
    fields += [field("Until", "until", visit.get("until") or "", **hint)]
    ways = [element("button", "Filter", type="submit")]
    if visit.query:
        ways.append(element("a", "Clear", href=visit.to(*visit.parts), class_="plain"))
    return element(
        "form",
        *fields,
        element("div", *ways, class_="ways"),
        method="get",
        action=visit.to(*visit.parts),
        class_="filter",
        role="search",
    )
