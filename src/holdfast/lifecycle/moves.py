"""State as a table: which verb leads from which state to which.

A table is the only place where a transition is declared. It answers what may happen next, draws the diagram in
the docs and must agree with the `CHECK`s of the schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Move:
    """In state `source`, the verb leads to state `target`."""

    source: str
    verb: str
    target: str


Table = tuple[Move, ...]


class MoveRefused(ValueError):
    """The state does not know the verb."""

    def __init__(self, state: str, verb: str, allowed: Iterable[str]) -> None:
        self.state = state
        self.verb = verb
        self.allowed = tuple(sorted(allowed))
        super().__init__(state, verb, self.allowed)  # all three, so that it can be pickled

    def __str__(self) -> str:
        possible = ", ".join(self.allowed) or "none, it is final"
        return f"cannot {self.verb} what is {self.state}; possible: {possible}"


def moved(table: Table, state: str, verb: str) -> str:
    """The state that the verb leads to.

    Raises:
        MoveRefused: the table has no such move.
    """
    for move in table:
        if move.source == state and move.verb == verb:
            return move.target
    raise MoveRefused(state, verb, (move.verb for move in table if move.source == state))


def states(table: Table) -> tuple[str, ...]:
    """Every state, in the order in which the table first names it."""
    return tuple(dict.fromkeys(name for move in table for name in (move.source, move.target)))


def verbs(table: Table) -> tuple[str, ...]:
    """Every verb, in the order in which the table first names it."""
    return tuple(dict.fromkeys(move.verb for move in table))


def mermaid(table: Table) -> str:
    """The table as a Mermaid state diagram."""
    lines = [f"    {move.source} --> {move.target}: {move.verb}" for move in table]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {table[0].source}", *lines])
