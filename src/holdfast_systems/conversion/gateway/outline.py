"""The mapping `outline`: what the document says about itself, its bookmarks, and its headings.

A heading is a short paragraph in a larger size than most of the text. The largest size is level 1, and so on to 6.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pypdfium2.raw as pdfium  # type: ignore[import-untyped]

from holdfast_systems.conversion.gateway.markup import Writer, escaped, quoted
from holdfast_systems.conversion.gateway.pdf import Document
from holdfast_systems.conversion.gateway.reading import Paragraph, paragraphs

METADATA = ("Title", "Author", "Subject", "Keywords", "Creator", "Producer", "CreationDate", "ModDate")
TEXT_BYTES_MAX = 65_536
BOOKMARK_DEPTH_MAX = 32
BOOKMARKS_MAX = 20_000
LARGER = 1.08
"""Minimum size of a heading, as a multiple of the size of most of the text: 12 points over a text of 11 are one."""
HEADING_CHARS_MAX = 300
HEADINGS_MAX = 20_000
LEVELS_MAX = 6


@dataclass(frozen=True, slots=True)
class _Candidate:
    page: int
    size: float
    text: str


def write_outline(document: Document, out: Writer) -> None:
    """Metadata, bookmarks, headings."""
    out.add("<metadata>\n")
    for name in METADATA:
        value = _meta(document.handle, name)
        if value:
            out.add(f'<entry name="{name}">{escaped(value)}</entry>\n')
    out.add("</metadata>\n<bookmarks>\n")
    for piece in _Bookmarks(document.handle).written():
        out.add(piece)
    out.add("</bookmarks>\n<headings>\n")
    for heading, level in _headings(document):
        told = f'level="{level}" page="{heading.page}" size="{heading.size:.1f}"'
        out.add(f"<heading {told}>{escaped(heading.text)}</heading>\n")
    out.add("</headings>\n")


class _Bookmarks:
    """The tree of bookmarks. A hostile one may be endless, or lead back into itself."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._seen: set[int] = set()

    def written(self, parent: Any = None, depth: int = 0) -> Iterator[str]:
        """The bookmarks below one, each with those below it."""
        bookmark = pdfium.FPDFBookmark_GetFirstChild(self._document, parent)
        while bookmark and depth < BOOKMARK_DEPTH_MAX and len(self._seen) < BOOKMARKS_MAX:
            key = ctypes.addressof(bookmark.contents)
            if key in self._seen:
                return
            self._seen.add(key)
            yield f"<bookmark title={quoted(_title(bookmark))}{self._page(bookmark)}>"
            yield from self.written(bookmark, depth + 1)
            yield "</bookmark>\n"
            bookmark = pdfium.FPDFBookmark_GetNextSibling(self._document, bookmark)

    def _page(self, bookmark: Any) -> str:
        target = pdfium.FPDFBookmark_GetDest(self._document, bookmark)
        if not target:
            action = pdfium.FPDFBookmark_GetAction(bookmark)
            target = pdfium.FPDFAction_GetDest(self._document, action) if action else None
        index = pdfium.FPDFDest_GetDestPageIndex(self._document, target) if target else -1
        return f' page="{index + 1}"' if index >= 0 else ""


def _headings(document: Document) -> Iterator[tuple[_Candidate, int]]:
    counted: Counter[float] = Counter()
    candidates: list[_Candidate] = []
    for page in document.pages():
        for paragraph in paragraphs(page):
            size = paragraph.lines[0].style.size
            counted[size] += len(paragraph.text)
            if len(paragraph.text) <= HEADING_CHARS_MAX and len(candidates) < HEADINGS_MAX:
                candidates.append(_Candidate(page.number, size, _in_one_line(paragraph)))
    usual = _usual(counted)
    found = [one for one in candidates if one.size >= usual * LARGER]
    sizes = sorted({one.size for one in found}, reverse=True)
    levels = {size: min(rank, LEVELS_MAX) for rank, size in enumerate(sizes, start=1)}
    return ((one, levels[one.size]) for one in found)


def _usual(counted: Counter[float]) -> float:
    """The size of most of the text; of two that are as common, the smaller."""
    return min(counted, key=lambda size: (-counted[size], size)) if counted else 0.0


def _in_one_line(paragraph: Paragraph) -> str:
    return " ".join(paragraph.text.split())


def _meta(document: Any, name: str) -> str:
    key = name.encode()
    size = min(pdfium.FPDF_GetMetaText(document, key, None, 0), TEXT_BYTES_MAX)
    buffer = ctypes.create_string_buffer(max(size, 2))
    pdfium.FPDF_GetMetaText(document, key, buffer, size)
    return _utf16(buffer.raw[:size])


def _title(bookmark: Any) -> str:
    size = pdfium.FPDFBookmark_GetTitle(bookmark, None, 0)
    if size > TEXT_BYTES_MAX:
        return "…"
    buffer = ctypes.create_string_buffer(max(size, 2))
    pdfium.FPDFBookmark_GetTitle(bookmark, buffer, size)
    return _utf16(buffer.raw[:size])


def _utf16(raw: Sequence[int] | bytes) -> str:
    """pdfium's text, which ends with a zero."""
    return bytes(raw).decode("utf-16-le", "replace").partition("\0")[0].strip()
