"""Real PDFs of several producers become XML that is valid and says what the page says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from lxml import etree

from holdfast_systems.conversion.gateway import pdf
from holdfast_systems.conversion.gateway.app import MAPPINGS as OFFERED
from holdfast_systems.conversion.gateway.mappings import MAPPINGS
from holdfast_systems.conversion.tests import pdfs

Convert = Callable[..., etree._Element]

needs_browser = pytest.mark.skipif(pdfs.CHROMIUM is None, reason="no Chromium on this machine")
PRODUCERS = [
    pytest.param(pdfs.reportlab, 2, "Chapter 1", id="reportlab"),
    pytest.param(pdfs.fpdf, 2, "Part 2", id="fpdf2"),
    pytest.param(pdfs.pdfium, 1, "Drawn by pdfium", id="pdfium"),
    pytest.param(pdfs.chromium, 1, "Printed by a browser", id="chromium", marks=needs_browser),
    pytest.param(partial(pdfs.glyphs, "Plain"), 1, "Plain", id="pikepdf"),
    pytest.param(pdfs.linearised, 2, "Chapter 2", id="linearised"),
    pytest.param(partial(pdfs.encrypted, ""), 2, "Chapter 1", id="locked for its owner only, AES-256"),
    pytest.param(partial(pdfs.encrypted, "", strength=3), 2, "Chapter 1", id="locked for its owner only, RC4"),
    pytest.param(pdfs.chinese, 1, pdfs.CHINESE, id="Chinese"),
    pytest.param(partial(pdfs.from_right, pdfs.HEBREW), 1, pdfs.HEBREW, id="Hebrew"),
    pytest.param(partial(pdfs.from_right, pdfs.ARABIC), 1, pdfs.ARABIC, id="Arabic"),
    pytest.param(pdfs.scanned, 2, "", id="scanned"),
]


def spoken(root: etree._Element) -> str:
    return " ".join(" ".join(root.itertext()).split())


def test_what_is_offered_is_what_there_is() -> None:
    assert tuple(sorted(MAPPINGS)) == OFFERED


@pytest.mark.parametrize("mapping", OFFERED)
@pytest.mark.parametrize(("made", "pages", "says"), PRODUCERS)
def test_a_good_pdf_becomes_valid_xml(
    converted: Convert, xml_of: Any, made: Callable[[], bytes], pages: int, says: str, mapping: str
) -> None:
    root = converted(made(), mapping)
    assert (root.get("mapping"), root.get("pages")) == (mapping, str(pages))
    if mapping != "outline":
        assert says in spoken(root)
        assert [page.get("number") for page in root.findall("page")] == [str(number + 1) for number in range(pages)]
    assert xml_of(made(), mapping) == xml_of(made(), mapping)


@needs_browser
def test_scripts_from_right_to_left_are_spoken_in_order_whoever_drew_them(converted: Convert) -> None:
    told = spoken(converted(pdfs.chromium()))
    assert pdfs.HEBREW in told
    assert pdfs.ARABIC in told


def test_a_page_of_pictures_is_an_empty_page(converted: Convert) -> None:
    assert [len(page) for page in converted(pdfs.scanned())] == [0, 0]


def test_lines_stay_broken_and_hyphens_stay(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        drawn.drawString(72, 700, "A long word is hyphe-")
        drawn.drawString(72, 686, "nated here & <there>.")

    (paragraph,) = converted(pdfs.canvas(draw)).iter("p")
    assert paragraph.text == "A long word is hyphe-\nnated here & <there>."


@pytest.mark.parametrize("odd", ["a😀b", "a\0b", "\x02\x03"], ids=["beyond the first plane", "no character", "control"])
def test_hyphens_stay_where_pdfium_has_to_be_asked_for_each_character(converted: Convert, odd: str) -> None:
    # The second line begins with a letter, so that pdfium takes the end of the first for a hyphenated word.
    page = pdfs.glyphs(f"word {odd} hyphe-", repeat=2)
    lines = [line for paragraph in converted(page).iter("p") for line in paragraph.text.splitlines()]
    assert [line[-7:] for line in lines] == [" hyphe-", " hyphe-"]
    words = [word for word in converted(page, "layout").iter("word") if word.text == "hyphe-"]
    assert len(words) == 2
    assert all(float(word.get("height")) < 20 and float(word.get("width")) < 50 for word in words)


def test_a_soft_hyphen_at_the_end_of_a_line_is_a_hyphen(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        drawn.drawString(72, 700, "A word is hyphe\xad")
        drawn.drawString(72, 686, "nated, and cut\xad")
        drawn.drawString(72, 672, "(here) off\xad")

    (paragraph,) = converted(pdfs.canvas(draw)).iter("p")
    assert paragraph.text == "A word is hyphe-\nnated, and cut-\n(here) off-"


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_what_is_off_the_page_is_left_out(converted: Convert, rotation: int) -> None:
    def draw(drawn: Any) -> None:
        drawn.setPageSize((400, 400))
        for x, y, text in (
            (100, 380, "above"), (100, 300, "upper"), (100, 20, "below"), (100, 100, "lower"),
            (20, 200, "on the left"), (310, 200, "on the right"), (260, 150, "runs out of the page"),
        ):  # fmt: skip
            drawn.drawString(x, y, text)

    cropped = pdfs.rotated(pdfs.cropped(pdfs.canvas(draw), (90, 50, 300, 350)), rotation)
    # A word that the edge cuts is whole.
    assert set(spoken(converted(cropped)).split()) == {"upper", "lower", "runs", "out"}
    assert {word.text for word in converted(cropped, "layout").iter("word")} == {"upper", "lower", "runs", "out"}


def test_what_was_filled_into_a_form_is_part_of_the_page(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        drawn.drawString(72, 700, "Name")
        drawn.acroForm.textfield(name="name", x=150, y=690, width=200, height=20, value="Ada Lovelace")

    form = pdfs.canvas(draw)
    assert spoken(converted(form)) == "Name Ada Lovelace"
    x = {word.text: float(word.get("x")) for word in converted(form, "layout").iter("word")}
    assert 150 < x["Ada"] < x["Lovelace"] < 350


def test_more_fields_than_a_form_can_have_are_left_out(converted: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(drawn: Any) -> None:
        drawn.drawString(72, 700, "Name")
        for number in range(3):
            drawn.acroForm.textfield(name=f"name{number}", x=150, y=90 * number, width=200, height=20, value="Ada")

    monkeypatch.setattr(pdf, "ANNOTATIONS_MAX", 2)
    assert spoken(converted(pdfs.canvas(draw))) == "Name"


def test_a_word_has_its_box_font_and_size(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        drawn.setFont("Helvetica-Bold", 20)
        drawn.drawString(100, 700, "Big word")
        drawn.setFont("Times-Roman", 10)
        drawn.drawString(100, 600, "small")

    root = converted(pdfs.canvas(draw), "layout")
    fonts = {font.get("id"): font.get("name") for font in root.iter("font")}
    words = {word.text: word for word in root.iter("word")}
    assert [(text, fonts[word.get("font")], word.get("size")) for text, word in words.items()] == [
        ("Big", "Helvetica-Bold", "20.0"),
        ("word", "Helvetica-Bold", "20.0"),
        ("small", "Times-Roman", "10.0"),
    ]
    big, word = words["Big"], words["word"]
    # Canvas counts from below; the page is 841.89 points high. Helvetica-Bold tells each letter's width.
    assert float(big.get("x")) == pytest.approx(100, abs=1)
    assert float(big.get("y")) < 841.89 - 700 < float(big.get("y")) + float(big.get("height"))
    assert float(big.get("width")) == pytest.approx(20 * (0.722 + 0.278 + 0.611), abs=1)
    assert float(word.get("x")) > float(big.get("x")) + float(big.get("width"))


@pytest.mark.parametrize(("rotation", "x", "y"), [(0, 72, 742), (90, 100, 72), (180, 540 - 20, 100), (270, 742, 520)])
def test_boxes_are_where_a_person_sees_them_on_a_rotated_page(
    converted: Convert, rotation: int, x: float, y: float
) -> None:
    def draw(drawn: Any) -> None:
        drawn.setPageSize((612, 842))
        drawn.drawString(72, 100, "Here")

    root = converted(pdfs.rotated(pdfs.canvas(draw), rotation), "layout")
    (page,) = root.iter("page")
    (word,) = root.iter("word")
    turned = rotation % 180 == 90
    assert (float(page.get("width")), float(page.get("height"))) == ((842, 612) if turned else (612, 842))
    assert page.get("rotation") == str(rotation)
    assert float(word.get("x")) == pytest.approx(x, abs=15)
    assert float(word.get("y")) == pytest.approx(y, abs=15)


def test_the_outline_tells_metadata_bookmarks_and_headings(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        drawn.setTitle("On & on <1>")
        drawn.setAuthor("Zoë 变")
        for number in (1, 2):
            for level, title in enumerate((f'Chapter "{number}"', "Below")):
                drawn.bookmarkPage(f"{number}.{level}")
                drawn.addOutlineEntry(title, f"{number}.{level}", level=level)
            drawn.setFont("Helvetica", 24)
            drawn.drawString(72, 780, f"Chapter {number}")
            drawn.setFont("Helvetica", 16)
            drawn.drawString(72, 740, "Section")
            drawn.setFont("Helvetica", 10)
            for line in range(20):
                drawn.drawString(72, 700 - 12 * line, pdfs.WORDS[:80])
            drawn.showPage()

    root = converted(pdfs.canvas(draw), "outline")
    metadata = {entry.get("name"): entry.text for entry in root.iter("entry")}
    assert (metadata["Title"], metadata["Author"]) == ("On & on <1>", "Zoë 变")
    bookmarks = [(one.get("title"), one.get("page"), [child.get("title") for child in one]) for one in root[1]]
    assert bookmarks == [('Chapter "1"', "1", ["Below"]), ('Chapter "2"', "2", ["Below"])]
    headings = [(one.get("level"), one.get("page"), one.text) for one in root.iter("heading")]
    assert headings == [
        ("1", "1", "Chapter 1"), ("2", "1", "Section"), ("1", "2", "Chapter 2"), ("2", "2", "Section"),
    ]  # fmt: skip


def test_headings_are_told_by_the_size_of_most_of_a_line(converted: Convert) -> None:
    def draw(drawn: Any) -> None:
        drawn.setFont("Helvetica", 12)
        drawn.drawString(72, 780, "Barely larger")
        for line in range(20):
            drawn.setFont("Helvetica", 14)
            drawn.drawString(72, 740 - 20 * line, "•")
            drawn.setFont("Helvetica", 11)
            drawn.drawString(82, 740 - 20 * line, pdfs.WORDS[:40])

    assert [one.text for one in converted(pdfs.canvas(draw), "outline").iter("heading")] == ["Barely larger"]


def test_bookmarks_that_lead_back_into_themselves_end(converted: Convert) -> None:
    loop = pdfs.raw(
        {
            1: "<</Type/Catalog/Pages 2 0 R/Outlines 4 0 R>>",
            2: "<</Type/Pages/Count 1/Kids[3 0 R]>>",
            3: "<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>",
            4: "<</First 5 0 R/Last 5 0 R/Count 1>>",
            5: "<</Title(Round)/Parent 4 0 R/First 6 0 R/Next 5 0 R>>",
            6: "<</Title(And round)/Parent 5 0 R/First 5 0 R>>",
        }
    )
    titles = [one.get("title") for one in converted(loop, "outline").iter("bookmark")]
    assert titles == ["Round", "And round"]


def test_bookmarks_nest_no_deeper_than_the_limit(converted: Convert) -> None:
    objects = {
        1: "<</Type/Catalog/Pages 2 0 R/Outlines 4 0 R>>",
        2: "<</Type/Pages/Count 1/Kids[3 0 R]>>",
        3: "<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>",
        4: "<</First 5 0 R/Last 5 0 R/Count 1>>",
    }
    objects |= {n: f"<</Title(T{n})/Parent {n - 1} 0 R/First {n + 1} 0 R/Last {n + 1} 0 R>>" for n in range(5, 2_000)}
    objects[2_000] = "<</Title(End)/Parent 1999 0 R>>"
    assert len(list(converted(pdfs.raw(objects), "outline").iter("bookmark"))) == 32


@pytest.mark.parametrize("mapping", OFFERED)
def test_any_character_at_all_gives_valid_xml(converted: Convert, mapping: str) -> None:
    odd = "".join(map(chr, range(0x20))) + "<&>]]>\"'\x7f\x85\u2028\ud800x\udc00\ufdd0\ufffd\ufffe\U0001f600\U0010ffff"
    converted(pdfs.glyphs(odd), mapping)


def test_a_character_beyond_the_first_plane_stays_one(converted: Convert) -> None:
    assert spoken(converted(pdfs.glyphs("ok😀!"))) == "ok😀!"


@pytest.mark.parametrize("mapping", OFFERED)
def test_a_huge_page_is_cut_and_says_so(converted: Convert, mapping: str) -> None:
    root = converted(pdfs.glyphs("abc def ", repeat=500), mapping, page_chars_max=1_000)
    if mapping != "outline":
        assert root.find("page").get("truncated") == "true"
        assert len(spoken(root)) <= 1_000


@pytest.mark.parametrize("box", ["0 0 1e30 1e30", "0 0 0 0", "-5 -5 -1 -1", "100 100 200 150"])
def test_odd_page_sizes_give_valid_xml(converted: Convert, box: str) -> None:
    text = b"BT /F1 1e20 Tf 1e20 1e20 Td (far) Tj ET BT /F1 -12 Tf 120 120 Td (near) Tj ET"
    odd = pdfs.raw(
        {
            1: "<</Type/Catalog/Pages 2 0 R>>",
            2: "<</Type/Pages/Count 1/Kids[3 0 R]>>",
            3: f"<</Type/Page/Parent 2 0 R/MediaBox[{box}]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
            4: b"<</Length %d>>stream\n%b\nendstream" % (len(text), text),
            5: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        }
    )
    for mapping in OFFERED:
        converted(odd, mapping)
