"""What tests of the gateway share: conversions in this process, a gateway in its own, and the schemas."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import httpx
import pytest
from lxml import etree

from holdfast_systems.conversion.gateway import Gateway, GatewayLimits, start_gateway
from holdfast_systems.conversion.gateway.mappings import convert, schema
from holdfast_systems.conversion.gateway.markup import Writer
from holdfast_systems.conversion.gateway.pdf import Document

Convert = Callable[..., etree._Element]


@cache
def _schema(mapping: str) -> etree.XMLSchema:
    return etree.XMLSchema(etree.parse(schema(mapping)))


@pytest.fixture
def valid() -> Callable[[bytes, str], etree._Element]:
    """Reads XML of a mapping; an assertion fails when it is not well formed or not valid."""

    def read(xml: bytes, mapping: str) -> etree._Element:
        root = etree.fromstring(xml, etree.XMLParser(resolve_entities=False, huge_tree=True))
        _schema(mapping).assertValid(root)
        return root

    return read


@pytest.fixture
def xml_of(tmp_path: Path) -> Callable[..., bytes]:
    """Converts in this process: quick, for files that mean no harm."""

    def convert_here(pdf: bytes, mapping: str = "text", *, page_chars_max: int = 500_000) -> bytes:
        path = tmp_path / "source.pdf"
        path.write_bytes(pdf)
        document = Document(path, pages_max=2_000, page_chars_max=page_chars_max)
        out = io.BytesIO()
        try:
            convert(document, mapping, Writer(out, bytes_max=100_000_000))
        finally:
            document.close()
        return out.getvalue()

    return convert_here


@pytest.fixture
def converted(xml_of: Callable[..., bytes], valid: Callable[[bytes, str], etree._Element]) -> Convert:
    """Converts in this process and checks the result against its schema."""
    return lambda pdf, mapping="text", **options: valid(xml_of(pdf, mapping, **options), mapping)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with small limits, for all who do it no lasting harm."""
    limits = GatewayLimits(
        pages_max=600, cpu_s=1, wall_s=90, memory_bytes=256 * 1_048_576, bytes_max=2_000_000, queue_max=1
    )
    with start_gateway(tmp_path_factory.mktemp("gateway"), limits=limits, faults=True) as started:
        yield started


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {gateway.token.reveal()}"}
    with httpx.Client(base_url=gateway.address, timeout=90, headers=headers) as opened:
        yield opened
        opened.delete("/faults")
