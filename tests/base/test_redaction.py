"""Nothing secret is shown, whatever it is called, however it is written and wherever it stands."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import (
    MASK,
    Private,
    Secret,
    encode,
    is_secret,
    one_line,
    redacted,
    redacted_facts,
    redacted_json,
    redacted_text,
)
from holdfast.base.redaction import TEXT_CHARS_MAX, texts

from .redaction_names import PLAIN_NAMES, SECRET_NAMES
from .redaction_texts import ALSO_HIDDEN, HIDDEN, PLAIN_TEXTS, SECRET_TEXTS

MEGABYTE = 1_000_000


def test_the_corpora_do_not_shrink() -> None:
    assert len(set(SECRET_NAMES)) >= 270
    assert len(set(PLAIN_NAMES)) >= 170
    assert len(set(SECRET_TEXTS)) >= 118


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_name_gives_a_secret_away_however_it_is_spelt(name: str) -> None:
    assert is_secret(name, HIDDEN)
    assert redacted({"deep": [{name: HIDDEN}]}) == {"deep": [{name: MASK}]}
    assert redacted_facts({"deep": {name: HIDDEN}}) == {"deep": {name: MASK}}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_a_name_that_only_resembles_one_stays(name: str) -> None:
    assert not is_secret(name, "plain")
    assert redacted({name: "plain"}) == {name: "plain"}


@pytest.mark.parametrize("text", SECRET_TEXTS)
def test_what_looks_like_a_secret_is_masked_inside_a_text(text: str) -> None:
    shown = redacted_text(f"before {text} after")
    assert MASK in shown
    for hidden in (HIDDEN, *ALSO_HIDDEN):
        assert hidden not in shown
    assert shown.startswith("before ")


@pytest.mark.parametrize("text", SECRET_TEXTS)
def test_a_redacted_text_stays_as_it_is(text: str) -> None:
    shown = redacted_text(text)
    assert redacted_text(shown) == shown


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_what_helps_to_find_the_cause_stays(text: str) -> None:
    assert redacted_text(text) == text


@dataclass
class Order:
    number: int
    card: Secret


@pytest.mark.parametrize(
    "value",
    [
        {"card": Secret(HIDDEN)},
        {"order": Order(7, Secret(HIDDEN))},
        {"deep": [{"list": [Secret(HIDDEN)]}]},
        {"deep": {"reason": Private(HIDDEN)}},
        {"credentials": {"user": "ada", "word": HIDDEN}},
        {"webhook-secret": [HIDDEN]},
        [["Authorization", HIDDEN], ["x-api-key", HIDDEN]],
        [("set-cookie", HIDDEN)],
        {"headers": [{"name": "x-api-key", "value": HIDDEN}]},
        {"errors": [{"field": "user.password", "value": HIDDEN, "message": "too short"}]},
        f"password={HIDDEN}",
    ],
)
def test_a_secret_is_masked_wherever_it_stands(value: Any) -> None:
    assert HIDDEN not in encode(redacted(value))
    assert HIDDEN not in encode(redacted_facts({"value": value}))


def test_a_name_that_is_a_secret_itself_is_masked() -> None:
    assert redacted({f"whsec_{HIDDEN}": 1}) == {f"whsec_{MASK}": 1}
    assert redacted_facts({f"whsec_{HIDDEN}": 1}) == {f"whsec_{MASK}": 1}


@pytest.mark.parametrize("name", ["password", "pin", "card_cvv", "client_secret", "card_number"])
def test_a_secret_that_is_a_number_is_masked_too(name: str) -> None:
    assert redacted({name: 123_456}) == {name: MASK}


def test_numbers_and_plain_facts_stay_as_they_are() -> None:
    facts = {
        "token": 7,
        "prompt_tokens": 12,
        "has_password": True,
        "attempt": 2,
        "duration_s": 0.5,
        "queue": "pdf",
        "codes": ["A", "B"],
    }
    assert redacted_facts(facts) == facts
    assert redacted(facts) == facts
    assert redacted_facts({"code": None}) == {}
    assert redacted({"password": None}) == {"password": None}


def test_a_list_of_two_names_is_not_a_header() -> None:
    assert redacted({"missing": ["password", "email"]}) == {"missing": ["password", "email"]}


def test_a_log_tells_a_body_by_its_size_and_a_page_shows_it() -> None:
    facts = {"body": "abc", "payload": b"abcd", "result": {"a": 1}}
    assert redacted_facts(facts) == {"body": "<3 characters>", "payload": "<4 bytes>", "result": "<dict>"}
    assert redacted({"body": "abc", "result": {"a": 1}}) == {"body": "abc", "result": {"a": 1}}


def test_stored_json_is_shown_without_its_secrets() -> None:
    assert redacted_json('{"pin": 1, "a": [2]}', indent=None) == '{"pin": "***", "a": [2]}'
    assert redacted_json(None) == ""
    assert redacted_json("{") == "This is not JSON that can be shown."
    assert len(redacted_json(f'["{"x" * 500}"]', chars_max=100, indent=None)) == 100
    assert redacted_json(f'["{"x" * 500}"]', chars_max=100).endswith("cut after 100 characters")


def test_a_text_is_bounded_and_no_secret_is_cut_in_half() -> None:
    assert len(redacted_text("x" * MEGABYTE)) <= TEXT_CHARS_MAX
    for before in range(TEXT_CHARS_MAX - 60, TEXT_CHARS_MAX, 7):
        shown = redacted_text("x" * before + f" postgresql://ada:{HIDDEN}@db/jobs")
        assert HIDDEN[:3] not in shown
        assert len(shown) <= TEXT_CHARS_MAX
    half = "y" * (texts.READ_CHARS_MAX - 30) + f" postgresql://ada:{HIDDEN}@db/jobs"
    assert HIDDEN[:3] not in redacted_text(half, chars_max=MEGABYTE)


@pytest.mark.parametrize("mark", ["\n", "\r", "\x1b[2J", "\x07", "\x00", "\x85", "\x9b", "\u2028", "\u2029", "\u202e"])
def test_no_text_begins_a_line_or_steers_the_terminal(mark: str) -> None:
    forged = f"ok{mark}2026-03-01 [error] forged"
    assert mark[0] not in one_line(forged)
    assert len(one_line(forged).splitlines()) == 1
    assert mark == "\n" or mark[0] not in redacted_text(forged)


@given(st.text())
def test_a_line_stays_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1
    assert one_line(one_line(text)) == one_line(text)


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_whatever_comes_in_something_can_be_encoded() -> None:
    round_trip: dict[str, object] = {}
    round_trip["self"] = round_trip
    facts = {"rude": Rude(), "loop": round_trip, "nan": float("nan"), "half": "\ud800", "set": {1, 2}}
    assert encode(redacted_facts(facts))
    assert encode(redacted(facts))


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    redacted_text(text)
    is_secret(text)


@given(st.text(alphabet=string.ascii_letters + string.digits + "@:/?#!$%^*+-_=.,", min_size=8, max_size=60))
def test_no_password_of_an_address_comes_through(password: str) -> None:
    password = f"Q{password}Q!"
    shown = redacted_text(f"could not reach postgresql://ada:{password}@db/jobs")
    assert shown == f"could not reach postgresql://ada:{MASK}@db/jobs"


@pytest.mark.parametrize(
    "piece",
    [
        "eyJ", "eyJ-", "bearer ", "key=", "://", "a:", "a://b:c@", "-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----",
        "authorization", "authorization: \n", "sk-", "sk-a", "secret", "secret='", "secret=[", "secret=,a",
        "password is ", "=a:", "=a:b@", "<a ", "'a','", "name=a\n\n", "4111", "-u a:", "\\", 'password=\\"', "%3D",
        "--a ", "api key", "\t", "_", "@", "a:b@tcp(", "\x1b",
    ],
)  # fmt: skip
def test_hostile_text_costs_linear_time(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A pattern that goes back and forth would take hours here, and the test's own time limit would end it.
    monkeypatch.setattr(texts, "READ_CHARS_MAX", 2 * MEGABYTE)
    redacted_text(piece * (MEGABYTE // len(piece)))
