"""A report as HTML: its markdown, sanitised, with its charts beside the text. The page needs nothing from outside."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from holdfast.http.markup import Markup, element, joined

MARKDOWN_CHARS_MAX = 500_000
TAGS = frozenset(
    [
        "a",
        "abbr",
        "b",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "li",
        "ol",
        "p",
        "pre",
        "s",
        "strong",
        "sub",
        "sup",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ]
)
ATTRIBUTES = {"a": {"href", "title"}, "td": {"align"}, "th": {"align"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}
_DETAILS = ("model", "promptId", "promptVersion", "schemaId", "createdAt")


def html_of(markdown: str) -> Markup:
    """Markdown as HTML that can do nothing: no script, no style, no picture from elsewhere."""
    import nh3
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    rendered = reader.render(markdown[:MARKDOWN_CHARS_MAX])
    return Markup(
        nh3.clean(
            rendered,
            tags=set(TAGS),
            attributes={name: set(allowed) for name, allowed in ATTRIBUTES.items()},
            url_schemes=SCHEMES,
            link_rel="noopener noreferrer nofollow",
        )
    )


def report_page(title: str, report: Mapping[str, Any], charts: Sequence[tuple[str, bytes]]) -> str:
    """The whole page of a report."""
    summary = report.get("summary")
    text = str(summary.get("markdown", "")) if isinstance(summary, dict) else ""
    pictures = [
        element(
            "figure",
            Markup(f'<img alt="{element("i", name)[3:-4]}" src="data:image/png;base64,{b64encode(content).decode()}">'),
            element("figcaption", name),
        )
        for name, content in charts
    ]
    body = element(
        "body",
        element(
            "main",
            element("article", html_of(text)),
            element("aside", *pictures, _details(report)) if pictures or report.get("details") else "",
        ),
        element("footer", title, " · ", _origin(report)),
    )
    head = element(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<link rel="icon" href="data:,">'),
        element("title", title),
        Markup(f"<style>{style()}</style>"),
    )
    return "<!doctype html>\n" + Markup(f'<html lang="en">{joined(head, body)}</html>')


@cache
def style() -> str:
    """The style sheet of a report."""
    return files("holdfast_systems.reports").joinpath("pages/report.css").read_text("utf-8")


@cache
def policy() -> str:
    """The content security policy under which a report is shown: nothing runs, nothing is loaded."""
    allowed = b64encode(sha256(style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{allowed}'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    )


def _details(report: Mapping[str, Any]) -> Markup:
    """The plain values of `details`, as a list."""
    details = report.get("details")
    if not isinstance(details, dict):
        return Markup("")
    rows = []
    for name, value in details.items():
        if isinstance(value, list):
            inner = element("ul", *(element("li", _plain(one)) for one in value))
            rows.append(joined(element("dt", str(name)), element("dd", inner)))
        else:
            rows.append(joined(element("dt", str(name)), element("dd", _plain(value))))
    return element("dl", *rows) if rows else Markup("")


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_plain(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(inner) for inner in value)
    return f"{value:,.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _origin(report: Mapping[str, Any]) -> str:
    said = report.get("metadata")
    if not isinstance(said, dict):
        return ""
    usage = said.get("usage")
    cost = f"{usage.get('costUsd', 0):.4f} USD" if isinstance(usage, dict) else ""
    return " · ".join([*(str(said[name]) for name in _DETAILS if name in said), cost])
