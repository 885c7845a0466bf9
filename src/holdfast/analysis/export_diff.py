"""What changed between two versions of the catalogs, and whether clients break of it.

A client breaks when a code is gone, when its status is another, or when what was retried no longer is or the reverse;
also when that begins or ceases to depend on the occurrence. New codes and new words break nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.analysis.export import Entry


class Changed(StrEnum):
    """What became of a code in a catalog."""

    REMOVED = "removed"
    STATUS = "status"
    RETRYABLE = "retryable"
    CONDITIONAL = "conditional"
    ADDED = "added"
    REWORDED = "reworded"

    @property
    def breaks(self) -> bool:
        return self not in (Changed.ADDED, Changed.REWORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one code in one catalog."""

    catalog: str
    code: str
    what: Changed
    before: int | bool | None = None
    after: int | bool | None = None

    def __str__(self) -> str:
        where = f"{self.code} ({self.catalog})"
        match self.what:
            case Changed.REMOVED:
                return f"{where} is gone"
            case Changed.STATUS:
                return f"{where} has status {self.after} instead of {self.before}"
            case Changed.RETRYABLE:
                return f"{where} is {'retried now' if self.after else 'no longer retried'}"
            case Changed.CONDITIONAL:
                return f"{where} is retried {'on condition only' if self.after else 'without condition now'}"
            case Changed.ADDED:
                return f"{where} is new"
            case Changed.REWORDED:
                return f"{where} is told in other words"


def changes(old: Sequence[Entry], new: Sequence[Entry]) -> list[Change]:
    """Every change from the old version to the new one; those that break clients come first."""
    before, after = _by_place(old), _by_place(new)
    found = [change for place in before | after for change in _compared(place, before.get(place), after.get(place))]
    return sorted(found, key=lambda change: (not change.what.breaks, change.catalog, change.code))


def _by_place(recorded: Sequence[Entry]) -> dict[tuple[str, str], Entry]:
    return {(catalog, entry.code): entry for entry in recorded for catalog in entry.catalogs}


def _compared(place: tuple[str, str], old: Entry | None, new: Entry | None) -> Iterator[Change]:
    catalog, code = place
    if new is None:
        yield Change(catalog=catalog, code=code, what=Changed.REMOVED)
    elif old is None:
        yield Change(catalog=catalog, code=code, what=Changed.ADDED)
    else:
        broken = list(_broken(old, new))
        for what, before, after in broken:
            yield Change(catalog=catalog, code=code, what=what, before=before, after=after)
        if not broken and _words(old) != _words(new):
            yield Change(catalog=catalog, code=code, what=Changed.REWORDED)


def _broken(old: Entry, new: Entry) -> Iterator[tuple[Changed, int, int]]:
    if old.status != new.status:
        yield Changed.STATUS, old.status, new.status
    if old.retryable != new.retryable:
        yield Changed.RETRYABLE, old.retryable, new.retryable
    elif new.retryable and old.conditional != new.conditional:
        yield Changed.CONDITIONAL, old.conditional, new.conditional


def _words(entry: Entry) -> Entry:
    """The entry without what depends on which other catalogs were exported, or where they are documented."""
    return replace(entry, catalogs=(), documentation_url="")
