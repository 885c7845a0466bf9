"""The lines of a page: what stands beside each other and can be seen, in the order in which it was drawn.

A line of a script that is written from right to left is put into the order in which it is spoken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast_systems.conversion.gateway.bidi import Glyph, Spoken, spoken
from holdfast_systems.conversion.gateway.markup import NOTHING
from holdfast_systems.conversion.gateway.pdf import HYPHEN, Page, Style
from holdfast_systems.conversion.gateway.sight import Box

GUTTER_SIZES = 1.0
"""Minimum width of the white space between columns, as a multiple of the size of the text."""
WORD_GAP_SIZES = 0.15
"""Minimum width of the white space between words, as a multiple of the size of the text."""
QUOTED_SHARE = 0.3
"""Of a line in another script, no more than this is quoted."""
CHARS_MAX = 5_000
"""Maximum number of characters of a line; a longer one is not a line, and is left as pdfium has it."""

SOFT_HYPHEN = "\u00ad"
RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_LINE = re.compile(f"[^\r\n{HYPHEN}]*{HYPHEN}?")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Line:
    """Characters that stand beside each other."""

    places: Sequence[int]
    """The place of each character of the text on the page."""
    text: str
    box: Box
    """Where it stands when the page is held so that most of its text is upright."""
    style: Style
    """That of its middle: a bullet or a great initial says nothing about a line."""
    leftwards: bool
    """Whether some of it is written from right to left."""


def lines(page: Page) -> list[Line]:
    """The lines of the page that can be seen and have something in them, in the order in which they were drawn."""
    if RIGHT_TO_LEFT.search(page.characters) is not None:
        return _Turned(page).lines()
    found: list[Line] = []
    for first, text in _pieces(page):
        _add(page, found, first, text)
    return found


def is_leftwards(text: str, *, share: float = 0.5) -> bool:
    """Whether more than this share of the letters is of a script that is written from right to left."""
    return len(RIGHT_TO_LEFT.findall(text)) > share * sum(map(str.isalpha, text))


def around(boxes: Sequence[Box]) -> Box:
    """The box that holds all of these."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _pieces(page: Page) -> Iterator[tuple[int, str]]:
    """Each line without the white space around it and without what is off the page, and where it begins."""
    for match in _LINE.finditer(page.characters):
        text = match[0]
        if text.endswith(HYPHEN):
            text = f"{text[:-1]}-"
        elif text.rstrip().endswith(SOFT_HYPHEN):
            text = f"{text.rstrip()[:-1]}-"  # at the end of a line it is seen
        first = match.start() + len(text) - len(text.lstrip())
        text = text.strip()
        if not text:
            continue
        places = range(first, first + len(text))
        # What is written from right to left does not begin and end where its first and last characters are.
        turned = RIGHT_TO_LEFT.search(text) is not None
        if page.is_whole(around(page.read_boxes(places)) if turned else page.read_box(places)):
            yield first, text
        else:
            yield from _seen(page, first, text)


def _seen(page: Page, first: int, text: str) -> Iterator[tuple[int, str]]:
    """The pieces of a line that are on the visible part of the page; a word that the edge cuts is whole."""
    begin: int | None = None
    end = 0
    for word in _WORD.finditer(text):
        if any(map(page.is_seen, page.read_boxes(range(first + word.start(), first + word.end())))):
            begin, end = word.start() if begin is None else begin, word.end()
        elif begin is not None:
            yield first + begin, text[begin:end]
            begin = None
    if begin is not None:
        yield first + begin, text[begin:end]


def _add(page: Page, found: list[Line], first: int, text: str) -> None:
    """One more piece: a line of its own, or the rest of the last one."""
    places = range(first, first + len(text))
    line = Line(places, text, page.read_box(places), _style(page, places, text), False)
    if found and _stands_beside(found[-1], line):
        line = _joined(page, found.pop(), line)
    found.append(line)


class _Turned:
    """The lines of a page on which a script is written from right to left."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._joiners = page.joiners()
        self._leftwards = is_leftwards(page.characters)
        self._found: list[Line] = []
        self._spoken: dict[int, Spoken] = {}

    def lines(self) -> list[Line]:
        """All of them, those of other scripts included."""
        for first, text in _pieces(self._page):
            places = range(first, first + len(text))
            if len(text) <= CHARS_MAX and (RIGHT_TO_LEFT.search(text) or self._goes_on(places)):
                self._turn(places)
            else:
                _add(self._page, self._found, first, text)
        gain = sum(one.gain for one in self._spoken.values())
        for number, one in self._spoken.items():
            self._found[number] = replace(self._found[number], text=one.straightened(gain))
        return self._found

    def _goes_on(self, places: Sequence[int]) -> bool:
        """Whether these stand in the last line, and that is one that is written from right to left."""
        last = self._found[-1] if self._found else None
        return last is not None and last.leftwards and _is_near(last, self._page.read_box(places), len(places))

    def _turn(self, places: Sequence[int]) -> None:
        """One more piece of a line that is written from right to left; pdfium breaks it where a mark is raised."""
        box = around(self._page.read_boxes(places))
        while self._found and _is_near(self._found[-1], box, len(places)):
            before = self._found.pop()
            self._spoken.pop(len(self._found), None)
            places, box = sorted({*before.places, *places}), around([before.box, box])
        text = "".join(self._page.characters[place] for place in places)
        style = _style(self._page, places, text)
        # A line of such a page may have more of another script, but one in another script quotes only a little.
        leftwards = is_leftwards(text, share=QUOTED_SHARE if self._leftwards else 0.5)
        told = spoken(self._glyphs(places, box), size=style.size, leftwards=leftwards)
        self._spoken[len(self._found)] = told
        self._found.append(Line(told.places, told.text, box, style, True))

    def _glyphs(self, places: Sequence[int], box: Box) -> Iterator[Glyph]:
        for place, one in zip(places, self._page.read_boxes(places), strict=True):
            character = self._page.characters[place]
            if character != NOTHING:
                yield Glyph("-" if character == HYPHEN else character, place, one)
        for character, x, y in self._joiners:
            if box[0] < x < box[2] and box[1] < y <= box[3]:
                yield Glyph(character, places[0], (x, y, x, y))


def _is_near(line: Line, box: Box, count: int) -> bool:
    """Whether `count` characters with this box stand in the line, or close beside it."""
    if len(line.places) + count > CHARS_MAX:
        return False
    apart = max(line.box[0], box[0]) - min(line.box[2], box[2])
    return apart < GUTTER_SIZES * line.style.size and _shares_height(line.box, box)


def _stands_beside(before: Line, line: Line) -> bool:
    """Whether the line only goes on with the one before: pdfium breaks it where a figure is raised or lowered."""
    if before.leftwards or line.leftwards or before.places[-1] + 1 == line.places[0]:
        return False
    size = max(before.style.size, line.style.size)
    if not -size * WORD_GAP_SIZES <= line.box[0] - before.box[2] < size * GUTTER_SIZES:
        return False
    return _shares_height(before.box, line.box)


def _shares_height(one: Box, other: Box) -> bool:
    shared = min(one[3], other[3]) - max(one[1], other[1])
    return 2 * shared > min(one[3] - one[1], other[3] - other[1])


def _joined(page: Page, before: Line, line: Line) -> Line:
    """Two pieces as one line; what was between them keeps its places, so that each character keeps its own."""
    first, end, begin = before.places[0], before.places[-1] + 1, line.places[0]
    apart = line.box[0] - before.box[2] > line.style.size * WORD_GAP_SIZES
    between = NOTHING * (begin - end)
    if apart or " " in page.characters[end:begin]:
        between = f" {between[1:]}"
    text = before.text + between + line.text
    places = range(first, first + len(text))
    return Line(places, text, around([before.box, line.box]), _style(page, places, text), False)


def _style(page: Page, places: Sequence[int], text: str) -> Style:
    middle = len(text) // 2
    # A space may be one that pdfium put in, which has no style; none is at either end.
    return page.style(places[middle - (text[middle] == " ")])
