"""What `holdfast serve` tells the person who started it: every address, the token, and the systems' own lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.cli.assembly import Premises
from holdfast.cli.output import say
from holdfast.cli.state import TOKEN_FILE

if TYPE_CHECKING:
    from holdfast.cli.serve_layout import Layout
    from holdfast.http.system import System

COLUMNS_MIN = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the person is told once, when everything runs."""

    token_shown: bool
    """Whether the operator's token was made just now."""
    warnings: tuple[str, ...] = ()


def announce(
    premises: Premises,
    made: Sequence[System],
    layout: Layout,
    told: Told,
    *,
    works: bool,
    console_link: str = "",
) -> None:
    """Say where everything is; only what answers is said."""
    base = premises.address
    say(f"Holdfast is running at {base}")
    rows = [(place.path, place.says) for place in layout.places if place.path != "/"]
    rows += [("/errors/", "every fault, with its page"), ("/health", "is it up?")]
    width = max([COLUMNS_MIN, *(len(base + path) + 2 for path, _ in rows)])
    for path, what in rows:
        say(f"  {base + path:<{width}}{what}")
    for system in made:
        for line in system.says:
            say(f"  {system.name}: {line}")
    if console_link:
        say(f"Console: {console_link}")
    if told.token_shown:
        say(f"Operator's token: {premises.token.reveal()} (kept in {premises.data / TOKEN_FILE}, not shown again)")
    say(f"State: {premises.data}, {premises.store.address}; {'jobs run here' if works else 'no jobs run here'}.")
    for warning in told.warnings:
        say(f"Warning: {warning}")
    say("Stop with Ctrl-C.")
    sys.stdout.flush()
