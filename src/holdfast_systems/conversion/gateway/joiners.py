"""Joiners that a page draws as nothing: pdfium leaves what has no width out of the text.

Browsers print the zero-width non-joiner of Persian as an empty glyph of which the page says what it stands for.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pypdfium2.raw as pdfium  # type: ignore[import-untyped]

from holdfast_systems.conversion.gateway.sight import Sight

ACTUAL_TEXT = b"ActualText"
OBJECTS_MAX = 20_000
"""Maximum number of objects of a page that are asked what they stand for."""
MARKS_MAX = 8
_JOINERS = {b"\xfe\xff\x20\x0c": "\u200c", b"\xfe\xff\x20\x0d": "\u200d"}
_BYTES_MAX = 4

Joiner = tuple[str, float, float]
"""A joiner, and the point on the line at which it stands."""


def joiners(handle: Any, read: Sight) -> list[Joiner]:
    """The joiners that a page says empty glyphs stand for."""
    found: list[Joiner] = []
    for place in range(min(OBJECTS_MAX, pdfium.FPDFPage_CountObjects(handle))):
        drawn = pdfium.FPDFPage_GetObject(handle, place)
        if pdfium.FPDFPageObj_GetType(drawn) == pdfium.FPDF_PAGEOBJ_TEXT:
            meant = _JOINERS.get(_actual_text(drawn))
            if meant is not None:
                matrix = pdfium.FS_MATRIX()
                pdfium.FPDFPageObj_GetMatrix(drawn, ctypes.byref(matrix))
                x, y, _, _ = read(matrix.e, matrix.f, matrix.e, matrix.f)
                found.append((meant, x, y))
    return found


def _actual_text(drawn: Any) -> bytes:
    """What the object stands for, as far as it is short."""
    length = ctypes.c_ulong()
    for place in range(min(MARKS_MAX, pdfium.FPDFPageObj_CountMarks(drawn))):
        mark = pdfium.FPDFPageObj_GetMark(drawn, place)
        buffer = (ctypes.c_ubyte * _BYTES_MAX)()
        told = pdfium.FPDFPageObjMark_GetParamBlobValue(mark, ACTUAL_TEXT, buffer, _BYTES_MAX, ctypes.byref(length))
        if told and length.value <= _BYTES_MAX:
            return bytes(buffer[: length.value])
    return b""
