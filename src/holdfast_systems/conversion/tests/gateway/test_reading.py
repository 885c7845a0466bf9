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
