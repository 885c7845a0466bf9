"""What all pages of the system have in common: the frame, tables, badges, times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any
from urllib.parse import urlencode

from holdfast.base import Json
from holdfast.http.markup import Markup, element

CONSOLE = "/console/"
"""The operator's page of whatever serves us."""
ERRORS = "/errors/"
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' "
    "rx='4' fill='%230f766e'/%3E%3Cpath d='M4 8l3 3 5-6' stroke='white' stroke-width='2' fill='none'/%3E%3C/svg%3E"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What stands around the content of a page."""

    name: str
    """Of the half whose page it is."""
    root: str
    """The way up to its front page, so that links hold wherever the system stands."""
    links: Sequence[tuple[str, str]] = ()
    """Words and address of each link in the bar; an address below the root is without a slash at its beginning."""
    current: str = ""
    """The address of the link that leads here."""

    def to(self, path: str, **query: str | None) -> str:
        """The address of another page of this half."""
        asked = urlencode({name: value for name, value in query.items() if value})
        return f"{self.root}{path}{f'?{asked}' if asked else ''}" or "./"


def whole(title: str, frame: Frame, *content: str) -> str:
    """A whole page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · {frame.name}"),
        element("link", rel="icon", href=_ICON),
        element("link", rel="stylesheet", href=f"{frame.root}style.css"),
    )
    links = [_link(frame, words, address) for words, address in frame.links]
    leave = element(
        "form",
        element("button", "Sign out", type="submit"),
        method="post",
        action=f"{frame.root}sign-out",
        class_="leave",
    )
    home = element("a", frame.name, href=frame.root or "./", class_="home")
    bar = element("div", home, element("nav", *links, leave, aria_label="Pages"), class_="bar")
    skip = element("a", "Skip to the content", href="#content", class_="skip")
    body = element("body", skip, element("header", bar), element("main", *content, id="content"))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def health_of(endpoint_ids: Sequence[str]) -> str:
    """The six panels of delivery health: success, errors, latency, dead letters, retries, and the commonest errors.

    Of the endpoint that events go to, or of all where there are several of them or none.
    """
    chosen = endpoint_ids[0] if len(endpoint_ids) == 1 else ""
    return f"{CONSOLE}?{urlencode({'scope': f'endpoint:{chosen}'})}"


def table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numeric: frozenset[int] = frozenset(),
    empty: str = "Nothing yet.",
) -> Markup:
    """Rows under heads; on a phone each row is a card."""
    if not rows:
        return element("p", empty, class_="empty")

    def cell(place: int, content: str) -> Markup:
        kinds = [*(["number"] if place in numeric else []), *([] if content else ["none"])]
        words = {"data_label": heads[place], **({"class_": " ".join(kinds)} if kinds else {})}
        name, scope = ("th", {"scope": "row"}) if place == 0 else ("td", {})
        return element(name, element("div", content), **words, **scope)

    columns = [
        element("th", words, scope="col", **({"class_": "number"} if place in numeric else {}))
        for place, words in enumerate(heads)
    ]
    body = [element("tr", *(cell(place, content) for place, content in enumerate(row))) for row in rows]
    return element(
        "table", element("caption", caption), element("thead", element("tr", *columns)), element("tbody", *body)
    )


def tiles(facts: Sequence[tuple[str, int]]) -> Markup:
    """Large numbers with their words."""
    return element(
        "dl",
        *(element("div", element("dt", words), element("dd", f"{number:,}"), class_="tile") for words, number in facts),
        class_="tiles",
    )


def facts(pairs: Mapping[str, str]) -> Markup:
    """Names and values; what is empty is left out."""
    shown = [part for words, value in pairs.items() if value for part in (element("dt", words), element("dd", value))]
    return element("dl", *shown, class_="facts")


def document(value: Json) -> Markup:
    """JSON, as people read it."""
    text = dumps(value, indent=2, ensure_ascii=False, sort_keys=False)
    return element("pre", element("code", text), tabindex="0", aria_label="JSON")


def badge(word: str) -> Markup:
    """A state; its color follows from its name."""
    return element("span", word, class_=f"badge {word}")


def moment(text: str | None) -> Markup:
    """A time in UTC; nothing where there is none."""
    if text is None:
        return Markup()
    return element("time", f"{text[:19].replace('T', ' ')} UTC", datetime=text)


def fault(code: str | None) -> Markup:
    """A code, with the page that says what to do about it."""
    return element("a", element("code", code), href=f"{ERRORS}{code}") if code else Markup()


def notice(text: str, tone: str = "bad") -> Markup:
    """Something that has to be read first."""
    return element("p", text, class_=f"notice {tone}", role="alert" if tone == "bad" else "status")


def pager(frame: Frame, path: str, following: str | None, name: str, **query: str | None) -> Markup:
    """The way to the next page, where there is one."""
    if following is None:
        return Markup()
    return element("p", element("a", "Next page", href=frame.to(path, **query, **{name: following})), class_="pager")


def choices(label: str, links: Sequence[tuple[str, str, bool]]) -> Markup:
    """Links of which one is where one is: words, address, whether it is the one."""
    items = [element("li", element("a", words, href=to, **_current(here))) for words, to, here in links]
    return element("nav", element("ul", *items, class_="choices"), aria_label=label)


def lead(*content: str) -> Markup:
    """The sentence below a heading."""
    return element("p", *content, class_="lead")


def section(title: str, *content: Any) -> Markup:
    """A part of a page with a heading of its own."""
    return element("section", element("h2", title), *content)


def _link(frame: Frame, words: str, address: str) -> Markup:
    there = address if address.startswith(("/", "..")) else frame.to(address)
    return element("a", words, href=there, **_current(bool(frame.current) and address == frame.current))


def _current(here: bool) -> dict[str, str]:
    return {"aria_current": "page"} if here else {}
