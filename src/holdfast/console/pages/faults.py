"""Faults: every code of every catalog, with how often it happened lately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.base.formatting import number, plural
from holdfast.catalog import Catalog, Fault
from holdfast.console.page import Desk, Page
from holdfast.console.parts import Column, aside, badge, field, link, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.watch.names import ERRORS

LATELY_S = 86_400.0
COLUMNS = (
    Column("code"),
    Column("status", "number"),
    Column("retried", "self"),
    Column("last day", "number"),
    Column("what the person reads", "wide"),
)


def page(desk: Desk, visit: Visit) -> Page:
    """The whole registry, folded by catalog; `text` narrows and unfolds it."""
    wanted = (visit.get("text") or "").lower()
    often = counts(desk, LATELY_S)
    sections = []
    for catalog in desk.catalogs:
        faults = [
            fault
            for owner, fault in distinct(desk.catalogs)
            if owner is catalog and wanted in f"{fault.code} {fault.says} {fault.technical}".lower()
        ]
        rows = [_row(visit, fault, often.get(fault.code, 0.0)) for fault in faults]
        if rows:
            seen = sum(bool(often.get(fault.code)) for fault in faults)
            words = plural(len(rows), "code") + (f", {seen} seen in the last day" if seen else "")
            shown = table(COLUMNS, rows, caption=f"Faults of {catalog.name}", empty="")
            title = joined(element("h2", catalog.name), " ", element("span", words, class_="note"))
            sections.append(element("section", aside(title, shown, opened=bool(wanted)), class_="panel folded"))
    form = element(
        "form",
        field("Code or words", "text", visit.get("text") or ""),
        element("div", element("button", "Filter", type="submit"), class_="ways"),
        method="get",
        action=visit.to("faults"),
        class_="filter",
        role="search",
    )
    nothing = [element("p", "No fault matches.", class_="empty")] if not sections else []
    return Page("Faults", [element("h1", "Faults"), form, *sections, *nothing], "faults")


def counts(desk: Desk, over_s: float) -> dict[str, float]:
    """How often each code was seen, at whichever layer saw it most: one failure may pass through several."""
    most: dict[str, float] = {}
    for layer in desk.series.increase_by(ERRORS.name, "layer", over_s=over_s):
        seen = desk.series.increase_by(ERRORS.name, "error_code", over_s=over_s, where={"layer": layer})
        for code, count in seen.items():
            most[code] = max(count, most.get(code, 0.0))
    return most


def distinct(catalogs: Sequence[Catalog]) -> Iterator[tuple[Catalog, Fault]]:
    """Every fault once: what a catalog took over unchanged from an earlier one is not shown again."""
    bare: dict[str, list[Fault]] = {}
    for catalog in catalogs:
        for fault in catalog:
            plain = replace(fault, documentation_url="")
            if plain not in bare.setdefault(fault.code, []):
                bare[fault.code].append(plain)
                yield catalog, fault


def retried(fault: Fault) -> Markup:
    """Whether it is retried, as a badge."""
    return badge("retried", "good") if fault.retryable else badge("not retried", "plain")


def _row(visit: Visit, fault: Fault, often: float) -> list[str]:
    code = link(visit.to("faults", fault.code), element("code", fault.code))
    return [code, str(fault.status), retried(fault), number(often) if often else "", fault.says]
