"""One fault as documentation: its meaning, what to do, how it is retried, how it looks on the wire, how often it is."""

from __future__ import annotations

import json
from collections.abc import Iterator

from holdfast.base.formatting import cut
from holdfast.catalog import Catalog, Fault
from holdfast.catalog.core import NOT_FOUND
from holdfast.catalog.dialect import Dialect, document
from holdfast.console.charts import Bar, bars, schedule_chart
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.pages.faults import distinct, retried
from holdfast.console.parts import code_link, facts, link, panel
from holdfast.console.visit import Visit
from holdfast.http.example import example
from holdfast.http.markup import Markup, element, joined
from holdfast.http.pages import while_retried
from holdfast.http.wording import BLAME, SEVERITY, retry_words, status_words
from holdfast.policy import Retry
from holdfast.watch.names import ERRORS
from holdfast.worker.settlement import JOB_RETRY

DIALECTS = {
    Dialect.NESTED: "Nested",
    Dialect.FLAT: "Flat",
    Dialect.FULL: "Full",
    Dialect.PROBLEM: "Problem (RFC 9457)",
}
SPANS = ((3_600.0, "last hour"), (86_400.0, "last day"), (7 * 86_400.0, "last week"))


def page(desk: Desk, visit: Visit, code: str) -> Page:
    """Everything that is declared about a code, and how often it happened.

    Raises:
        Failure: NOT_FOUND when no catalog has it.
    """
    found = [(catalog, fault) for catalog, fault in distinct(desk.catalogs) if fault.code == code]
    if not found:
        raise NOT_FOUND("No catalog here declares this code.", code=cut(code, 64))
    head = element("h1", code, class_="code")
    parts: list[Part] = [head, Live("often", _often(desk, visit, code))]
    for catalog, fault in found:
        parts += _told(visit, catalog, fault, alone=len(found) == 1)
    return Page(code, parts, "faults")


def _told(visit: Visit, catalog: Catalog, fault: Fault, *, alone: bool) -> Iterator[Markup]:
    title = "Meaning" if alone else f"Meaning in {catalog.name}"
    related = [joined(" ", code_link(visit, one)) for one in fault.related]
    yield panel(
        title,
        element("blockquote", fault.says),
        *while_retried(fault),
        facts(
            [
                ("Catalog", catalog.name),
                ("Status", status_words(fault.status)),
                ("Who has to act", BLAME[fault.blame]),
                ("Alert", SEVERITY[fault.severity]),
                ("In the log", fault.technical),
                ("Causes", element("ul", *(element("li", cause) for cause in fault.causes)) if fault.causes else ""),
                ("Remedy", fault.remedy),
                ("Related", joined(*related)),
                ("Public page", link(fault.documentation_url, fault.documentation_url) if _ours(fault) else ""),
            ]
        ),
    )
    yield panel("Retry", element("p", retried(fault)), *_retry(fault))
    yield panel("On the wire", element("div", *_examples(fault), class_="examples"))


def _ours(fault: Fault) -> bool:
    return fault.documentation_url.startswith(("/", "https://", "http://"))


def _retry(fault: Fault) -> Iterator[Markup]:
    """The rule in words, and the exact schedule drawn."""
    for words in retry_words(fault.rule):
        yield element("p", words)
    rule = fault.rule
    if isinstance(rule, Retry):
        if rule.attempts > 1:
            yield schedule_chart(rule.backoff.schedule_s(rule.attempts))
    elif rule is True:
        default = Retry()
        for title, one in (("A call whose link has no rule of its own", default), ("A job", JOB_RETRY)):
            yield element("h3", title)
            yield schedule_chart(one.backoff.schedule_s(one.attempts), of=title)


def _often(desk: Desk, visit: Visit, code: str) -> Markup:
    """How often, at each layer that saw it."""
    shown = []
    for over_s, words in SPANS:
        where = {"error_code": code}
        layers = desk.series.increase_by(ERRORS.name, "layer", over_s=over_s, where=where)
        rows = [Bar(layer or "?", count) for layer, count in sorted(layers.items()) if count]
        shown.append(element("div", element("h3", words.capitalize()), bars(words, rows, empty="Not seen.")))
    dead = link(visit.to("dead", code=code), "Dead letters with this code")
    failed = link(visit.to("jobs", code=code), "Failed jobs with this code")
    return panel(
        "How often it happened",
        element("div", *shown, class_="three"),
        element("p", dead, failed, class_="ways"),
    )


def _examples(fault: Fault) -> Iterator[Markup]:
    failure = example(fault)
    for dialect, title in DIALECTS.items():
        body = json.dumps(document(failure, dialect), indent=2, ensure_ascii=False)
        text = element("pre", element("code", body), tabindex="0", aria_label=f"Example body, {title}")
        yield element("div", element("h3", title), text)
