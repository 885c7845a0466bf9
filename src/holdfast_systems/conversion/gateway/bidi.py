"""Lines that hold a script written from right to left: from where their characters stand to the order of speech.

pdfium puts some words of such a line in order and leaves others as they were drawn, and it mirrors brackets that needed
no mirroring. Where the characters stand is the one thing that can be relied on: the order is made from that alone.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from unicodedata import bidirectional, combining

from holdfast_systems.conversion.gateway.sight import Box

WORD_GAP_SIZES = 0.22
"""Minimum width of white space between two characters that is a space, as a multiple of the size of the text."""
MARKED_GAP_SIZES = 0.7
"""The same beside a letter with marks, of which it is not known where it stands, only where the ink of a mark is."""
NEAR_MAX = 8
"""Number of letters to either side of a mark among which the one that it belongs to is looked for."""

_CLASSES = {"R": "R", "AL": "R", "L": "L", "EN": "N", "AN": "N", "ES": "S", "CS": "S", "ET": "T"}
# From left to right within such a line: words of another script with what is between them, and single numbers.
_RIGHTWARDS = re.compile(r"(?:N[^R]*)?L(?:[^R]*[LN])?|T*N(?:S?N)*T*")
_LEFTWARDS = re.compile(r"R(?:[^L]*R)?")
_PAIRS = ("()", "[]", "{}", "«»", "‹›")
_MIRRORED = {pair[turn]: pair[1 - turn] for pair in _PAIRS for turn in (0, 1)}
_OPENED_BY = {pair[1]: pair[0] for pair in _PAIRS}


@dataclass(frozen=True, slots=True)
class Glyph:
    """One character, its place on the page, and the box in which it stands."""

    character: str
    place: int
    box: Box

    @property
    def left(self) -> float:
        return self.box[0]

    @property
    def right(self) -> float:
        return self.box[2]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A line in the order of speech: a place for each character, and which of them may be mirrored."""

    text: str
    places: tuple[int, ...]
    mirrorable: frozenset[int]

    @property
    def gain(self) -> int:
        """How many more brackets match when they are mirrored."""
        if not self.mirrorable:
            return 0
        return _matched(self.mirrored()) - _matched(self.text)

    def mirrored(self) -> str:
        """The text with its brackets the other way round, save those inside words of another script."""
        return "".join(_MIRRORED[one] if at in self.mirrorable else one for at, one in enumerate(self.text))

    def straightened(self, page_gain: int) -> str:
        """The text with its brackets as they were meant; where the line does not tell, the page does."""
        if not self.mirrorable:
            return self.text
        text = self.mirrored() if (self.gain or page_gain) > 0 else self.text
        count = sum(one in _MIRRORED for one in text)
        # pdfium mirrors the one and not the other where a word of another script stands between them.
        return text if count % 2 or 2 * _matched(text) == count else self._paired(text)

    def _paired(self, text: str) -> str:
        """The text with brackets that open and close by turns."""
        found = list(text)
        open_: set[str] = set()
        for at, character in enumerate(text):
            opening = _OPENED_BY.get(character, character)
            if character in _MIRRORED:
                closes = opening in open_
                if at in self.mirrorable:
                    found[at] = _MIRRORED[opening] if closes else opening
                open_ ^= {opening}
        return "".join(found)


def spoken(glyphs: Iterable[Glyph], *, size: float, leftwards: bool) -> Spoken:
    """The characters of one line in the order in which they are spoken.

    Args:
        size: of the text, which tells how wide a space is.
        leftwards: whether the line as a whole runs from right to left.
    """
    seen = _with_spaces(_clusters(glyphs), size)
    classes = "".join(_class(cluster[0].character) for cluster in seen)
    ordered = _in_order(classes, leftwards=leftwards)
    found = [(glyph, turned) for place, turned in ordered for glyph in seen[place]]
    while found and found[0][0].character.isspace():
        found.pop(0)
    while found and found[-1][0].character.isspace():
        found.pop()
    text = "".join(glyph.character for glyph, _ in found)
    turned = {at for at, (_, turned) in enumerate(found) if turned}
    mirrorable = (
        at for at in range(len(text)) if text[at] in _MIRRORED and not turned.isdisjoint({at - 1, at, at + 1})
    )
    return Spoken(text, tuple(glyph.place for glyph, _ in found), frozenset(mirrorable))


def _clusters(glyphs: Iterable[Glyph]) -> list[list[Glyph]]:
    """The characters from left to right; marks and the pieces of a ligature stay with what they belong to."""
    bases: list[list[Glyph]] = []
    marks: list[Glyph] = []
    for glyph in glyphs:
        if combining(glyph.character):
            marks.append(glyph)
        elif glyph.character.isspace() and glyph.right <= glyph.left:
            continue  # one that pdfium put in, not always where it belongs
        elif bases and bases[-1][0].box == glyph.box:
            bases[-1].append(glyph)
        else:
            bases.append([glyph])
    bases.sort(key=lambda base: _middle(base[0]))
    middles = [_middle(base[0]) for base in bases]
    for mark in sorted(marks, key=lambda glyph: combining(glyph.character)):
        at = bisect(middles, _middle(mark))
        near = bases[max(0, at - NEAR_MAX) : at + NEAR_MAX]
        if near:
            min(near, key=lambda base: _distance(base[0], mark)).append(mark)
        else:
            bases.append([mark])
            middles.append(_middle(mark))
    return bases


def _distance(base: Glyph, mark: Glyph) -> tuple[bool, float]:
    """How far a mark is from a letter; what was drawn as one has one height, and is nearer than all else."""
    apart = abs(_middle(base) - _middle(mark))
    together = base.box[1::2] == mark.box[1::2] and apart <= base.box[3] - base.box[1]
    return not together, apart


def _with_spaces(seen: Sequence[list[Glyph]], size: float) -> list[list[Glyph]]:
    """The same with a space wherever there is room for one."""
    found: list[list[Glyph]] = []
    reached = float("inf")
    for cluster in seen:
        glyph = cluster[0]
        gap_sizes = (glyph.left - reached) / size if found and size else 0.0
        if gap_sizes >= WORD_GAP_SIZES and not glyph.character.isspace() and not found[-1][0].character.isspace():
            marked = any(combining(one.character) for one in (*found[-1], *cluster))
            if gap_sizes >= MARKED_GAP_SIZES or not marked:
                found.append([Glyph(" ", glyph.place, glyph.box)])
        found.append(cluster)
        reached = glyph.right if reached == float("inf") else max(reached, glyph.right)
    return found


def _in_order(classes: str, *, leftwards: bool) -> list[tuple[int, bool]]:
    """The places of what is seen, in the order of speech, each with whether it is read from right to left."""
    if leftwards:
        return _turned(classes, range(len(classes)))
    found: list[tuple[int, bool]] = []
    reached = 0
    for run in _LEFTWARDS.finditer(classes):
        found += [(place, False) for place in range(reached, run.start())]
        found += _turned(classes, range(run.start(), run.end()))
        reached = run.end()
    return found + [(place, False) for place in range(reached, len(classes))]


def _turned(classes: str, places: range) -> list[tuple[int, bool]]:
    """These places from right to left, but what is written from left to right among them as it stands."""
    parts: list[list[tuple[int, bool]]] = []
    reached = places.start
    for run in _RIGHTWARDS.finditer(classes, places.start, places.stop):
        parts += [[(place, True)] for place in range(reached, run.start())]
        parts.append([(place, False) for place in range(run.start(), run.end())])
        reached = run.end()
    parts += [[(place, True)] for place in range(reached, places.stop)]
    return [one for part in reversed(parts) for one in part]


def _class(character: str) -> str:
    return _CLASSES.get(bidirectional(character), "O")


def _middle(glyph: Glyph) -> float:
    return (glyph.left + glyph.right) / 2


def _matched(text: str) -> int:
    """How many brackets are closed by their own kind."""
    matched = 0
    open_: list[str] = []
    for character in text:
        if character in _OPENED_BY:
            if open_ and open_[-1] == _OPENED_BY[character]:
                open_.pop()
                matched += 1
        elif character in _MIRRORED:
            open_.append(character)
    return matched
