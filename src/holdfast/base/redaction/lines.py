"""Text from outside that can neither begin a line of its own nor steer a terminal."""

from __future__ import annotations

import re

# C0 and C1 controls, the line and paragraph separators, and what reverses the direction of writing.
_CONTROL = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069"
_STEERING = re.compile(f"[{_CONTROL}]")
_FORGING = re.compile(f"[{_CONTROL}\\t\\n]")


def printable(text: str) -> str:
    r"""The text with `\x1b` for what steers a terminal; line feeds and tabs stay."""
    return text if text.isprintable() else _STEERING.sub(_escaped, text)


def one_line(text: str) -> str:
    r"""The same on one line: a line feed becomes `\n`, so that no text begins a log line of its own."""
    return text if text.isprintable() else _FORGING.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
