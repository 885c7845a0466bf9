"""The mappings: what of a PDF becomes XML. Each has a schema beside it, `xsd/{name}.xsd`, that its output keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast_systems.conversion.gateway.lines import Line
from holdfast_systems.conversion.gateway.markup import Writer, escaped, quoted
from holdfast_systems.conversion.gateway.outline import write_outline
from holdfast_systems.conversion.gateway.pdf import Document, Page
from holdfast_systems.conversion.gateway.reading import paragraphs

WORD = '<word x="%.2f" y="%.2f" width="%.2f" height="%.2f" font="%s" size="%.1f">%s</word>'

Mapper = Callable[[Document, Writer], None]


def schema(mapping: str) -> Path:
    """The XML Schema that every result of the mapping is valid against."""
    return Path(__file__).with_name("xsd") / f"{mapping}.xsd"


def write_text(document: Document, out: Writer) -> None:
    """Pages and paragraphs, in reading order; lines as they were broken, hyphens where they were."""
    for page in document.pages():
        out.add(_page_start(page))
        for paragraph in paragraphs(page):
            out.add(f"<p>{escaped(paragraph.text)}</p>\n")
        out.add("</page>\n")


def write_layout(document: Document, out: Writer) -> None:
    """Every word with its box, its font and its size; the fonts by name at the end."""
    fonts: dict[str, str] = {}
    for page in document.pages():
        out.add(_page_start(page))
        for paragraph in paragraphs(page):
            for line in paragraph.lines:
                out.add(f"<line>{' '.join(_words(page, line, fonts))}</line>\n")
        out.add("</page>\n")
    named = "".join(f'<font id="{key}" name={quoted(name)}/>\n' for name, key in fonts.items())
    out.add(f"<fonts>\n{named}</fonts>\n")


def _words(page: Page, line: Line, fonts: dict[str, str]) -> list[str]:
    found = []
    place = 0
    for word in line.text.split():
        place = line.text.index(word, place)
        places = line.places[place : place + len(word)]
        place += len(word)
        left, top, right, bottom = page.box(places, every=line.leftwards)
        style = page.style(places[0])
        font = fonts.get(style.font) or fonts.setdefault(style.font, f"f{len(fonts) + 1}")
        found.append(WORD % (left, top, right - left, bottom - top, font, style.size, escaped(word)))
    return found


def _page_start(page: Page) -> str:
    cut = ' truncated="true"' if page.truncated else ""
    size = f'width="{page.width:.2f}" height="{page.height:.2f}" rotation="{page.rotation}"'
    return f'<page number="{page.number}" {size}{cut}>\n'


MAPPINGS: Mapping[str, Mapper] = {"layout": write_layout, "outline": write_outline, "text": write_text}


def convert(document: Document, mapping: str, out: Writer) -> None:
    """Write the whole document.

    Raises:
        Failure: PDF_BROKEN, RESULT_TOO_LARGE.
    """
    out.add(f'<document mapping="{mapping}" version="1" pages="{document.page_count}">\n')
    MAPPINGS[mapping](document, out)
    out.add("</document>\n")
    out.flush()
