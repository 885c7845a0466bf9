"""The links that exist in this process, for code that shows their state."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from holdfast.guard.link import Link

# A set of plain references rather than a WeakSet: adding, discarding and copying are single steps under the
# interpreter lock, so threads may make links while another looks, and a fork finds no lock held.
_live: set[ref[Link]] = set()


def enlist(link: Link) -> None:
    """Count the link among the live ones for as long as other code holds it."""
    _live.add(ref(link, _live.discard))


def links() -> tuple[Link, ...]:
    """Every link that is alive in this process, by name; several may have the same one."""
    found = (reference() for reference in _live.copy())
    return tuple(sorted((link for link in found if link is not None), key=lambda link: link.name))
