"""What makes two failures the same: their cause, not their numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.worker.fingerprint import fingerprint, stable


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 7 not found", "order 8123 not found"),
        ("no user 'ada'", "no user 'bob'"),
        ('no file "/a/b"', 'no file "/c"'),
        ("job 0190a5e2-7a4c-7d3e-8f01-23456789abcd", "job 0190a5e2-7a4c-7d3e-8f01-000000000000"),
        ("charge ch_3Nx9 failed", "charge ch_8Qz1 failed"),
        ("cannot mail ada@example.com", "cannot mail bob@example.org"),
        ("GET https://api.example/orders/ab failed", "GET https://api.example/orders/cd failed"),
    ],
)
def test_numbers_ids_and_quoted_values_do_not_count(one: str, other: str) -> None:
    assert fingerprint("X", "k", one) == fingerprint("X", "k", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"code": "A"}, {"code": "B"}),
        ({"kind": "a"}, {"kind": "b"}),
        ({"text": "the disk is full"}, {"text": "the host is gone"}),
        ({"place": "shop:charge"}, {"place": "shop:refund"}),
        ({"remote_code": "declined"}, {"remote_code": "expired"}),
    ],
)
def test_another_cause_is_another_group(one: dict[str, str], other: dict[str, str]) -> None:
    alike = {"code": "X", "kind": "k", "text": "t"}
    assert fingerprint(**{**alike, **one}) != fingerprint(**{**alike, **other})


def test_a_quoted_name_that_stands_in_the_code_is_no_value() -> None:
    assert stable("KeyError: 'total'", 'return order["total"]') == "KeyError: 'total'"
    assert stable("KeyError: 'total'", "return order[name]") == "KeyError: …"
    assert stable("KeyError: 'u7'", 'return order["u7"]') == "KeyError: …"


@given(st.text(), st.text())
def test_any_text_has_a_fingerprint(text: str, source: str) -> None:
    assert len(fingerprint("X", "k", text, source=source)) == 16
