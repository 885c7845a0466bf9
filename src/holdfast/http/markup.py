"""HTML that escapes by construction.

Always true: only `Markup` is taken as it is. Any other text, wherever it came from, is escaped on its way in.
"""

from __future__ import annotations

from html import escape

_VOID = frozenset({"input", "link", "meta"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str) -> Markup:
    """`<name attribute="…">children</name>`; a trailing underscore is dropped from `class_`, `_` becomes `-`."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"' for key, text in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: str) -> Markup:
    """The children one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))
