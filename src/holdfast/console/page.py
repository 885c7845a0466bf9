"""A page as a value: its title and its parts, some of which are kept up to date while it is open."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from holdfast.catalog import Catalog, Failure
from holdfast.http.markup import Markup
from holdfast.store import Store
from holdfast.watch.rules import Rule
from holdfast.watch.series import Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the pages read from."""

    store: Store
    catalogs: Sequence[Catalog]
    address: str
    series: Series
    rules: Sequence[Rule]
    """The alert rules that are shown, and whose thresholds the charts draw."""
    codes: Set[str] = frozenset()
    """The codes that have a page: those of the catalogs."""


@dataclass(frozen=True, slots=True)
class Live:
    """A part that is sent again when it changes. It holds no form that somebody might be filling in."""

    id: str
    content: Markup


Part = Markup | Live


@dataclass(frozen=True, slots=True)
class Page:
    """What is shown for one address."""

    title: str
    parts: Sequence[Part]
    section: str = ""
    """Which entry of the menu it belongs to."""
    version: int = 0
    """The time on the database's clock just before it was read: what is newer has a higher one, in every process."""
    refused: Failure | None = None
    """Why the page shows less than was asked for; programs get this instead."""

    @property
    def live(self) -> list[Live]:
        """The parts that are kept up to date."""
        return [part for part in self.parts if isinstance(part, Live)]
