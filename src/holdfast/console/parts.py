"""The pieces that pages are put together from: tables, facts, badges, forms, notices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.base import utc_text
from holdfast.base.formatting import SECOND_US, age, clock
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined

_STATES = {
    "complete": "good",
    "closed": "good",
    "done": "good",
    "open": "bad",
    "failed": "bad",
    "firing": "bad",
    "refused": "bad",
    "half_open": "warn",
    "processing": "warn",
    "running": "warn",
    "pending": "warn",
    "paused": "warn",
    "holding": "bad",
    "no worker": "bad",
    "failing fast": "bad",
}


def moment(at_us: int | None, now_us: int) -> Markup:
    """The time of the day in UTC, with the date where it is another day; the exact moment and its age as a title."""
    if at_us is None:
        return Markup()
    exact = utc_text(at_us // SECOND_US * SECOND_US)
    return element("time", clock(at_us, now_us), datetime=exact, title=f"{exact}, {age(at_us, now_us)}")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    kind: str = ""
    """`number` is set to the right, `wide` takes what is left, `short` is never broken, `drawn` holds a picture;
    `self` says what it is by itself and needs no title where rows become cards."""


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], *, caption: str, empty: str) -> Markup:
    """A table that scrolls by itself where it is too wide; a sentence instead when there is no row."""
    body = [
        element("tr", *(_cell(column, cell, first=not place) for place, (column, cell) in enumerate(paired)))
        for paired in (zip(columns, row, strict=True) for row in rows)
    ]
    if not body:
        return element("p", empty, class_="empty")
    head = element("tr", *(element("th", column.title, scope="col", class_=column.kind) for column in columns))
    shown = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", head),
        element("tbody", *body),
    )
    return element("div", shown, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(column: Column, cell: str, *, first: bool) -> Markup:
    if first:
        return element("th", cell, scope="row", class_=column.kind, data_title=column.title)
    return element("td", cell, class_=column.kind, data_title=column.title)


def facts(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Names and values; what has no value is left out."""
    shown = [joined(element("dt", name), element("dd", value)) for name, value in pairs if value]
    return element("dl", *shown, class_="facts")


def badge(text: str, tone: str | None = None) -> Markup:
    """A short word with a colour that never stands alone: the word says it too."""
    return element("span", text.replace("_", " "), class_=f"badge {tone or _STATES.get(text, 'plain')}")


def panel(title: str, *content: str, note: str = "", id: str = "", kind: str = "") -> Markup:
    """A framed part of a page with a heading."""
    head = [element("h2", title)]
    if note:
        head.append(element("p", note, class_="note"))
    named = {"id": id} if id else {}
    return element("section", *head, *content, class_=f"panel {kind}".strip(), **named)


def link(address: str, *content: str, **attributes: str) -> Markup:
    """A way to somewhere else."""
    return element("a", *content, href=address, **attributes)


def code_link(visit: Visit, code: str | None) -> Markup:
    """A code that leads to its page, where it has one."""
    if not code:
        return Markup()
    shown = element("code", code)
    return link(visit.to("faults", code), shown) if code in visit.codes else shown


def notice(*content: str, tone: str = "plain") -> Markup:
    """A sentence that should not be overlooked."""
    return element("p", *content, class_=f"notice {tone}", role="status")


def hidden(name: str, value: str | None) -> Markup:
    """A value that a form brings along unseen."""
    return Markup() if value is None else void("input", type="hidden", name=name, value=value)


def void(name: str, /, **attributes: str) -> Markup:
    """An element that has no end, such as `<input>`."""
    return Markup(element(name, **attributes).removesuffix(f"</{name}>"))


def field(
    label: str, name: str, value: str = "", *, kind: str = "text", problem: str = "", **attributes: str
) -> Markup:
    """A labelled field of a form, with what is wrong with its value beside it."""
    given = void("input", type=kind, name=name, value=value, **attributes, **_wrong(name, problem))
    return element("label", element("span", label), given, *_problem(name, problem))


def choice(label: str, name: str, options: Iterable[tuple[str, str]], chosen: str, *, problem: str = "") -> Markup:
    """A labelled list to choose from: values and what they are called. A value that is not among them is shown too."""
    known = list(options)
    if problem and chosen:
        known.append((chosen, chosen))
    shown = [
        element("option", title, value=value, **({"selected": ""} if value == chosen else {})) for value, title in known
    ]
    select = element("select", *shown, name=name, **_wrong(name, problem))
    return element("label", element("span", label), select, *_problem(name, problem))


def _wrong(name: str, problem: str) -> dict[str, str]:
    return {"aria_invalid": "true", "aria_describedby": f"problem-{name}"} if problem else {}


def _problem(name: str, problem: str) -> list[Markup]:
    return [element("span", problem, id=f"problem-{name}", class_="problem")] if problem else []


def act(visit: Visit, address: str, label: str, *content: str, tone: str = "", back: str | None = None) -> Markup:
    """A form that does something; only this kind of form changes anything."""
    return element(
        "form",
        hidden("csrf", visit.csrf),
        hidden("back", visit.own if back is None else back),
        *content,
        element("button", label, type="submit", class_=tone),
        method="post",
        action=address,
        class_="act",
    )


def aside(summary: str, *content: str, opened: bool = False) -> Markup:
    """Something that is shown when asked for."""
    return element("details", element("summary", summary), *content, **({"open": ""} if opened else {}))


def pager(visit: Visit, *, older: dict[str, str] | None, words: str = "Older") -> Markup:
    """The ways to the next page and back to the first."""
    ways = []
    if any(name in visit.query for name in ("before", "from")):
        ways.append(link(visit.here(before=None), "First page"))
    if older:
        ways.append(link(visit.here(**older), f"{words} →", rel="next"))
    return element("nav", *ways, class_="pager", aria_label="Pages") if ways else Markup()
