"""No dialect shows what it should not, grows past its bound, or fails to be written."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import REAL, Limits, Private, Secret, limits, replaced
from holdfast.catalog import CORE, Catalog, Failure
from holdfast.catalog.dialect import Dialect, Rendered, bounded_details, document, render

shop = Catalog("shop")
INSUFFICIENT_CREDITS = shop.fault("INSUFFICIENT_CREDITS", status=403, says="Not enough credits to run this instance.")
INVALID_PAYLOAD = shop.fault("INVALID_PAYLOAD", status=400, says="The payload is not valid: {field}.")
UNAUTHORIZED = shop.fault("UNAUTHORIZED", status=401, says="Signature verification failed")


def body_of(rendered: Rendered) -> dict:
    return json.loads(rendered.body)


@dataclass
class Account:
    name: str
    note: object


@pytest.mark.parametrize("dialect", Dialect)
def test_no_dialect_shows_a_secret_or_a_private(dialect):
    failure = Failure(
        shop.fault("ALL_OF_IT", status=500, says="Refused {key} and {note}."),
        details={
            "key": Secret("hush-secret"),
            "note": Private("hush-private"),
            "list": [Secret("hush-secret"), Private("hush-private"), 1],
            "deep": {"deeper": {"key": Secret("hush-secret"), "note": Private("hush-private"), "kept": "yes"}},
            "set": frozenset({Private("hush-private")}),
            "account": Account("ada", Private("hush-private")),
            "wrapped": Private(Secret("hush-secret")),
        },
    )
    text = render(failure, dialect).body.decode()
    assert "hush" not in text
    assert "Private" not in text
    body = json.loads(text)
    details = (body["error"] if dialect is Dialect.NESTED else body)["details"]
    assert details == {
        "key": "***",
        "list": ["***", 1],
        "deep": {"deeper": {"key": "***", "kept": "yes"}},
        "set": [],
        "account": {"name": "ada"},
    }


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize(
    "failure",
    [
        INVALID_PAYLOAD(field={"inner": Private("hush-private")}),
        INVALID_PAYLOAD(field=Account("ada", Private("hush-private"))),
        INVALID_PAYLOAD("a person wrote {key._value}", key=Secret("hush-secret")),
        INVALID_PAYLOAD("a person wrote {account.note.value}", account=Account("ada", Private("hush-private"))),
    ],
    ids=["private in a dict", "private in a dataclass", "attribute of a secret", "attribute of a private"],
)
def test_no_message_shows_a_secret_or_a_private(dialect, failure):
    assert b"hush" not in render(failure, dialect).body


@pytest.mark.parametrize("dialect", [Dialect.FLAT, Dialect.FULL, Dialect.PROBLEM])
def test_details_with_nothing_to_show_are_left_out(dialect):
    assert "details" not in document(UNAUTHORIZED(note=Private("n")), dialect)


def test_details_that_are_too_large_keep_their_first_entries():
    with replaced(replace(REAL, limits=Limits(details_bytes_max=60))):
        shown = bounded_details({"first": "1" * 10, "second": "2" * 100, "third": 3})
    assert shown == {"truncated": True, "first": "1" * 10}


def test_a_detail_named_truncated_does_not_hide_that_they_were():
    with replaced(replace(REAL, limits=Limits(details_bytes_max=60))):
        assert bounded_details({"truncated": False, "second": "2" * 100}) == {"truncated": True}


def test_details_exactly_at_the_bound_are_whole():
    details = {"first": "ü", "second": [1, 2]}
    size = len(json.dumps(details, separators=(",", ":"), ensure_ascii=False).encode())
    with replaced(replace(REAL, limits=Limits(details_bytes_max=size))):
        assert bounded_details(details) == details
    with replaced(replace(REAL, limits=Limits(details_bytes_max=size - 1))):
        assert bounded_details(details) == {"truncated": True}


def test_a_number_too_long_to_write_does_not_break_the_body():
    body = body_of(render(UNAUTHORIZED(first=1, huge=10**5_000), Dialect.FLAT))
    assert body["details"] == {"first": 1, "huge": "<int>"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=8), st.integers(18, 400), st.sampled_from(Dialect))
def test_the_bound_holds_and_the_body_is_json(details, bytes_max, dialect):
    with replaced(replace(REAL, limits=Limits(details_bytes_max=bytes_max))):
        body = body_of(render(Failure(UNAUTHORIZED, details=details), dialect))
    shown = (body["error"] if dialect is Dialect.NESTED else body).get("details", {})
    assert len(json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode()) <= bytes_max
    if shown != {} and "truncated" not in shown:
        assert list(shown) == list(details)


@pytest.mark.parametrize("dialect", Dialect)
def test_half_a_surrogate_pair_does_not_stop_the_answer(dialect):
    rendered = render(UNAUTHORIZED("broken \ud800", value="\udfff"), dialect)
    assert b"broken ?" in rendered.body


@pytest.mark.parametrize("dialect", Dialect)
def test_details_that_contain_themselves_end_somewhere(dialect):
    loop: dict[str, object] = {}
    loop["again"] = loop
    text = render(UNAUTHORIZED(loop=loop), dialect).body.decode()
    assert text.count("{") <= limits().json_depth_max


@pytest.mark.parametrize("dialect", Dialect)
def test_every_core_fault_can_be_written_in_every_dialect(dialect):
    for fault in CORE:
        assert body_of(render(fault.occur(), dialect))
