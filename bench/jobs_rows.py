"""How figures of the suite `jobs` become rows; a contender that cannot be run is shown as that, never left out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from bench.jobs_process import Unavailable
from bench.steal import rounds as undisturbed
from bench.table import Asked, Row

OURS, RAW = "holdfast", "raw"
NAME_CHARS_MAX = 80
LABELS = {RAW: "raw SQL", "persist_queue": "persist-queue"}


@dataclass(slots=True)
class Figures:
    """The best figure of each contender, and why some have none."""

    best: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def ratio(self, of: str, to: str) -> float | None:
        return self.best[of] / self.best[to] if of in self.best and to in self.best else None


def in_turns(contenders: Iterable[str], measure: Callable[[str], float], *, rounds: int, what: str) -> Figures:
    """Measure each contender once in every round, so that a busy moment hits all; the highest figure counts.

    Up to as many rounds more make up for those in which the host took much of the machine.
    """
    figures = Figures()
    names = list(contenders)
    for _ in undisturbed(rounds, 2 * rounds if rounds > 1 else 1):
        for name in names:
            if name in figures.missing:
                continue
            try:
                figure = measure(name)
            except Unavailable as reason:
                announce(f"{what}: {name}: {reason}")
                figures.missing[name] = str(reason)
                figures.best.pop(name, None)
                continue
            figures.best[name] = max(figure, figures.best.get(name, 0.0))
    return figures


def rate_rows(
    group: str,
    figures: Figures,
    unit: str,
    asked: Mapping[str, Asked | None] | None = None,
    costs: Mapping[str, Mapping[str, float]] | None = None,
) -> list[Row]:
    """A row for each contender, compared with ours and with the raw limit."""
    rows = []
    for name, figure in figures.best.items():
        ratios = {f"× {LABELS.get(to, to)}": ratio for to in (RAW, OURS) if (ratio := figures.ratio(name, to))}
        rows.append(
            Row(
                group=group,
                name=LABELS.get(name, name),
                figure=figure,
                unit=unit,
                ratios={**ratios, **(costs or {}).get(name, {})},
                asked=(asked or {}).get(name),
            )
        )
    return rows + [missing_row(group, name, reason) for name, reason in figures.missing.items()]


def missing_row(group: str, name: str, reason: str) -> Row:
    """A peer that is missing is shown; that we are missing is a target not met."""
    asked = Asked(bound=1, reached=0, unit="runs", at_most=False) if name == OURS else None
    label = f"{LABELS.get(name, name)}: {reason}"[:NAME_CHARS_MAX]
    return Row(group=group, name=label, figure=0, unit="NOT AVAILABLE", asked=asked)


def at_least(bound: float, reached: float | None, unit: str) -> Asked | None:
    return None if reached is None else Asked(bound=bound, reached=reached, unit=unit, at_most=False)


def ratio_row(group: str, name: str, bound: float, reached: float | None, unit: str) -> list[Row]:
    """A row of its own for a second target of the same figure; none when there is nothing to compare with."""
    if reached is None:
        return []
    return [Row(group=group, name=name, figure=reached, unit=unit, asked=at_least(bound, reached, unit))]


def announce(text: str) -> None:
    """What must not be overlooked."""
    print(f"!! NOT AVAILABLE  {text}", file=sys.stderr, flush=True)


def progress(text: str) -> None:
    print(f"   {text}", file=sys.stderr, flush=True)
