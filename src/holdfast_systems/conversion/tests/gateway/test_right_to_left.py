"""Scripts written from right to left come out as they are spoken, whoever drew them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from unicodedata import normalize

import pytest
from lxml import etree

from holdfast_systems.conversion.tests import pdfs

Convert = Callable[..., etree._Element]

needs_browser = pytest.mark.skipif(pdfs.CHROMIUM is None, reason="no Chromium on this machine")

JOINED = "خانه‌های بزرگ را می‌بینم و نمی‌روم."
QUOTED = 'او گفت «سلام دنیا» و "خوب" رفت'
BRACKETS = 'הוא אמר "שלום" ל-(עולם) ב\'ארץ\' צה"ל [כן]'
MIXED = (
    'בשנת 1984 כתב אורוול (George Orwell) את "Animal Farm 2" בעמודים 10-20, 50% פחות. '
    "גרסה 3.14 יצאה ב-12/05/2020 [ראו הערה]."
)
POINTED = "בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ"
DIGITS = "في عام ١٩٨٤ و2020 قال المعلم: «لا إله إلا الله»."
WITHIN = "An English line with שלום עולם inside (בסדר) and more."


def told(root: etree._Element) -> str:
    return normalize("NFC", " ".join(" ".join(root.itertext()).split()))


@needs_browser
@pytest.mark.parametrize("text", [JOINED, QUOTED, BRACKETS, MIXED, POINTED, DIGITS, WITHIN])
def test_a_line_that_a_browser_printed_is_spoken_as_it_was_written(converted: Convert, text: str) -> None:
    direction = "ltr" if text == WITHIN else "rtl"
    page = f'<p dir="{direction}" style="font-family: DejaVu Sans; font-size: 14px">{text}</p>'
    assert told(converted(pdfs.printed(page))) == normalize("NFC", text)


@needs_browser
def test_a_page_of_several_lines_and_scripts_keeps_each(converted: Convert) -> None:
    page = "".join(
        f'<p dir="{"ltr" if text == WITHIN else "rtl"}" style="font-family: DejaVu Sans; margin: 3em 0">{text}</p>'
        for text in (JOINED, BRACKETS, WITHIN, QUOTED)
    )
    assert told(converted(pdfs.printed(page))) == normalize("NFC", " ".join((JOINED, BRACKETS, WITHIN, QUOTED)))


@pytest.mark.parametrize("text", [JOINED, QUOTED, BRACKETS])
def test_a_line_drawn_letter_by_letter_is_spoken_as_it_was_written(converted: Convert, text: str) -> None:
    assert told(converted(pdfs.from_right(text))) == normalize("NFC", text)


def test_a_word_has_the_box_in_which_it_is_seen(converted: Convert) -> None:
    words = list(converted(pdfs.from_right("שלום עולם"), "layout").iter("word"))
    assert [word.text for word in words] == ["שלום", "עולם"]
    first, second = (float(word.get("x")) for word in words)
    # Each glyph is 7.2 points wide, and the line begins at 50.
    assert (first, second) == pytest.approx((50 + 5 * 7.2, 50), abs=0.1)
    assert [float(word.get("width")) for word in words] == pytest.approx([4 * 7.2] * 2, abs=0.1)


@pytest.mark.parametrize("made", [partial(pdfs.from_right, "א) ראשון"), partial(pdfs.from_right, "(")])
def test_brackets_that_stand_alone_do_no_harm(converted: Convert, made: Callable[[], bytes]) -> None:
    for mapping in ("text", "layout", "outline"):
        converted(made(), mapping)
