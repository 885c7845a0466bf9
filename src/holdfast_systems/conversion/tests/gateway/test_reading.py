"""Paragraphs, and the order in which a person reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lxml import etree

from holdfast_systems.conversion.tests import pdfs

Convert = Callable[..., etree._Element]


def paragraphs(root: etree._Element) -> list[str]:
    return [paragraph.text for paragraph in root.iter("p")]


def column(drawn: Any, x: float, name: str, *, top: float = 700, lines: int = 4) -> None:
    for number in range(lines):
        drawn.drawString(x, top - 14 * number, f"{name} line {number} of text")


def test_a_gap_begins_a_paragraph(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        column(drawn, 72, "One")
        column(drawn, 72, "Two", top=620)

    assert [text.split()[0] for text in paragraphs(converted(pdfs.canvas(draw)))] == ["One", "Two"]


def test_double_spaced_lines_are_one_paragraph(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        for number in range(6):
            drawn.drawString(72, 700 - 28 * number, f"Line {number}")

    assert len(paragraphs(converted(pdfs.canvas(draw)))) == 1


def test_an_indent_after_a_short_line_begins_a_paragraph(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        for number, (x, text) in enumerate(
            [(92, pdfs.WORDS[:70]), (72, pdfs.WORDS[:74]), (72, "Short."), (92, pdfs.WORDS[:70]), (72, "End.")]
        ):
            drawn.drawString(x, 700 - 14 * number, text)

    assert [text.splitlines()[-1] for text in paragraphs(converted(pdfs.canvas(draw)))] == ["Short.", "End."]


def test_an_indent_among_full_lines_begins_a_paragraph(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        for paragraph in range(3):
            for number in range(3):
                line = drawn.beginText(92 if number == 0 else 72, 700 - 14 * (3 * paragraph + number))
                line.setWordSpace(1.5 if number else 0)
                line.textOut(f"{paragraph}.{number} {pdfs.WORDS[:60]}")
                drawn.drawText(line)

    told = paragraphs(converted(pdfs.canvas(draw)))
    assert [text.split()[0] for text in told] == ["0.0", "1.0", "2.0"]


def test_an_item_that_goes_on_further_in_is_no_paragraph_of_its_own(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        full = pdfs.WORDS[:60]
        for number, (x, text) in enumerate(
            [(72, f"1. {full}"), (72, f"2. {full}"), (72, f"3. {full}"), (92, full), (72, f"4. {full}")]
        ):
            drawn.drawString(x, 700 - 14 * number, text)

    assert len(paragraphs(converted(pdfs.canvas(draw)))) == 1


def test_a_bullet_begins_a_paragraph(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        for number, text in enumerate(["• apples", "• pears that", "  are ripe", "• plums"]):
            drawn.drawString(72, 700 - 14 * number, text)

    assert paragraphs(converted(pdfs.canvas(draw))) == ["• apples", "• pears that\nare ripe", "• plums"]


def test_a_raised_or_lowered_figure_breaks_no_line(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        line = drawn.beginText(72, 700)
        for text, size, rise in [("E = mc", 12, 0), ("2", 8, 5), (" and H", 12, 0), ("2", 8, -4), ("O.", 12, 0)]:
            line.setFont("Helvetica", size)
            line.setRise(rise)
            line.textOut(text)
        drawn.drawText(line)

    pdf = pdfs.canvas(draw)
    assert paragraphs(converted(pdf)) == ["E = mc2 and H2O."]
    words = {word.text: word for word in converted(pdf, "layout").iter("word")}
    assert list(words) == ["E", "=", "mc2", "and", "H2O."]
    assert float(words["H2O."].get("x")) > float(words["and"].get("x")) + float(words["and"].get("width"))


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("drawn_turned", [0, 90, 180, 270])
def test_text_that_stands_turned_is_read_as_if_the_page_were_turned(
    converted: Convert, drawn_turned: int, rotation: int
) -> None:
    def draw(drawn: Any) -> None:
        drawn.setPageSize((600, 600))
        drawn.translate(300, 300)
        drawn.rotate(drawn_turned)
        for x, name in ((-228, "left"), (30, "right")):
            column(drawn, x, name, top=200)
            drawn.drawString(x, 100, f"{name}-below")
            drawn.drawString(x + 100, 100, "beside")

    told = paragraphs(converted(pdfs.rotated(pdfs.canvas(draw), rotation)))
    assert [text.split()[0] for text in told] == ["left", "left-below", "right", "right-below"]
    assert told[0].splitlines() == [f"left line {number} of text" for number in range(4)]
    assert told[1] == "left-below beside"


def test_another_size_begins_a_paragraph(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        drawn.setFont("Helvetica", 16)
        drawn.drawString(72, 700, "Heading")
        drawn.setFont("Helvetica", 11)
        drawn.drawString(72, 684, "Body")

    assert paragraphs(converted(pdfs.canvas(draw))) == ["Heading", "Body"]


@pytest.mark.parametrize("order", [("title", "left", "right"), ("right", "left", "title"), ("left", "title", "right")])
def test_columns_are_read_one_after_the_other_however_they_were_drawn(
    converted: Convert, order: tuple[str, ...]
) -> None:
    def draw(drawn: Any) -> None:
        for name in order:
            if name == "title":
                drawn.setFont("Helvetica", 20)
                drawn.drawString(72, 760, "A title that spans both of the columns")
                drawn.setFont("Helvetica", 12)
            else:
                column(drawn, 72 if name == "left" else 330, name)
                column(drawn, 72 if name == "left" else 330, f"{name}-below", top=600)

    told = [text.split()[0] for text in paragraphs(converted(pdfs.canvas(draw)))]
    assert told == ["A", "left", "left-below", "right", "right-below"]


def test_the_order_survives_more_paragraphs_than_are_put_in_order(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        drawn.setFont("Helvetica", 2)
        for number in range(2_500):
            drawn.drawString(10 + number % 10 * 55, 830 - number // 10 * 3.2, f"n{number}")

    told = " ".join(paragraphs(converted(pdfs.canvas(draw)))).split()
    assert sorted(told) == sorted(f"n{number}" for number in range(2_500))
