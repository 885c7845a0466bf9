"""Steal time: the share of the machine's time that its host gave to others while there was work to do.

On a shared host it makes the same code differ by a factor of three from second to second. Rounds are therefore short,
contenders take turns within each, and rounds in which the host took much are made up for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

UNDISTURBED_MAX = 0.03
"""Maximum share of a round that was stolen for the round to count as undisturbed."""
STAT = Path("/proc/stat")


def rounds(least: int, most: int) -> Iterator[int]:
    """Numbers of rounds until that many were undisturbed, or there were `most` of them."""
    undisturbed = 0
    for number in range(most):
        before = _ticks()
        yield number
        undisturbed += _share(before, _ticks()) <= UNDISTURBED_MAX
        if undisturbed >= least:
            return


class StealMeter:
    """Measures the share that is stolen from when it is made."""

    def __init__(self) -> None:
        self._before = _ticks()

    @property
    def share(self) -> float:
        return _share(self._before, _ticks())


def _ticks() -> tuple[int, int]:
    """Ticks that were stolen so far, and all of them; nothing is known of either where the system does not tell."""
    try:
        fields = [int(field) for field in STAT.read_text().partition("\n")[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return fields[7], sum(fields)


def _share(before: tuple[int, int], after: tuple[int, int]) -> float:
    return (after[0] - before[0]) / max(1, after[1] - before[1])
