"""Whatever text there is, the XML is well formed and says it, or U+FFFD where XML cannot."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as some
from lxml import etree

from holdfast.catalog import Failure
from holdfast_systems.conversion.gateway.markup import HEAD, NOTHING, Writer, clean, escaped, quoted

ANY = some.text(some.characters(codec=None, exclude_categories=()))


@given(ANY)
def test_any_text_can_be_content_and_attribute(text: str) -> None:
    root = etree.fromstring(f"<a b={quoted(text)}>{escaped(text)}</a>".encode())
    assert (root.text or "") == clean(text)
    assert root.get("b") == clean(text)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("plain", "plain"),
        ("a\x00b\x08c\x0b", "a\ufffdb\ufffdc\ufffd"),
        ("\ud800\udfff\ufffe", "\ufffd\ufffd\ufffd"),
        (f"1{NOTHING}2", "12"),
        ("one\r\ntwo\rthree\n", "one\ntwo\nthree\n"),
        ("\t😀ﷲ", "\t😀ﷲ"),
    ],
)
def test_only_what_xml_cannot_say_is_replaced(given: str, told: str) -> None:
    assert clean(given) == told


def test_what_is_written_is_counted_and_bounded() -> None:
    file = io.BytesIO()
    writer = Writer(file, bytes_max=len(HEAD) + 4)
    writer.add("é")
    writer.flush()
    assert writer.written == len(file.getvalue()) == len(HEAD) + 2
    writer.add("ééé")
    with pytest.raises(Failure) as refused:
        writer.flush()
    assert refused.value.code == "RESULT_TOO_LARGE"
    assert len(file.getvalue()) == len(HEAD) + 2
