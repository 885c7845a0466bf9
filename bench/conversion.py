"""PDF to XML: the conversion gateway beside `pdftohtml -xml` and bare pdfminer.six, on the same files.

Each contender gets one file at a time and gives the words of every page with their places and fonts. The gateway is a
process of its own and is asked over HTTP, as the system asks it; its mapping `layout` is the one that compares.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.conversion_peers import pdfminer_xml, pdftohtml_xml
from bench.conversion_queue import queue_rows
from bench.table import Asked, Row
from holdfast.http import ANYWHERE, HttpClient
from holdfast_systems.conversion.gateway import start_gateway
from holdfast_systems.conversion.tests import pdfs

TITLE = "conversion: PDF to XML, one file at a time"
PACKAGES = ("holdfast", "pypdfium2", "pdfminer.six", "reportlab", "fpdf2")
OURS, TEXT, OUTLINE = "holdfast gateway, layout", "holdfast gateway, text", "holdfast gateway, outline"
POPPLER, MINER = "pdftohtml -xml", "pdfminer.six"
SHORT = "one short page"
TIMES_MINER_MIN = 3.0
"""Slower than this and the choice of converter was wrong."""

Convert = Callable[[Path], bytes]


def run(quick: bool) -> list[Row]:
    """All figures of the suite."""
    files = _files(quick)
    with TemporaryDirectory() as folder, start_gateway(Path(folder) / "gateway") as gateway:
        client = HttpClient(reach=ANYWHERE, body_bytes_max=256 * 1_048_576).sync
        try:
            contenders: dict[str, Convert] = {
                OURS: lambda path: _asked(client, gateway.address, "layout", path),
                TEXT: lambda path: _asked(client, gateway.address, "text", path),
                OUTLINE: lambda path: _asked(client, gateway.address, "outline", path),
                MINER: pdfminer_xml,
            }
            if shutil.which("pdftohtml"):
                contenders[POPPLER] = pdftohtml_xml
            else:
                print("!! NOT AVAILABLE  pdftohtml; it comes with poppler-utils", file=sys.stderr, flush=True)
            rows: list[Row] = []
            for name, (pdf, pages) in files.items():
                path = Path(folder) / "source.pdf"
                path.write_bytes(pdf)
                group = name if pages == 1 else f"{name}, {pages} pages"
                rows += _rows(group, _pages_per_s(contenders, path, pages, 1 if quick else 5))
            return [
                *rows,
                *queue_rows(Path(folder), gateway.address, contender_of(client, gateway.address), quick=quick),
            ]
        finally:
            client.close()


def _files(quick: bool) -> Mapping[str, tuple[bytes, int]]:
    pages = 20 if quick else 200
    files = {"reportlab": (pdfs.reportlab(pages), pages), "fpdf2": (pdfs.fpdf(pages), pages)}
    if pdfs.CHROMIUM is not None:
        files["chromium"] = (pdfs.chromium(pages), pages)
    return {**files, SHORT: (pdfs.pdfium(), 1)}


def _pages_per_s(contenders: Mapping[str, Convert], path: Path, pages: int, rounds: int) -> dict[str, float]:
    best = dict.fromkeys(contenders, inf)
    for name, convert in contenders.items():
        if b"<" not in convert(path)[:100]:  # also warms it up
            raise AssertionError(f"{name} gave no XML")
    for _ in range(rounds):
        for name, convert in contenders.items():
            begun = perf_counter()
            convert(path)
            best[name] = min(best[name], perf_counter() - begun)
    return {name: pages / seconds for name, seconds in best.items()}


def _rows(group: str, figures: Mapping[str, float]) -> list[Row]:
    peers = [name for name in (POPPLER, MINER) if name in figures]
    return [
        Row(
            group=group,
            name=name,
            figure=figure,
            unit="pages/s",
            ratios={f"× {peer}": figure / figures[peer] for peer in peers},
            # On a single page the way to the gateway and back is most of the time.
            asked=_asked_for(figure / figures[MINER]) if name == OURS and group != SHORT else None,
        )
        for name, figure in figures.items()
    ]


def _asked_for(times_miner: float) -> Asked:
    return Asked(bound=TIMES_MINER_MIN, reached=times_miner, unit="× pdfminer.six", at_most=False)


def contender_of(client: object, address: str) -> Callable[[bytes], bytes]:
    """The gateway, given the bytes of a file."""

    def convert(content: bytes) -> bytes:
        reply = client.send("POST", f"{address}/convert?mapping=layout", body=content)  # type: ignore[attr-defined]
        assert reply.status == 200
        return bytes(reply.body)

    return convert


def _asked(client: object, address: str, mapping: str, path: Path) -> bytes:
    reply = client.send("POST", f"{address}/convert?mapping={mapping}", body=path.read_bytes())  # type: ignore[attr-defined]
    if reply.status != 200:
        raise subprocess.SubprocessError(f"the gateway answered {reply.status}: {reply.body[:200]!r}")
    return bytes(reply.body)
