"""One visit: who looks at which page, under which root, with which query."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode

from holdfast.catalog.core import BAD_REQUEST
from holdfast.operate import Actor

QUERY_CHARS_MAX = 4_000
QUERY_FIELDS_MAX = 50
VALUE_CHARS_MAX = 500
"""Maximum length of a value in the query; a longer one is not a filter that a person typed."""
LIVE_OF = "of"
"""Holds a whole address: the page whose parts are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What a page is asked for. Addresses are made here, so that all stand below the root."""

    root: str = ""
    """Where the console is mounted; no slash at the end."""
    path: str = "/"
    """Below the root."""
    query: Mapping[str, str] = field(default_factory=dict)
    who: str = ""
    actor: Actor | None = None
    """Who acts, and from where; None for somebody who may not."""
    csrf: str = ""
    """What a form has to bring back."""
    codes: Set[str] = frozenset()
    """The codes that have a page."""

    @property
    def parts(self) -> list[str]:
        """The path, cut at its slashes: `/jobs/1` is `["jobs", "1"]`."""
        return self.path.split("/")[1:]

    def get(self, name: str) -> str | None:
        """A value of the query without the spaces around it; None when it is missing or empty."""
        return self.query.get(name, "").strip() or None

    def to(self, *parts: str, **query: object) -> str:
        """The address of another page; what is None or empty stands not in the query."""
        path = "/".join(quote(part, safe="") for part in parts)
        kept = {name: str(value) for name, value in query.items() if value not in {None, ""}}
        return f"{self.root}/{path}" + (f"?{urlencode(kept)}" if kept else "")

    def here(self, **changes: object) -> str:
        """This page with other values in its query; what was said about a deed is said once."""
        return self.to(*self.parts, **{**self.query, "said": None, **changes})

    @property
    def own(self) -> str:
        """This page's path and query below the root, to come back to."""
        return self.here().removeprefix(self.root)


def read_query(text: str) -> dict[str, str]:
    """The values of a query, under bounds; of a name that comes twice the last counts.

    Raises:
        Failure: BAD_REQUEST.
    """
    if len(text) > QUERY_CHARS_MAX:
        raise BAD_REQUEST("The address is too long.")
    try:
        pairs = parse_qsl(text, max_num_fields=QUERY_FIELDS_MAX)
    except ValueError:
        raise BAD_REQUEST("The address has too many parts.") from None
    if any(len(value) > VALUE_CHARS_MAX and name != LIVE_OF for name, value in pairs):
        raise BAD_REQUEST("A part of the address is too long.")
    # No database stores a NUL.
    return {name: value.replace("\0", "") for name, value in pairs}
