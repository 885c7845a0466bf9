"""What a list shows, as the address says it: state, code, queue, kind, tenant, text and time.

Times are written as how long ago (`30m`, `2h`, `1d`) or as `2026-03-01T12:30` in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from holdfast.base.formatting import moment_of, plural, read_moment, us_of
from holdfast.catalog import Failure
from holdfast.catalog.core import BAD_REQUEST
from holdfast.console.page import Page
from holdfast.console.parts import choice, field, notice
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element
from holdfast.lifecycle import JobState
from holdfast.worker import DeadFilter

STATES = tuple(state.value for state in JobState)
TIMES = ("since", "until")
Problems = Mapping[str, str]
"""By the field's name, what is wrong with its value."""


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
        Failure: BAD_REQUEST names the first field that cannot be read.
    """
    problems = problems_of(visit, now_us)
    if problems:
        raise refusal_of(problems)
    return Filter(
        state=visit.get("state"),
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


def problems_of(
    visit: Visit, now_us: int, *, choices: Mapping[str, Sequence[str]] = MappingProxyType({"state": STATES})
) -> Problems:
    """What is wrong with each field that cannot be read, in the order of the form; empty when all can be.

    Args:
        choices: fields that have one of some values.
    """
    found = {
        name: f"This is one of {', '.join(known)}."
        for name, known in choices.items()
        if (value := visit.get(name)) is not None and value not in known
    }
    for name in TIMES:
        try:
            time_of(visit, name, now_us)
        except ValueError as invalid:
            found[name] = f"{invalid}"
    return found


def refusal_of(problems: Problems) -> Failure:
    """The failure that programs read, by the first field that is wrong."""
    name, problem = next(iter(problems.items()))
    return BAD_REQUEST("{field}: {problem}", field=name, problem=problem)


def time_of(visit: Visit, name: str, now_us: int) -> int | None:
    """A moment of the address, in microseconds.

    Raises:
        ValueError: it cannot be read as one; the message says how it is written.
    """
    text = visit.get(name)
    return None if text is None else us_of(read_moment(text, now_us))


def iso(at_us: int) -> str:
    """A moment as an address carries it."""
    return moment_of(at_us).isoformat(timespec="seconds")[:19]


def filter_form(
    visit: Visit, *, names: Iterable[tuple[str, str]], states: bool, problems: Problems = MappingProxyType({})
) -> Markup:
    """The form that changes the address; it works without script, and says beside a field what is wrong with it."""
    options = [("", "any"), *((state, state) for state in STATES)]
    wrong = problems.get("state", "")
    fields = [choice("State", "state", options, visit.get("state") or "", problem=wrong)] if states else []
    fields += [field(label, name, visit.get(name) or "") for name, label in names]
    return form_around(visit, [*fields, *time_fields(visit, problems)])


def time_fields(visit: Visit, problems: Problems) -> list[Markup]:
    """The fields of a span of time."""
    return [
        field(
            name.capitalize(),
            name,
            visit.get(name) or "",
            problem=problems.get(name, ""),
            placeholder="2h or 2026-03-01T12:30",
        )
        for name in TIMES
    ]


def form_around(visit: Visit, fields: Sequence[Markup]) -> Markup:
    """The form of a list, with the ways to filter and to clear it."""
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


def unreadable(title: str, section: str, form: Markup, problems: Problems) -> Page:
    """The page of a list whose filter cannot be read: the form as it was filled in, and nothing found."""
    count = plural(len(problems), "field")
    words = f"Nothing was searched: {count} of the filter cannot be read."
    parts = [element("h1", title), form, notice(words, tone="bad")]
    return Page(title, parts, section, refused=refusal_of(problems))
