"""`X-GR-Signature: sha256=<hex>`: made over the raw body, checked against every secret."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import Secret
from holdfast.catalog import Dialect, Failure, document
from holdfast.delivery.body_hmac import BodyHmac
from holdfast.delivery.signing import SecretInvalid

OLD, NEW = Secret("the old one"), Secret("the new one")
SCHEME = BodyHmac()
BODY = b'{"event_id":"evt_a1b2c3d4e5f6789a"}'


def signed(body: bytes = BODY, *secrets: Secret) -> dict[str, str]:
    return dict(SCHEME.sign(body, event_id="evt_1", at_us=0, secrets=secrets or (NEW,)))


def test_the_header_is_the_hex_hmac_of_the_raw_body() -> None:
    expected = hmac.new(b"the new one", BODY, hashlib.sha256).hexdigest()
    assert signed() == {"X-GR-Signature": f"sha256={expected}"}


@given(st.binary(max_size=300), st.text(min_size=1, max_size=40, alphabet=st.characters(codec="utf-8")))
def test_what_is_signed_is_verified_and_no_other_body_is(body: bytes, secret: str) -> None:
    headers = dict(SCHEME.sign(body, event_id="e", at_us=0, secrets=[Secret(secret)]))
    SCHEME.verify(headers, body, secrets=[Secret(secret)])
    with pytest.raises(Failure, match="UNAUTHORIZED"):
        SCHEME.verify(headers, body + b" ", secrets=[Secret(secret)])


def test_during_a_rotation_the_newest_signs_and_all_verify() -> None:
    headers = signed(BODY, NEW, OLD)
    assert headers == signed(BODY, NEW)
    SCHEME.verify(headers, BODY, secrets=[OLD, NEW])
    SCHEME.verify(signed(BODY, OLD), BODY, secrets=[NEW, OLD])
    with pytest.raises(Failure, match="UNAUTHORIZED"):
        SCHEME.verify(signed(BODY, OLD), BODY, secrets=[NEW])


def test_the_name_of_the_header_may_be_written_in_any_capitals_and_as_bytes() -> None:
    value = signed()["X-GR-Signature"]
    SCHEME.verify({"x-gr-SIGNATURE": value.replace("f", "F")}, BODY, secrets=[NEW])
    SCHEME.verify(iter([(b"x-gr-signature", value.encode())]), BODY, secrets=[NEW])


@pytest.mark.parametrize(
    "value",
    ["sha256=", "sha256=xyz", "sha1=" + "0" * 64, "0" * 64, "sha256=" + "0" * 63, "sha256=" + "0" * 65,
     "sha256=" + "0" * 63 + "é", "sha256=" + "٠" * 64, "SHA256=" + "0" * 64, "sha256 = " + "0" * 64, "x" * 5_000],
)  # fmt: skip
def test_a_malformed_header_has_a_code_of_its_own(value: str) -> None:
    with pytest.raises(Failure) as caught:
        SCHEME.verify({"X-GR-Signature": value}, BODY, secrets=[NEW])
    assert (caught.value.code, caught.value.status) == ("INVALID_SIGNATURE_FORMAT", 401)


def test_a_header_that_stands_twice_is_malformed() -> None:
    value = signed()["X-GR-Signature"]
    with pytest.raises(Failure, match="INVALID_SIGNATURE_FORMAT"):
        SCHEME.verify([("X-GR-Signature", value), ("x-gr-signature", value)], BODY, secrets=[NEW])


def test_a_wrong_signature_is_told_as_the_sender_expects_it_and_no_more() -> None:
    with pytest.raises(Failure) as caught:
        SCHEME.verify({"X-GR-Signature": "sha256=" + "0" * 64}, BODY, secrets=[NEW])
    assert caught.value.status == 401
    assert document(caught.value, Dialect.FLAT) == {"error": "Signature verification failed", "code": "UNAUTHORIZED"}
    assert "no secret fits" in caught.value.technical


@pytest.mark.parametrize("headers", [{}, {"X-GR-Signature": ""}, {"X-GR-Signature": "  "}])
def test_a_request_without_a_signature_is_not_let_in(headers: dict[str, str]) -> None:
    with pytest.raises(Failure, match="UNAUTHORIZED"):
        SCHEME.verify(headers, BODY, secrets=[NEW])


@pytest.mark.parametrize("secrets", [[], [Secret("")], [Secret("\ud800")], [NEW] * 17])
def test_a_secret_that_cannot_be_used_is_refused_before_anything_is_let_in(secrets: list[Secret]) -> None:
    with pytest.raises(SecretInvalid):
        SCHEME.sign(BODY, event_id="e", at_us=0, secrets=secrets)
    with pytest.raises(SecretInvalid):
        SCHEME.verify(signed(), BODY, secrets=secrets)


def test_a_new_secret_is_long_and_signs() -> None:
    made = SCHEME.new_secret()
    SCHEME.check_secret(made)
    assert len(made.reveal()) == 64
    assert made != SCHEME.new_secret()
