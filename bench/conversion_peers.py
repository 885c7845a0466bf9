"""Other ways from PDF to XML, each as its own documentation shows it."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path


def pdftohtml_xml(path: Path) -> bytes:
    """Poppler's program: lines of text with their places and fonts; `-i` leaves the pictures out."""
    return subprocess.run(
        ["pdftohtml", "-xml", "-i", "-q", "-stdout", str(path)], check=True, capture_output=True
    ).stdout


def pdfminer_xml(path: Path) -> bytes:
    """pdfminer.six in this process, already imported: every letter with its place and font."""
    from pdfminer.high_level import extract_text_to_fp
    from pdfminer.layout import LAParams

    out = io.BytesIO()
    with path.open("rb") as file:
        extract_text_to_fp(file, out, output_type="xml", codec="utf-8", laparams=LAParams())
    return out.getvalue()
