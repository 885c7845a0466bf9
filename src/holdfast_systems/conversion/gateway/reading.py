"""A page as a person reads it: lines, the paragraphs they form, and their order.

pdfium gives characters in the order in which they were drawn, which is mostly the order in which they are read. Lines
that follow each other closely form a paragraph; paragraphs are put in order by the white space between them: columns
side by side are read one after the other, from the side where the script begins. A page whose text stands sideways or
upside down is turned for this as a reader would turn it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from statistics import median_low

from holdfast_systems.conversion.gateway.lines import GUTTER_SIZES, Line, around, is_leftwards, lines
from holdfast_systems.conversion.gateway.pdf import Page
from holdfast_systems.conversion.gateway.sight import Box

SAME_SIZE = 1.15
"""Sizes that differ by less belong to one paragraph."""
PITCH_WITHIN = 1.3
"""Maximum distance from line to line in a paragraph, as a multiple of what is usual on the page."""
PITCH_SIZES_MAX = 3.0
INDENT_SIZES = 0.8
"""Minimum distance by which an indented line begins further in, as a multiple of the size of its text."""
BAND_INSET_SIZES = 0.2
PARAGRAPHS_ORDERED_MAX = 500
CUTS_MAX = 16

BULLETS = frozenset("•‣⁃∙▪●◦")
_ITEM = re.compile(r"(?:\W|\(?\w{1,3}[.)]) ")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Lines that belong together."""

    lines: tuple[Line, ...]
    box: Box

    @property
    def text(self) -> str:
        """Its lines as they were broken."""
        return "\n".join(line.text for line in self.lines)


def paragraphs(page: Page) -> list[Paragraph]:
    """The paragraphs of the page in the order in which they are read."""
    every = lines(page)
    usual = _usual_pitch(every)
    groups: list[list[Line]] = []
    for line, following in zip_longest(every, every[1:]):
        if groups and _goes_on(groups[-1], line, usual) and not _begins_anew(groups[-1], line, following):
            groups[-1].append(line)
        else:
            groups.append([line])
    return in_order([Paragraph(tuple(group), around([line.box for line in group])) for group in groups])


def in_order(drawn: Sequence[Paragraph]) -> list[Paragraph]:
    """Paragraphs in the order in which they are read; where white space does not tell, as they were drawn."""
    if not 1 < len(drawn) <= PARAGRAPHS_ORDERED_MAX:
        return list(drawn)
    return _cut(list(drawn), CUTS_MAX)


def _usual_pitch(every: Sequence[Line]) -> float:
    """From line to line within paragraphs: a quarter of the steps are no larger, and the others may be between them."""
    pitches = sorted(
        after.box[1] - before.box[1]
        for before, after in pairwise(every)
        if 0 < after.box[1] - before.box[1] <= PITCH_SIZES_MAX * max(before.style.size, 1.0)
    )
    return pitches[len(pitches) // 4] if pitches else 0.0


def _goes_on(group: Sequence[Line], line: Line, usual: float) -> bool:
    before = group[-1]
    small, large = sorted((before.style.size, line.style.size))
    if large > small * SAME_SIZE or large <= 0:
        return False
    pitch = line.box[1] - before.box[1]
    # A page may have more than one pitch: what is usual for the size is within a paragraph, too.
    if not 0 < pitch <= max(usual * PITCH_WITHIN, large * PITCH_WITHIN):
        return False
    return line.box[0] < before.box[2] and line.box[2] > before.box[0]


def _begins_anew(group: Sequence[Line], line: Line, following: Line | None) -> bool:
    """Whether the line begins a paragraph though it follows closely: by a bullet, or by being indented."""
    if line.text[0] in BULLETS:
        return True
    before = group[-1]
    size = line.style.size
    if len(group) < 2 or line.box[0] <= before.box[0] + INDENT_SIZES * size:
        return False
    edge = max(one.box[2] for one in group)
    if before.box[2] < edge - 2 * size:
        return True
    # After a full line, only one indented line among flush ones is told from a list, a poem or lines in the middle.
    flush = following is not None and abs(following.box[0] - before.box[0]) < INDENT_SIZES * size
    return flush and line.box[2] > edge - size and not _ITEM.match(before.text)


def _cut(group: list[Paragraph], cuts_left: int) -> list[Paragraph]:
    if len(group) < 2 or cuts_left == 0:
        return group
    size = median_low([max(line.style.size for line in one.lines) for one in group])
    # Boxes leave room above and below the letters; closely set lines overlap by that.
    inset = size * BAND_INSET_SIZES
    bands = _split(group, lambda one: (one.box[1] + inset, one.box[3] - inset), 0.0)
    gutter = max(size * GUTTER_SIZES, 1.0)
    found: list[Paragraph] = []
    below = 0
    while below < len(bands):
        columns = _columns(bands[below], gutter)
        below += 1
        # Columns go on below as long as what is there keeps their gutter free.
        while len(columns) > 1 and below < len(bands):
            longer = _columns([one for column in columns for one in column] + bands[below], gutter)
            if len(longer) < 2:
                break
            columns = longer
            below += 1
        if len(columns) == 1:
            found += columns[0]
            continue
        if _reads_leftwards(group):
            columns.reverse()
        for column in columns:
            found += _cut(column, cuts_left - 1)
    return found


def _columns(group: Sequence[Paragraph], gutter: float) -> list[list[Paragraph]]:
    return _split(group, lambda one: (one.box[0], one.box[2]), gutter)


def _split(
    group: Sequence[Paragraph], extent: Callable[[Paragraph], tuple[float, float]], gap_min: float
) -> list[list[Paragraph]]:
    """Parts with white space of at least `gap_min` between them; each part keeps the order it had."""
    spans = sorted((*extent(one), place) for place, one in enumerate(group))
    parts: list[list[int]] = []
    reached = 0.0
    for begin, end, place in spans:
        if parts and begin - reached < gap_min:
            parts[-1].append(place)
            reached = max(reached, end)
        else:
            parts.append([place])
            reached = end
    return [[group[place] for place in sorted(part)] for part in parts]


def _reads_leftwards(group: Sequence[Paragraph]) -> bool:
    return is_leftwards("".join(one.text for one in group))
