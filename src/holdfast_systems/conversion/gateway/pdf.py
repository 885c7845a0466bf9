"""A PDF as pdfium reads it: its pages, its characters and where they stand.

Positions are as a person sees the page: in points from its upper left corner, after any rotation. Handles are given
back when a document is closed; the process is replaced before anything that is left over can add up.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pypdfium2.raw as pdfium  # type: ignore[import-untyped]

from holdfast_systems.conversion.gateway.faults import NOT_A_PDF, PDF_BROKEN, PDF_ENCRYPTED, TOO_MANY_PAGES
from holdfast_systems.conversion.gateway.joiners import Joiner, joiners
from holdfast_systems.conversion.gateway.sight import Box, Sight, bounds_of, sight, text_held_upright

HEADER_BYTES = 1_024
"""A PDF may begin after some other bytes, as all readers allow."""
TAIL_BYTES = 65_536
LOCKED = frozenset({pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY})

COORDINATE_MAX = 1_000_000.0
WRITTEN = frozenset({pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_FREETEXT})
ANNOTATIONS_MAX = 5_000
"""Maximum number of annotations of a page that is taken for a form: to bring more onto it would take pdfium minutes."""
OUT_OF_SIGHT: Box = (0.0, 0.0, 0.0, 0.0)
"""Stands for a box with numbers that no page has."""
HYPHEN = "\ufffe"
"""Stands in a page's text for a hyphen at the end of a line, after which pdfium leaves the line break out."""
HYPHEN_CODES = frozenset({2, 0xFFFE})
"""What pdfium may answer there when it is asked for a single character."""


class Document:
    """An open PDF. Pages are read one at a time."""

    def __init__(self, path: Path, *, pages_max: int, page_chars_max: int) -> None:
        """
        Raises:
            Failure: NOT_A_PDF, PDF_ENCRYPTED, PDF_BROKEN, TOO_MANY_PAGES.
        """
        _check_ends(path)
        pdfium.FPDF_InitLibrary()
        self.handle = pdfium.FPDF_LoadDocument(str(path).encode(), None)
        if not self.handle:
            error = pdfium.FPDF_GetLastError()
            raise PDF_ENCRYPTED() if error in LOCKED else PDF_BROKEN(reason="structure")
        self.page_count: int = pdfium.FPDF_GetPageCount(self.handle)
        self._page_chars_max = page_chars_max
        if not 1 <= self.page_count <= pages_max:
            self.close()
            few = self.page_count < 1
            raise PDF_BROKEN(reason="no_pages") if few else TOO_MANY_PAGES(pages=self.page_count, pages_max=pages_max)

    def close(self) -> None:
        pdfium.FPDF_CloseDocument(self.handle)

    def pages(self) -> Iterator[Page]:
        """Every page in turn; one is gone when the next is asked for.

        Raises:
            Failure: PDF_BROKEN, because a page is not there: the XML would be incomplete and nobody would know.
        """
        for index in range(self.page_count):
            with self._loaded(index) as page:
                yield page

    @contextmanager
    def _loaded(self, index: int) -> Iterator[Page]:
        handle = self._page(index)
        try:
            page = Page(handle, index + 1, self._page_chars_max)
            try:
                yield page
            finally:
                page.close()
        finally:
            pdfium.FPDF_ClosePage(handle)

    def _page(self, index: int) -> Any:
        """The page, with what was filled into its forms as part of it."""
        handle = pdfium.FPDF_LoadPage(self.handle, index)
        if handle and _is_filled_in(handle):
            pdfium.FPDFPage_Flatten(handle, pdfium.FLAT_NORMALDISPLAY)
            pdfium.FPDF_ClosePage(handle)
            handle = pdfium.FPDF_LoadPage(self.handle, index)
        if not handle:
            raise PDF_BROKEN(reason="page", page=index + 1)
        return handle


@dataclass(frozen=True, slots=True)
class Style:
    """How a piece of text is set."""

    font: str
    size: float


class Page:
    """One page and its text."""

    def __init__(self, handle: Any, number: int, chars_max: int) -> None:
        """
        Raises:
            Failure: PDF_BROKEN.
        """
        self.number = number
        self.width = _length(pdfium.FPDF_GetPageWidthF(handle))
        self.height = _length(pdfium.FPDF_GetPageHeightF(handle))
        self.rotation: int = pdfium.FPDFPage_GetRotation(handle) % 4 * 90
        bounds = bounds_of(handle, self.width, self.height)
        self._text, upright = text_held_upright(handle, self.rotation)
        if not self._text:
            raise PDF_BROKEN(reason="page", page=number)
        self._seen = sight(bounds, self.rotation)
        self._read = sight(bounds, upright)
        _, _, self._right, self._bottom = self._read(*bounds)
        self._handle = handle
        count = max(0, pdfium.FPDFText_CountChars(self._text))
        self.truncated = count > chars_max
        self.characters = _characters(self._text, min(count, chars_max))
        """One for each place of the page's text, so that a place in this string is a place on the page."""
        self._read_boxes: dict[int, Box] = {}
        self._styles: dict[int, Style] = {}
        self._style = Style("", 0.0)
        self._rectangle = pdfium.FS_RECTF()
        self._rectangle_at = ctypes.byref(self._rectangle)

    def close(self) -> None:
        pdfium.FPDFText_ClosePage(self._text)

    def joiners(self) -> list[Joiner]:
        """Joiners that pdfium leaves out of the text, each with the point at which it stands, as `read_box` has it."""
        return joiners(self._handle, self._read)

    def box(self, places: Sequence[int], *, every: bool = False) -> Box:
        """Where these characters are seen; the first and the last tell, unless `every` one has to be asked."""
        return self._around(self._seen, places, every=every)

    def read_box(self, places: Sequence[int]) -> Box:
        """The same when the page is held so that most of its text is upright."""
        return self._around(self._read, places, every=False)

    def read_boxes(self, places: Sequence[int]) -> list[Box]:
        """The same for each of these characters; it is remembered, because it is asked for more than once."""
        known = self._read_boxes
        for place in places:
            if place not in known:
                known[place] = self._box(self._read, place)
        return [known[place] for place in places]

    def is_seen(self, box: Box) -> bool:
        """Whether some of what has this `read_box` is on the visible part of the page."""
        left, top, right, bottom = box
        return box != OUT_OF_SIGHT and right >= 0 <= bottom and left <= self._right and top <= self._bottom

    def is_whole(self, box: Box) -> bool:
        """Whether all of what has this `read_box` is on the visible part of the page."""
        left, top, right, bottom = box
        return box != OUT_OF_SIGHT and left >= 0 <= top and right <= self._right and bottom <= self._bottom

    def _around(self, shown: Sight, places: Sequence[int], *, every: bool) -> Box:
        if every:
            lefts, tops, rights, bottoms = zip(*(self._box(shown, place) for place in places), strict=True)
            return min(lefts), min(tops), max(rights), max(bottoms)
        one = self._box(shown, places[0])
        if len(places) == 1:
            return one
        other = self._box(shown, places[-1])
        # Written out: this is done for every word of a document.
        return (
            one[0] if one[0] < other[0] else other[0],
            one[1] if one[1] < other[1] else other[1],
            one[2] if one[2] > other[2] else other[2],
            one[3] if one[3] > other[3] else other[3],
        )

    def style(self, place: int) -> Style:
        """How the character is set. All characters of one drawing instruction share it."""
        drawn = pdfium.FPDFText_GetTextObject(self._text, place)
        if not drawn:
            return self._style  # a character that pdfium put in
        key = ctypes.addressof(drawn.contents)
        found = self._styles.get(key)
        if found is None:
            found = self._styles[key] = _style(self._text, place)
        self._style = found
        return found

    def _box(self, shown: Sight, place: int) -> Box:
        pdfium.FPDFText_GetLooseCharBox(self._text, place, self._rectangle_at)
        found = self._rectangle
        box = shown(found.left, found.bottom, found.right, found.top)
        left, top, right, bottom = box
        if -COORDINATE_MAX <= left <= right <= COORDINATE_MAX and -COORDINATE_MAX <= top <= bottom <= COORDINATE_MAX:
            return box
        return OUT_OF_SIGHT  # also what is not a number


def _is_filled_in(handle: Any) -> bool:
    """Whether somebody wrote into the page, or could have: fields of a form, and text put on top."""
    count = pdfium.FPDFPage_GetAnnotCount(handle)
    for place in range(count if count <= ANNOTATIONS_MAX else 0):
        annotation = pdfium.FPDFPage_GetAnnot(handle, place)
        kind = pdfium.FPDFAnnot_GetSubtype(annotation)
        pdfium.FPDFPage_CloseAnnot(annotation)
        if kind in WRITTEN:
            return True
    return False


def _check_ends(path: Path) -> None:
    """A PDF begins and ends like one.

    pdfium repairs what it can and says nothing about what it could not: a file that was cut off would give XML that
    lacks half of its pages.

    Raises:
        Failure: NOT_A_PDF, PDF_BROKEN.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
        file.seek(max(0, size - TAIL_BYTES))
        tail = file.read(TAIL_BYTES)
    if b"%PDF-" not in head:
        raise NOT_A_PDF()
    if b"startxref" not in tail or size < _announced(head):
        raise PDF_BROKEN(reason="truncated")


def _announced(head: bytes) -> int:
    """The length that a linearised file says it has; 0 where it says none."""
    _, linearised, after = head.partition(b"/Linearized")
    _, length, after = after.partition(b"/L ")
    digits = after.split(maxsplit=1)[:1] if linearised and length else []
    return int(digits[0]) if digits and digits[0].isdigit() and len(digits[0]) < 16 else 0


def _characters(text: Any, count: int) -> str:
    if count == 0:
        return ""
    buffer = (ctypes.c_ushort * (2 * count + 1))()
    units = pdfium.FPDFText_GetText(text, 0, count, buffer)
    found = bytes(memoryview(buffer).cast("B")[: 2 * max(0, units - 1)]).decode("utf-16-le", "surrogatepass")
    if len(found) == count:
        found = found.replace("\uffff", "\ufffd")
        wrong = [at.start() for at in re.finditer(HYPHEN, found) if not _is_hyphen(text, at.start())]
        return "".join("\ufffd" if place in wrong else one for place, one in enumerate(found)) if wrong else found
    # Some characters are in the one and not in the other; then each is asked for.
    codes = [pdfium.FPDFText_GetUnicode(text, place) for place in range(count)]
    for place, code in enumerate(codes):
        if code in HYPHEN_CODES:
            codes[place] = ord(HYPHEN) if _is_hyphen(text, place) else ord("\ufffd")
    return _paired(codes)


def _is_hyphen(text: Any, place: int) -> bool:
    """Whether pdfium put its own sign in the place of a hyphen at the end of a line."""
    return bool(pdfium.FPDFText_IsHyphen(text, place) == 1)


def _paired(codes: list[int]) -> str:
    """One character for each code; halves of one character become it, and a sign that nothing stands there."""
    found: list[str] = []
    for place, code in enumerate(codes):
        following = codes[place + 1] if place + 1 < len(codes) else 0
        if 0xD800 <= code < 0xDC00 <= following < 0xE000:
            found.append(chr(0x10000 + ((code - 0xD800) << 10) + following - 0xDC00))
        elif 0xDC00 <= code < 0xE000 and place and 0xD800 <= codes[place - 1] < 0xDC00:
            found.append("\uffff")
        else:
            found.append(chr(code) if code <= 0x10FFFF and code != 0xFFFF else "\ufffd")
    return "".join(found)


def _style(text: Any, place: int) -> Style:
    name = ctypes.create_string_buffer(256)
    flags = ctypes.c_int()
    length = pdfium.FPDFText_GetFontInfo(text, place, name, len(name), ctypes.byref(flags))
    matrix = pdfium.FS_MATRIX()
    scale = 1.0
    if pdfium.FPDFText_GetMatrix(text, place, ctypes.byref(matrix)):
        scale = (matrix.c * matrix.c + matrix.d * matrix.d) ** 0.5
    font = name.value.decode("utf-8", "replace") if 0 < length <= len(name) else ""
    # A subset has six letters of its own before the name.
    font = font[7:] if font[6:7] == "+" and font[:6].isalpha() else font
    return Style(font, round(_length(pdfium.FPDFText_GetFontSize(text, place) * scale), 1))


def _length(found: float) -> float:
    """What pdfium found, if a page can have it; else nothing."""
    return found if 0 <= found <= COORDINATE_MAX else 0.0
