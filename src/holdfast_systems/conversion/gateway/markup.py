"""XML text: well formed for any string at all, and written to a file with a bound.

Always true: whatever the PDF said, what is written here can be read by any XML parser.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from holdfast_systems.conversion.gateway.faults import RESULT_TOO_LARGE

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
NOTHING = "\uffff"
"""Stands in a page's text where a character takes two places; it is left out of what is written."""
FLUSHED_CHARS = 262_144

# All that XML 1.0 does not allow; a carriage return is allowed, but no reader would see it as one.
_FORBIDDEN = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ATTRIBUTE = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\t": "&#9;"}
_SPECIAL = re.compile('[&<>"\n\t]')


def clean(text: str) -> str:
    """The text with U+FFFD in the place of what XML cannot say."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace(NOTHING, "").replace("\r\n", "\n").replace("\r", "\n")
    return _FORBIDDEN.sub("\ufffd", text)


def escaped(text: str) -> str:
    """As the content of an element."""
    text = clean(text)
    if "&" in text or "<" in text or ">" in text:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text


def quoted(text: str) -> str:
    """As an attribute, between its quotes; line breaks and tabs survive."""
    return f'"{_SPECIAL.sub(lambda found: _ATTRIBUTE[found[0]], clean(text))}"'


class Writer:
    """Text on its way into a file, counted as it goes."""

    def __init__(self, file: BinaryIO, *, bytes_max: int) -> None:
        self._file = file
        self._bytes_max = bytes_max
        self._parts: list[str] = [HEAD]
        self._held = 0
        self.written = 0

    def add(self, text: str) -> None:
        """Write this, which is markup already.

        Raises:
            Failure: RESULT_TOO_LARGE.
        """
        self._parts.append(text)
        self._held += len(text)
        if self._held >= FLUSHED_CHARS:
            self.flush()

    def flush(self) -> None:
        """Bring everything into the file.

        Raises:
            Failure: RESULT_TOO_LARGE.
        """
        data = "".join(self._parts).encode()
        self._parts, self._held = [], 0
        if self.written + len(data) > self._bytes_max:
            raise RESULT_TOO_LARGE(bytes_max=self._bytes_max)
        self._file.write(data)
        self.written += len(data)
