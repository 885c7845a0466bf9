"""PDFs made on the spot, by several producers, each made once: good ones, odd ones, broken ones."""

from __future__ import annotations

import ctypes
import io
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WORDS = "The quick brown fox jumps over the lazy dog while the band plays on and nobody counts the minutes. "
HEBREW = "שלום עולם"
ARABIC = "مرحبا بالعالم"
CHINESE = "转换服务很忙"
JAPANESE = "変換サービス"
HTML_HEAD = '<!doctype html><meta charset="utf-8"><title>Browser page</title>'
HTML_BODY = (
    f"<h1>Printed by a browser</h1><p>{WORDS * 3}</p><p>{WORDS * 2}</p>"
    f'<p dir="rtl">{HEBREW}</p><p dir="rtl">{ARABIC}</p>'
)
HTML_BREAK = '<div style="break-after: page"></div>'


@cache
def reportlab(pages: int = 2) -> bytes:
    """Headings and paragraphs, flowed by reportlab."""
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate

    styles = getSampleStyleSheet()
    story: list[Any] = []
    for number in range(1, pages + 1):
        story += [Paragraph(f"Chapter {number}", styles["Heading1"]), Paragraph(WORDS * 5, styles["Normal"])]
        story += [Paragraph("Details", styles["Heading2"]), Paragraph(WORDS * 8, styles["Normal"]), PageBreak()]
    out = io.BytesIO()
    SimpleDocTemplate(out, title="A report & <more>", author="Zoë", invariant=1).build(story)
    return out.getvalue()


@cache
def canvas(draw: Callable[[Any], None]) -> bytes:
    """What the function draws on reportlab's canvas."""
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    drawn = Canvas(out, invariant=1)
    draw(drawn)
    drawn.save()
    return out.getvalue()


@cache
def fpdf(pages: int = 2) -> bytes:
    """Pages by fpdf2, compressed as it likes."""
    from fpdf import FPDF

    pdf = FPDF()
    for number in range(1, pages + 1):
        pdf.add_page()
        pdf.set_font("Times", "B", 18)
        pdf.cell(text=f"Part {number}", new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Times", size=11)
        pdf.multi_cell(w=0, text=WORDS * 6)
    return bytes(pdf.output())


@cache
def pdfium() -> bytes:
    """One page by pdfium itself."""
    import pypdfium2 as made
    import pypdfium2.raw as raw

    document = made.PdfDocument.new()
    page = document.new_page(300, 200)
    font = raw.FPDFText_LoadStandardFont(document, b"Courier")
    text = raw.FPDFPageObj_CreateTextObj(document, font, 12.0)
    content = "Drawn by pdfium".encode("utf-16-le") + b"\0\0"
    buffer = (ctypes.c_ushort * (len(content) // 2)).from_buffer_copy(content)
    raw.FPDFText_SetText(text, buffer)
    raw.FPDFPageObj_Transform(text, 1, 0, 0, 1, 50, 100)
    raw.FPDFPage_InsertObject(page, text)
    page.gen_content()
    out = io.BytesIO()
    document.save(out)
    page.close()
    raw.FPDFFont_Close(font)
    document.close()
    return out.getvalue()


@cache
def chromium(pages: int = 1) -> bytes:
    """Pages with paragraphs, Hebrew and Arabic, printed by the browser of this machine."""
    return printed(HTML_BREAK.join([HTML_BODY] * pages))


@cache
def printed(body: str) -> bytes:
    """This HTML, printed by the browser of this machine."""
    assert CHROMIUM, "no browser on this machine"
    with tempfile.TemporaryDirectory() as folder:
        page, out = Path(folder) / "page.html", Path(folder) / "page.pdf"
        page.write_text(HTML_HEAD + body, encoding="utf-8")
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/u",
        ]
        subprocess.run(
            [CHROMIUM, *options, f"--print-to-pdf={out}", page.as_uri()],
            check=True,
            capture_output=True,
            timeout=60,
        )
        return out.read_bytes()


@cache
def glyphs(text: str, *, repeat: int = 1) -> bytes:
    """One line made with pikepdf, of any characters at all, lone surrogates included: glyph n is the nth character.

    The order of the glyphs is the order on the page, from left to right.
    """
    import pikepdf
    from pikepdf import Array, Dictionary, Name

    pdf = pikepdf.new()
    units = [f"<{place:04x}> <{_utf16(character)}>" for place, character in enumerate(text, start=1)]
    lines = "\n".join(
        f"{len(part)} beginbfchar\n" + "\n".join(part) + "\nendbfchar"
        for part in (units[first : first + 100] for first in range(0, len(units), 100))
    )
    cmap = f"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap
/CMapName /Any def /CMapType 2 def
1 begincodespacerange <0000> <ffff> endcodespacerange
{lines}
endcmap end end"""
    descendant = Dictionary(
        Type=Name.Font,
        Subtype=Name.CIDFontType2,
        BaseFont=Name("/ABCDEF+AnyFont"),
        CIDSystemInfo=Dictionary(Registry=b"Adobe", Ordering=b"Identity", Supplement=0),
        DW=600,
        FontDescriptor=Dictionary(
            Type=Name.FontDescriptor,
            FontName=Name("/ABCDEF+AnyFont"),
            Flags=4,
            FontBBox=Array([0, -200, 600, 800]),
            ItalicAngle=0,
            Ascent=800,
            Descent=-200,
            CapHeight=700,
            StemV=80,
        ),
    )
    font = Dictionary(
        Type=Name.Font,
        Subtype=Name.Type0,
        BaseFont=Name("/ABCDEF+AnyFont"),
        Encoding=Name("/Identity-H"),
        DescendantFonts=Array([pdf.make_indirect(descendant)]),
        ToUnicode=pdf.make_stream(cmap.encode()),
    )
    codes = "".join(f"{place:04x}" for place in range(1, len(text) + 1))
    page = pdf.add_blank_page(page_size=(600, 800))
    page.Resources = Dictionary(Font=Dictionary(F1=pdf.make_indirect(font)))
    page.Contents = pdf.make_stream(f"BT /F1 12 Tf 50 700 Td {f'<{codes}> Tj 0 -20 Td ' * repeat}ET".encode())
    return _saved(pdf)


@cache
def from_right(text: str) -> bytes:
    """A line of a script that runs from right to left, drawn as it is seen."""
    return glyphs(text[::-1])


@cache
def rewritten(source: bytes, **options: Any) -> bytes:
    """The same document, saved by pikepdf with these options."""
    import pikepdf

    with pikepdf.open(io.BytesIO(source)) as pdf:
        return _saved(pdf, **options)


@cache
def rotated(source: bytes, degrees: int) -> bytes:
    """The same document, each page turned clockwise."""
    import pikepdf

    with pikepdf.open(io.BytesIO(source)) as pdf:
        for page in pdf.pages:
            page.Rotate = degrees
        return _saved(pdf)


@cache
def cropped(source: bytes, box: tuple[int, int, int, int]) -> bytes:
    """The same document, of each page only this part to be seen."""
    import pikepdf

    with pikepdf.open(io.BytesIO(source)) as pdf:
        for page in pdf.pages:
            page.CropBox = pikepdf.Array(box)
        return _saved(pdf)


def linearised() -> bytes:
    return rewritten(reportlab(), linearize=True)


@cache
def encrypted(user: str, *, strength: int = 6) -> bytes:
    """Locked for its owner; to open it needs the user's password, which may be empty."""
    import pikepdf

    locked = pikepdf.Encryption(owner="owner", user=user, R=strength, aes=strength >= 4, metadata=strength >= 4)
    return rewritten(reportlab(), encryption=locked)


@cache
def scanned() -> bytes:
    """Two pages of pictures, and not a letter."""
    from PIL import Image
    from reportlab.lib.utils import ImageReader

    def draw(drawn: Any) -> None:
        for shade in (200, 90):
            drawn.drawImage(ImageReader(Image.new("L", (300, 400), shade)), 50, 50, 400, 600)
            drawn.showPage()

    return canvas(draw)


@cache
def chinese() -> bytes:
    """Chinese and Japanese with fonts that are only named, as reportlab's CID fonts are."""
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont

    def draw(drawn: Any) -> None:
        for font, text, top in (("STSong-Light", CHINESE, 700), ("HeiseiMin-W3", JAPANESE, 600)):
            pdfmetrics.registerFont(UnicodeCIDFont(font))
            drawn.setFont(font, 14)
            drawn.drawString(72, top, text)

    return canvas(draw)


@cache
def without_pages() -> bytes:
    import pikepdf

    return _saved(pikepdf.new())


@cache
def deep_page_tree(depth: int = 3_000) -> bytes:
    """One page at the end of a long chain of page tree nodes."""
    objects = {1: "<</Type/Catalog/Pages 2 0 R>>"}
    for number in range(2, depth + 2):
        objects[number] = f"<</Type/Pages/Count 1/Kids[{number + 1} 0 R]>>"
    objects[depth + 2] = f"<</Type/Page/Parent {depth + 1} 0 R/MediaBox[0 0 99 99]>>"
    return raw(objects)


@cache
def looping_page_tree() -> bytes:
    """A page tree that is its own child."""
    return raw({1: "<</Type/Catalog/Pages 2 0 R>>", 2: "<</Type/Pages/Count 5/Kids[2 0 R]>>"})


@cache
def many_pages(count: int) -> bytes:
    """So many pages with a line on each, in few bytes."""
    return bomb(b"BT /F1 12 Tf 72 700 Td (One page among many) Tj ET\n", 0, pages=count)


@cache
def bomb(piece: bytes, megabytes: int, *, pages: int = 1) -> bytes:
    """Pages whose few bytes, the same for all, unpack into so many megabytes of one instruction; packed twice."""
    packed = zlib.compress(_packed(piece, piece * (1_048_576 // len(piece)), megabytes), 9)
    objects: dict[int, str | bytes] = {
        1: "<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Count {pages}/Kids[{' '.join(f'{number} 0 R' for number in range(5, 5 + pages))}]>>",
        3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        4: f"<</Length {len(packed)}/Filter[/FlateDecode/FlateDecode]>>stream\n".encode() + packed + b"\nendstream",
    }
    page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F1 3 0 R>>>>/Contents 4 0 R>>"
    return raw(objects | dict.fromkeys(range(5, 5 + pages), page))


def memory_bomb() -> bytes:
    """Two thousand bytes that become hundreds of megabytes."""
    return bomb(b" " * 16, 400)


def slow() -> bytes:
    """Pages that each take a while and little memory: minutes of CPU time in all."""
    return bomb(b"BT /F1 9 Tf (abcdefgh) Tj ET\n", 1, pages=500)


@cache
def laughing(levels: int = 9, width: int = 10) -> bytes:
    """Forms that each draw the next ten times: a thousand million words."""
    objects: dict[int, str | bytes] = {
        1: "<</Type/Catalog/Pages 2 0 R>>",
        2: "<</Type/Pages/Count 1/Kids[3 0 R]>>",
        3: "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</XObject<</X 6 0 R>>>>/Contents 4 0 R>>",
        4: "<</Length 5>>stream\n/X Do\nendstream",
        5: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    }
    for level in range(levels):
        last = level == levels - 1
        body = "BT /F1 9 Tf (ha) Tj ET" if last else "/X Do " * width
        resources = "/Font<</F1 5 0 R>>" if last else f"/XObject<</X {7 + level} 0 R>>"
        head = f"/Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources<<{resources}>>/Length {len(body)}"
        objects[6 + level] = f"<<{head}>>stream\n{body}\nendstream"
    return raw(objects)


@cache
def object_stream_bomb(megabytes: int = 400) -> bytes:
    """A catalog inside a compressed object stream that unpacks into hundreds of megabytes."""
    catalog = b"<</Type/Catalog/Pages 2 0 R>>"
    packed = _packed(b"1 0 " + catalog, b" " * 1_048_576, megabytes)
    out = bytearray(b"%PDF-1.7\n")
    offsets = {}
    for number, content in {
        2: b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>",
        4: b"<</Type/ObjStm/N 1/First 4/Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(packed), packed),
    }.items():
        offsets[number] = len(out)
        out += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    start = offsets[5] = len(out)
    rows = [(0, 0, 65_535), (2, 4, 0), *((1, offsets[number], 0) for number in (2, 3, 4, 5))]
    table = b"".join(kind.to_bytes(1) + where.to_bytes(4) + which.to_bytes(2) for kind, where, which in rows)
    head = b"<</Type/XRef/Size 6/W[1 4 2]/Root 1 0 R/Length %d>>" % len(table)
    out += b"5 0 obj\n%bstream\n%b\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n" % (head, table, start)
    return bytes(out)


def raw(objects: dict[int, str | bytes]) -> bytes:
    """A PDF of these objects, the first of which is the catalog."""
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, content in sorted(objects.items()):
        offsets.append(len(out))
        out += (
            f"{number} 0 obj\n".encode() + (content if isinstance(content, bytes) else content.encode()) + b"\nendobj\n"
        )
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def _packed(head: bytes, block: bytes, count: int) -> bytes:
    """The head and so many times the block, compressed once and repeated: a bomb must not cost the one who makes it."""
    packer = zlib.compressobj(9)
    begin = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    checked = zlib.adler32(head)
    for _ in range(count):
        checked = zlib.adler32(block, checked)
    return begin + again * count + b"\x03\x00" + checked.to_bytes(4)


def _saved(pdf: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    pdf.save(out, **{"deterministic_id": "encryption" not in options, **options})
    return out.getvalue()


def _utf16(character: str) -> str:
    return character.encode("utf-16-be", "surrogatepass").hex()
