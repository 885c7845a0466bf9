"""The XML that a conversion gives: whether it is any, and whether there is a word in it."""

from __future__ import annotations

from collections.abc import Iterable
from xml.parsers import expat

TITLE = "title"
"""The attribute in which bookmarks have their words."""


def unreadable(xml: bytes) -> str:
    """Why it is not XML that can be kept; empty when it is."""
    parser = expat.ParserCreate()
    # A document that needs a type could also define entities that unpack into gigabytes.
    parser.StartDoctypeDeclHandler = _refuse_doctype
    try:
        parser.Parse(xml, True)
    except (expat.ExpatError, _Doctype) as broken:
        return f"an answer that is not XML: {broken}"
    return ""


def has_words(pieces: Iterable[bytes]) -> bool:
    """Whether some element has text, or some bookmark a title; it is read no further than to the first word."""
    parser = expat.ParserCreate()
    parser.CharacterDataHandler = _look_at_text
    parser.StartElementHandler = _look_at_title
    try:
        for piece in pieces:
            parser.Parse(piece)
        parser.Parse(b"", True)
    except _Word:
        return True
    except expat.ExpatError:
        return True  # what cannot be read is not said to be empty
    return False


class _Doctype(Exception):
    """The document declares a type."""


class _Word(Exception):
    """There is one."""


def _refuse_doctype(*_: object) -> None:
    raise _Doctype("it declares a document type")


def _look_at_text(text: str) -> None:
    if not text.isspace():
        raise _Word


def _look_at_title(_: str, attributes: dict[str, str]) -> None:
    if attributes.get(TITLE, "").strip():
        raise _Word
