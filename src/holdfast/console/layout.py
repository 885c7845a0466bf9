"""The frame around every page: head, menu, foot. No script and no style stands in the page itself."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.catalog import Failure
from holdfast.console.page import Live, Page
from holdfast.console.parts import hidden, link
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.http.wording import status_words

MENU = (
    ("overview", "Overview"),
    ("jobs", "Jobs"),
    ("deliveries", "Deliveries"),
    ("dead", "Dead letters"),
    ("faults", "Faults"),
    ("breakers", "Breakers"),
    ("limits", "Limits"),
    ("alerts", "Alerts"),
    ("audit", "Audit"),
)
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' "
    "rx='4' fill='%230f766e'/%3E%3Cpath d='M5 3v10M11 3v10M5 8h6' stroke='white' stroke-width='2'/%3E%3C/svg%3E"
)


def whole(page: Page, visit: Visit) -> bytes:
    """The page as HTML."""
    content = [shown(part, version=page.version) for part in page.parts]
    streamed = {"data_live": visit.to("live", of=visit.own), "data_version": str(page.version)} if page.live else {}
    main = element("main", *content, id="content", tabindex="-1", **streamed)
    top = element("header", element("div", _home(visit), _menu(page, visit), _visitor(visit, page), class_="bar"))
    skip = link("#content", "Skip to the content", class_="skip")
    return _document(page.title, visit, skip, top, main, _foot())


def bare(title: str, visit: Visit, *content: Markup) -> bytes:
    """A page without the menu, for a visitor that is not signed in yet."""
    top = element("header", element("div", _home(visit), class_="bar"))
    return _document(title, visit, top, element("main", *content, id="content", class_="narrow"))


def refusal(failure: Failure, visit: Visit) -> bytes:
    """The page of something that cannot be shown or done."""
    return whole(Page(status_words(failure.status), refusal_parts(failure)), visit)


def refusal_parts(failure: Failure) -> Sequence[Markup]:
    """What a refusal says: what happened, what to do, and its code."""
    return [
        element("h1", status_words(failure.status)),
        element("p", failure.message, class_="lead"),
        element("p", failure.fault.remedy),
        element("p", "Code ", element("code", failure.code), class_="note"),
    ]


def shown(part: Markup | Live, **data: object) -> Markup:
    """A part as it stands in the page; one that is kept up to date has an id to be found by, and its version."""
    if not isinstance(part, Live):
        return part
    written = {f"data_{name}": str(value) for name, value in data.items()}
    return element("div", part.content, id=part.id, class_="live", **written)


def _document(title: str, visit: Visit, *body: Markup) -> bytes:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · Holdfast console"),
        element("link", rel="icon", href=ICON),
        element("link", rel="stylesheet", href=visit.to("static", "console.css")),
        element("script", src=visit.to("static", "console.js"), defer=""),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *body), lang='en')}\n".encode()


def _home(visit: Visit) -> Markup:
    return link(visit.to(""), "Holdfast", class_="home")


def _menu(page: Page, visit: Visit) -> Markup:
    entries = [
        link(
            visit.to("" if name == "overview" else name),
            title,
            **({"aria_current": "page"} if name == page.section else {}),
        )
        for name, title in MENU
    ]
    return element("nav", *entries, class_="menu", aria_label="Console")


def _visitor(visit: Visit, page: Page) -> Markup:
    live = element("span", "", id="live-state", role="status") if page.live else Markup()
    leave = element(
        "form",
        hidden("csrf", visit.csrf),
        element("button", "Leave", type="submit", class_="plain", title=f"Signed in as {visit.who}"),
        method="post",
        action=visit.to("leave"),
    )
    return element("div", live, leave, class_="visitor")


def _foot() -> Markup:
    return element("footer", joined("All times are UTC."))
