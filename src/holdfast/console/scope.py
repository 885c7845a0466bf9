"""What the overview looks at: queues, endpoints, links or requests, all or one of them; and over which time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from holdfast.catalog.core import BAD_REQUEST
from holdfast.console.filters import iso
from holdfast.console.page import Desk
from holdfast.console.parts import choice
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element
from holdfast.store import Store
from holdfast.watch.labels import Labels, read_labels
from holdfast.watch.names import DELIVERIES, JOB_TRANSITIONS, LINK_ATTEMPTS, REQUESTS, Metric
from holdfast.watch.panels import LINKS, QUEUES, WEBHOOKS, Subject
from holdfast.watch.panels import REQUESTS as SERVED
from holdfast.worker import DeadFilter

CHOICES_MAX = 200
ADDRESSES_REMEMBERED = 4_096
"""All charts of a page have the same steps, and so has the page a moment later."""
KNOWN_S = 7 * 86_400
"""What has been heard of in this time can be chosen."""


@dataclass(frozen=True, slots=True)
class Range:
    """A length of time, and how finely it is drawn."""

    name: str
    words: str
    length_s: int
    step_s: int


RANGES = (
    Range("15m", "last 15 minutes", 900, 10),
    Range("1h", "last hour", 3_600, 60),
    Range("6h", "last 6 hours", 6 * 3_600, 300),
    Range("24h", "last day", 86_400, 1_200),
    Range("7d", "last week", 7 * 86_400, 7_200),
)
SUBJECTS: Mapping[str, tuple[Subject, Metric, str]] = {
    "queue": (QUEUES, JOB_TRANSITIONS, "queues"),
    "endpoint": (WEBHOOKS, DELIVERIES, "endpoints"),
    "link": (LINKS, LINK_ATTEMPTS, "links"),
    "request": (SERVED, REQUESTS, "requests"),
}
"""By the word in the address: the panels, the metric whose labels are the names to choose from, and all of them."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at; an empty name is all of them."""

    kind: str
    name: str
    range: Range

    @property
    def subject(self) -> Subject:
        return SUBJECTS[self.kind][0]

    @property
    def where(self) -> Mapping[str, str]:
        """The labels of its metrics."""
        return {self.subject.label: self.name} if self.name else {}

    @property
    def words(self) -> str:
        """As a heading."""
        return f"{self.kind} {self.name}" if self.name else f"all {SUBJECTS[self.kind][2]}"

    def behind(self, visit: Visit, start_us: int, end_us: int) -> str:
        """What is behind a step of a chart: the jobs or deliveries of that time, where there are any."""
        return _behind(visit.root, self.kind, self.name, start_us, end_us)

    def failed(self, visit: Visit, label: str, value: str, start_us: int) -> str:
        """The failures behind a bar; empty where there is nothing to show."""
        since = iso(start_us)
        match self.kind, label:
            case "queue", "error_code":
                return visit.to("jobs", state="failed", queue=self.name, code=value, since=since)
            case "queue", "queue":
                return visit.to("jobs", queue=value)
            case "endpoint", "status_code":
                # What the endpoint answered stands in the message of the failure.
                text = f"answered {value}" if value.isdigit() else None
                return visit.to("deliveries", state="failed", endpoint=self.name, text=text, since=since)
            case _, "error_code":
                return visit.to("faults", value) if value in visit.codes else ""
            case _:
                return ""

    @property
    def of_all_endpoints(self) -> bool:
        """Whether it looks at deliveries, of whichever sender."""
        return self.kind == "endpoint" and not self.name

    def died(self) -> DeadFilter | None:
        """Which dead letters belong to it, of all endpoints only deliveries; None when none do."""
        match self.kind:
            case "queue":
                return DeadFilter(queue=self.name or None)
            case "endpoint":
                return DeadFilter(endpoint=self.name or None)
            case _:
                return None


def scope_of(visit: Visit) -> Scope:
    """What the address chooses.

    Raises:
        Failure: BAD_REQUEST.
    """
    kind, _, name = (visit.get("scope") or "queue:").partition(":")
    if kind not in SUBJECTS:
        raise BAD_REQUEST("{field} begins with one of {known}.", field="scope", known=", ".join(SUBJECTS))
    chosen = visit.get("range") or "1h"
    found = next((one for one in RANGES if one.name == chosen), None)
    if found is None:
        raise BAD_REQUEST("{field} is one of {known}.", field="range", known=", ".join(one.name for one in RANGES))
    return Scope(kind, name, found)


def scope_form(desk: Desk, visit: Visit, scope: Scope) -> Markup:
    """The form that chooses; it works without script."""
    options = [(f"{kind}:", f"All {words}") for kind, (_, _, words) in SUBJECTS.items()]
    known = _known(desk.store)
    for kind, (subject, metric, _) in SUBJECTS.items():
        names = sorted({labels.get(subject.label, "") for name, labels in known if name == metric.name})
        options += [(f"{kind}:{name}", f"{kind.capitalize()} {name}") for name in names[:CHOICES_MAX] if name]
    chosen = f"{scope.kind}:{scope.name}"
    if chosen not in {value for value, _ in options}:
        options.append((chosen, scope.words.capitalize()))
    return element(
        "form",
        choice("Look at", "scope", options, chosen),
        choice("Over", "range", [(one.name, one.words) for one in RANGES], scope.range.name),
        element("div", element("button", "Show", type="submit"), class_="ways"),
        method="get",
        action=visit.to(""),
        class_="filter",
    )


@lru_cache(ADDRESSES_REMEMBERED)
def _behind(root: str, kind: str, name: str, start_us: int, end_us: int) -> str:
    span = {"since": iso(start_us), "until": iso(end_us)}
    visit = Visit(root=root)
    match kind:
        case "queue":
            return visit.to("jobs", queue=name, **span)
        case "endpoint":
            return visit.to("deliveries", endpoint=name, **span)
        case _:
            return visit.to("faults")


def _known(store: Store) -> list[tuple[str, Labels]]:
    """The series from which the names are taken."""
    asked = {"names": [metric.name for _, metric, _ in SUBJECTS.values()], "lately_us": KNOWN_S * 1_000_000}
    rows = store.atomic(lambda tx: tx.rows("console.known", **asked), write=False)
    return [(name, read_labels(text)) for name, text in rows]
