"""How a page is held: where things on it are seen, and in which rotation its text is upright.

A sight turns left, bottom, right, top in the PDF's own coordinates into left, top, right, bottom as a person sees it.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from math import pi
from typing import Any

import pypdfium2.raw as pdfium  # type: ignore[import-untyped]

QUARTER = pi / 2
TURNS_ASKED = 32
"""Approximate number of characters, spread over a page, that are asked for their angle."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Sight = Callable[[float, float, float, float], Box]
"""From left, bottom, right, top in the PDF's own coordinates to where that is seen."""


def bounds_of(handle: Any, width: float, height: float) -> Box:
    """The visible part of the page in the PDF's own coordinates: left, bottom, right, top."""
    rectangle = pdfium.FS_RECTF()
    if not pdfium.FPDF_GetPageBoundingBox(handle, ctypes.byref(rectangle)):
        return 0.0, 0.0, width, height
    return rectangle.left, rectangle.bottom, rectangle.right, rectangle.top


def sight(bounds: Box, rotation: int) -> Sight:
    """How a page is seen that is held so."""
    x0, y0, x1, y1 = bounds
    return {
        0: lambda left, bottom, right, top: (left - x0, y1 - top, right - x0, y1 - bottom),
        90: lambda left, bottom, right, top: (bottom - y0, left - x0, top - y0, right - x0),
        180: lambda left, bottom, right, top: (x1 - right, bottom - y0, x1 - left, top - y0),
        270: lambda left, bottom, right, top: (y1 - top, x1 - right, y1 - bottom, x1 - left),
    }[rotation]


def text_held_upright(handle: Any, rotation: int) -> tuple[Any, int]:
    """The text of the page, and the rotation in which most of it is upright.

    The page is left in that rotation: pdfium, too, puts the text in order as it stands.
    """
    text = pdfium.FPDFText_LoadPage(handle)
    upright = _upright(text, rotation) if text else rotation
    if upright != rotation:
        pdfium.FPDFText_ClosePage(text)
        pdfium.FPDFPage_SetRotation(handle, upright // 90)
        text = pdfium.FPDFText_LoadPage(handle)
    return text, upright


def _upright(text: Any, rotation: int) -> int:
    count = pdfium.FPDFText_CountChars(text)
    asked = range(0, count, max(1, count // TURNS_ASKED))
    # Clockwise, on the page as it is without any rotation.
    angles = [pdfium.FPDFText_GetCharAngle(text, place) for place in asked]
    held = Counter(-round(angle / QUARTER) % 4 * 90 for angle in angles if angle >= 0)
    return held.most_common(1)[0][0] if held else rotation
