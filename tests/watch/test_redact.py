"""Nothing secret in a log, whatever it is called and wherever it stands."""

from __future__ import annotations

import string
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import MASK, Private, Secret, encode
from holdfast.watch import redacted, redacted_text
from holdfast.watch.redact import TEXT_CHARS_MAX

HIDDEN = "Zq7xK2mN9pR4tV6wY8bD"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {HIDDEN}",
        f"sent with bearer {HIDDEN} to the bank",
        f"Proxy-Authorization: Basic {HIDDEN}==",
        f"Cookie: session={HIDDEN}; theme=dark",
        f"set-cookie: sid={HIDDEN}; HttpOnly",
        f"x-api-key: {HIDDEN}",
        f"{{'Authorization': 'Token {HIDDEN}'}}",
        f"signed with whsec_{HIDDEN}+/=",
        f"key sk-{HIDDEN} was refused",
        f"sk-proj-{HIDDEN}",
        f"sk_live_{HIDDEN}",
        f"rk_test_{HIDDEN}",
        f"ghp_{HIDDEN}",
        f"xoxb-{HIDDEN}",
        "AKIAZQ7XK2MN9PR4TV6W",
        f"eyJhbGciOiJIUzI1NiJ9.{HIDDEN}.{HIDDEN}",
        f"could not connect to postgresql://holdfast:{HIDDEN}@db.example/jobs",
        f"GET https://:{HIDDEN}@example.com/ failed",
        f"password={HIDDEN} host=db",
        f'{{"password": "{HIDDEN}", "user": "ada"}}',
        f"https://example.com/?token={HIDDEN}&page=2",
        f"client_secret={HIDDEN}",
        f"api_key: {HIDDEN}",
        f"key={HIDDEN.lower()}",
        "secret=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        f"-----BEGIN RSA PRIVATE KEY-----\n{HIDDEN}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_masked_inside_a_text(text: str) -> None:
    shown = redacted_text(f"before {text} after")
    assert MASK in shown
    for hidden in (HIDDEN, HIDDEN.lower(), "ZQ7XK2MN9PR4TV6W", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"):
        assert hidden not in shown
    assert shown.startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "NETWORK_TIMEOUT after 2.5 s at https://example.com:8443/orders/7?page=2",
        "the key order:7 was used before",
        "job 0190a5e2-7a4c-7d3e-8f01-23456789abcd failed on attempt 3",
        "sqlstate 40001: could not serialize access",
        "the token bucket is empty, basic rules apply",
        "skipped: disk-full on worker sk",
        "traceparent 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ],
)
def test_what_helps_to_find_the_cause_stays(text: str) -> None:
    assert redacted_text(text) == text


@dataclass
class Order:
    number: int
    card: Secret


@pytest.mark.parametrize(
    "facts",
    [
        {"card": Secret(HIDDEN)},
        {"order": Order(7, Secret(HIDDEN))},
        {"deep": [{"list": [Secret(HIDDEN)]}]},
        {"reason": Private(HIDDEN)},
        {"deep": {"reason": Private(HIDDEN)}},
        {"body": HIDDEN},
        {"payload": {"card": HIDDEN}},
        {"result": HIDDEN.encode()},
        {"headers": {"x": HIDDEN}},
        {"Authorization": HIDDEN},
        {"cookie": HIDDEN},
        {"request": {"Set-Cookie": HIDDEN}},
        {"operator_token": HIDDEN},
        {"db_password": HIDDEN},
        {"webhook-secret": [HIDDEN]},
        {"X-Signature": HIDDEN},
        {f"whsec_{HIDDEN}": 1, "nested": {f"whsec_{HIDDEN}": 1}},
    ],
)
def test_a_secret_is_masked_by_its_type_or_by_its_name(facts: dict[str, object]) -> None:
    shown = redacted({**facts, "code": "X"})
    assert shown["code"] == "X"
    assert HIDDEN not in encode({name: value for name, value in shown.items() if not name.startswith("whsec_")})


@pytest.mark.parametrize(
    "name",
    [
        "password", "dbPassword", "user.password", "passwordHash", "password_hash", "SECRET_KEY", "secretKey", "apiKey",
        "stripeApiKey", "aws_secret_access_key", "accessToken", "customerAuthToken", "refresh_tokens", "clientSecret",
        "X-Api-Key", "Proxy-Authorization", "Set-Cookie", "sessionid", "sessionId", "pin", "card_cvv", "otp", "pwd",
        "privateKey", "encryption_key", "jwt", "authtoken", "signature",
    ],
)  # fmt: skip
def test_a_field_is_secret_by_its_name_however_that_is_spelt(name: str) -> None:
    assert redacted({"deep": {name: HIDDEN}}) == {"deep": {name: MASK}}


@pytest.mark.parametrize("name", ["password", "pin", "card_cvv", "client_secret"])
def test_a_secret_that_is_a_number_is_masked_too(name: str) -> None:
    assert redacted({name: 123_456}) == {name: MASK}


@pytest.mark.parametrize(
    "name", ["key", "order_key", "dedupe_key", "shipping", "spin", "keyboard", "tokenizer", "secretary", "passenger"]
)
def test_a_name_that_only_resembles_one_stays(name: str) -> None:
    assert redacted({name: "plain"}) == {name: "plain"}


def test_numbers_and_plain_facts_stay_as_they_are() -> None:
    facts = {
        "token": 7,
        "prompt_tokens": 12,
        "has_password": True,
        "attempt": 2,
        "duration_s": 0.5,
        "queue": "pdf",
        "manual": True,
        "codes": ["A", "B"],
    }
    assert redacted(facts) == facts
    assert redacted({"code": None}) == {}


def test_a_body_is_told_by_its_size() -> None:
    assert redacted({"body": "abc", "payload": b"abcd", "result": {"a": 1}}) == {
        "body": "<3 characters>",
        "payload": "<4 bytes>",
        "result": "<dict>",
    }


def test_a_text_is_bounded() -> None:
    assert len(redacted_text("x" * 1_000_000)) <= TEXT_CHARS_MAX + 1


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_whatever_comes_in_something_can_be_encoded() -> None:
    round_trip: dict[str, object] = {}
    round_trip["self"] = round_trip
    facts = {"rude": Rude(), "loop": round_trip, "nan": float("nan"), "half": "\ud800", "set": {1, 2}}
    assert encode(redacted(facts))


@given(st.text(alphabet=string.ascii_letters + string.digits, min_size=20, max_size=60))
def test_no_password_of_an_address_comes_through(password: str) -> None:
    password = f"{password}#Q!"
    assert password not in redacted_text(f"postgresql://ada:{password}@db/jobs and password={password}")


@pytest.mark.parametrize(
    "piece", ["eyJ", "bearer ", "key=", "://", "a:", "-----BEGIN ", "authorization", "sk-", "secret"]
)
def test_hostile_text_costs_linear_time(piece: str) -> None:
    # A pattern that goes back and forth would take minutes here, and the test's own time limit would end it.
    for _ in range(20):
        redacted_text(piece * (TEXT_CHARS_MAX // len(piece)))
