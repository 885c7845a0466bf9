"""The pages of the site, each a function from what it shows to HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version as installed

from holdfast.catalog import Catalog, Failure, Fault
from holdfast.catalog.dialect import Dialect, document
from holdfast.http.example import example
from holdfast.http.markup import Markup, element, joined
from holdfast.http.wording import BLAME, SEVERITY, retry_words, status_words

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' "
    "rx='4' fill='%230f766e'/%3E%3Cpath d='M5 3v10M11 3v10M5 8h6' stroke='white' stroke-width='2'/%3E%3C/svg%3E"
)
_DIALECTS = {
    Dialect.NESTED: "Nested",
    Dialect.FLAT: "Flat",
    Dialect.FULL: "Full",
    Dialect.PROBLEM: "Problem (RFC 9457)",
}


def version() -> str:
    """The version that is installed."""
    return installed("holdfast")


@dataclass(frozen=True, slots=True)
class Place:
    """Something that stands beside the site, for the index."""

    path: str
    says: str
    """What it is, in a few words."""


def index(catalogs: Sequence[Catalog], places: Sequence[Place] = ()) -> str:
    """What runs here, and every code under the one who has to act."""
    runs = element(
        "dl",
        *(part for place in places for part in (element("dt", _link(place.path)), element("dd", place.says))),
        *_term("Health", _link("/health")),
        *_term("Error pages", _link("/errors/")),
        *_term("Version", version()),
        class_="facts",
    )
    by_code: dict[str, Fault] = {}
    for _, found in _distinct(catalogs):
        by_code.setdefault(found.code, found)
    told = list(by_code.values())
    groups = [_group(words, [fault for fault in told if fault.blame is blame]) for blame, words in BLAME.items()]
    return _page(
        "Holdfast",
        element("h1", "Holdfast"),
        element("p", "Failure handling for Python services.", class_="lead"),
        element("section", element("h2", "What runs here"), runs),
        element("section", element("h2", f"{len(told)} declared faults"), *groups),
    )


def fault_list(catalogs: Sequence[Catalog]) -> str:
    """Every fault of every catalog, with what the person reads; folded by catalog, because they are hundreds."""
    told = list(_distinct(catalogs))
    sections = [_catalog(catalog, [found for owner, found in told if owner is catalog]) for catalog in catalogs]
    return _page("Faults", element("h1", "Faults"), *sections)


def fault(catalogs: Sequence[Catalog], code: str) -> str | None:
    """Everything that is declared about a code; None when no catalog has it."""
    told = [(catalog, found) for catalog, found in _distinct(catalogs) if found.code == code]
    if not told:
        return None
    known = {found.code for catalog in catalogs for found in catalog}
    articles = [_article(found, known, catalog.name if len(told) > 1 else "") for catalog, found in told]
    return _page(code, element("h1", code, class_="code"), *articles)


def refusal(failure: Failure) -> str:
    """The page of a request that cannot be served."""
    return _page(
        status_words(failure.status),
        element("h1", status_words(failure.status)),
        element("p", failure.message, class_="lead"),
        element("p", failure.fault.remedy),
        element(
            "dl", *_term("Code", _code(failure.fault)), *_term("Request", failure.context.request_id), class_="facts"
        ),
    )


def _page(title: str, *content: Markup) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title if title == "Holdfast" else f"{title} · Holdfast"),
        element("link", rel="icon", href=_ICON),
        element("link", rel="stylesheet", href="/site.css"),
    )
    top = element(
        "header",
        element("nav", element("a", "Holdfast", href="/", class_="home"), element("a", "Faults", href="/errors/")),
    )
    return f"<!doctype html>\n{element('html', head, element('body', top, element('main', *content)), lang='en')}\n"


def _group(title: str, told: Sequence[Fault]) -> Markup:
    if not told:
        return Markup()
    codes = [element("li", _code(found)) for found in sorted(told, key=lambda found: found.code)]
    return joined(element("h3", title), element("ul", *codes, class_="codes"))


def _catalog(catalog: Catalog, told: Sequence[Fault]) -> Markup:
    if not told:
        return Markup()
    rows = [_row(found) for found in told]
    words = f"{len(rows)} code{'' if len(rows) == 1 else 's'}"
    title = element("summary", element("h2", catalog.name), " ", element("span", words, class_="status"))
    return element("section", element("details", title, element("ul", *rows, class_="faults")), class_="folded")


def _row(told: Fault) -> Markup:
    return element(
        "li",
        _code(told),
        element("span", str(told.status), class_="status"),
        _badge(told),
        element("span", told.says, class_="says"),
    )


def _article(told: Fault, known: set[str], owner: str) -> Markup:
    facts = [
        *_term("Status", status_words(told.status)),
        *_term("Who has to act", BLAME[told.blame]),
        *_term("Retry", *(element("p", words) for words in retry_words(told.rule))),
        *_term("Alert", SEVERITY[told.severity]),
        *(_term("In the log", told.technical) if told.technical else ()),
        *(_term("Causes", element("ul", *(element("li", cause) for cause in told.causes))) if told.causes else ()),
        *(_term("Remedy", told.remedy) if told.remedy else ()),
        *(_term("Related", *_related(told, known)) if told.related else ()),
    ]
    return element(
        "article",
        *([element("h2", owner)] if owner else []),
        element("p", _badge(told)),
        element("h3", "What the person reads"),
        element("blockquote", told.says),
        *while_retried(told),
        element("dl", *facts, class_="facts"),
        element("h2", "On the wire"),
        *_examples(told),
    )


def while_retried(told: Fault) -> list[Markup]:
    """The sentence for the time between two attempts, where the fault has one of its own."""
    if not told.says_retrying:
        return []
    return [element("h3", "While it is tried again"), element("blockquote", told.says_retrying)]


def _related(told: Fault, known: set[str]) -> Iterator[Markup]:
    for number, code in enumerate(told.related):
        separator = ", " if number else ""
        yield joined(separator, _link(f"/errors/{code}", code) if code in known else element("code", code))


def _examples(told: Fault) -> Iterator[Markup]:
    failure = example(told)
    for dialect, title in _DIALECTS.items():
        body = json.dumps(document(failure, dialect), indent=2, ensure_ascii=False)
        yield joined(element("h3", title), element("pre", element("code", body), tabindex="0"))


def _distinct(catalogs: Sequence[Catalog]) -> Iterator[tuple[Catalog, Fault]]:
    """Every fault once: what a catalog took over unchanged from an earlier one is not shown again."""
    seen: dict[str, list[Fault]] = {}
    for catalog in catalogs:
        for found in catalog:
            bare, known = replace(found, documentation_url=""), seen.setdefault(found.code, [])
            if bare not in known:
                known.append(bare)
                yield catalog, found


def _term(name: str, *value: str) -> tuple[Markup, Markup]:
    return element("dt", name), element("dd", *value)


def _code(told: Fault) -> Markup:
    return _link(f"/errors/{told.code}", told.code)


def _link(address: str, text: str = "") -> Markup:
    return element("a", element("code", text or address), href=address)


def _badge(told: Fault) -> Markup:
    if told.retryable:
        return element("span", "retried", class_="badge yes")
    return element("span", "not retried", class_="badge no")
