"""A page as a value: its title and its parts, some of which are kept up to date while it is open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.catalog import Catalog
from holdfast.console.visit import Visit
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

    @property
    def live(self) -> list[Live]:
        """The parts that are kept up to date."""
        return [part for part in self.parts if isinstance(part, Live)]


Render = Callable[[Desk, Visit], Page]
"""Makes a page; it may block. It raises Failure for what cannot be shown."""
