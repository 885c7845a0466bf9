"""`Saleor-Signature`: HMAC where a secret is set, else a detached JWS by a key of an origin that is allowed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.delivery.saleor import SaleorSignature
from holdfast.testing import instant

BODY = b'{"order": 7}'
SHOP = "https://shop.example.com"
HEADER = "Saleor-Signature"


@cache
def key(name: str, bits: int = 2_048) -> RSAPrivateKey:
    return generate_private_key(public_exponent=65_537, key_size=bits)


def b64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8))


def entry(name: str, **changes: Any) -> dict[str, Any]:
    numbers = key(name).public_key().public_numbers()
    return {"kty": "RSA", "use": "sig", "kid": name, "n": number(numbers.n), "e": number(numbers.e), **changes}


def jws(name: str = "1", body: bytes = BODY, signer: str | None = None, **changes: Any) -> str:
    jose = {"alg": "RS256", "b64": False, "crit": ["b64"], "kid": name, "typ": "JWT"} | changes
    protected = b64(json.dumps({part: value for part, value in jose.items() if value is not None}).encode())
    return f"{protected}..{b64(key(signer or name).sign(protected.encode() + b'.' + body, PKCS1v15(), SHA256()))}"


class Publisher:
    """What a shop publishes, and how often it was asked."""

    def __init__(self, *entries: Any) -> None:
        self.entries = list(entries)
        self.asked: list[str] = []
        self.down = False

    def __call__(self, address: str) -> bytes:
        self.asked.append(address)
        if self.down:
            raise ConnectionRefusedError
        return json.dumps({"keys": self.entries}).encode()


def request(signature: str, api_url: str | None = f"{SHOP}/graphql/") -> dict[str, str]:
    return {HEADER: signature} | ({} if api_url is None else {"Saleor-Api-Url": api_url})


def code_of(verifier: SaleorSignature, headers: dict[str, str], **given: Any) -> str:
    with pytest.raises(Failure) as caught:
        verifier.verify(headers, BODY, **given)
    return caught.value.code


def test_with_a_secret_it_is_the_hex_hmac_of_the_body() -> None:
    made = hmac.new(b"s3cret", BODY, hashlib.sha256).hexdigest()
    verifier = SaleorSignature()
    verifier.verify({HEADER: made}, BODY, secrets=[Secret("other"), Secret("s3cret")])
    assert code_of(verifier, {HEADER: made}, secrets=[Secret("other")]) == "UNAUTHORIZED"
    assert code_of(verifier, {HEADER: jws()}, secrets=[Secret("s3cret")]) == "INVALID_SIGNATURE_FORMAT"


def test_without_a_secret_it_is_a_detached_jws_by_a_key_of_the_shop() -> None:
    publisher = Publisher(entry("1"), entry("2"))
    verifier = SaleorSignature(origins=[SHOP], fetch=publisher)
    assert verifier.verify(request(jws("1")), BODY).sender == SHOP
    verifier.verify(request(jws("2")), BODY)
    verifier.verify(request(jws("2"), "https://shop.example.com:443/x"), BODY)
    verifier.verify(request(jws("1", kid=None)), BODY)
    verifier.verify(request(jws("1"), None), BODY)
    verifier.verify({HEADER: jws("1"), "Saleor-Domain": "shop.example.com"}, BODY)
    assert publisher.asked == [f"{SHOP}/.well-known/jwks.json"]


def test_another_body_another_key_or_a_forged_kid_is_not_let_in() -> None:
    verifier = SaleorSignature(origins=[SHOP], fetch=Publisher(entry("1")))
    assert code_of(verifier, request(jws("1", body=b"{}"))) == "UNAUTHORIZED"
    assert code_of(verifier, request(jws("1", signer="2"))) == "UNAUTHORIZED"
    assert code_of(verifier, request(jws("2"))) == "UNAUTHORIZED"


@pytest.mark.parametrize(
    "api_url",
    ["https://evil.example.com/graphql/", "http://shop.example.com/", "https://shop.example.com:444/",
     "https://shop.example.com@evil.example.com/", "https://evil.example.com\\@shop.example.com/", "nonsense",
     "https://", "https://[::1", "https://shop.example.com.evil.com/", "file:///etc/passwd"],
)  # fmt: skip
def test_nothing_is_ever_fetched_from_an_origin_that_is_not_allowed(api_url: str) -> None:
    publisher = Publisher(entry("1"))
    verifier = SaleorSignature(origins=[SHOP, "https://second.example.com"], fetch=publisher)
    assert code_of(verifier, request(jws("1"), api_url)) == "UNAUTHORIZED"
    assert publisher.asked == []


def test_with_several_shops_the_request_must_say_which() -> None:
    verifier = SaleorSignature(origins=[SHOP, "https://second.example.com"], fetch=Publisher(entry("1")))
    assert code_of(verifier, request(jws("1"), None)) == "UNAUTHORIZED"


def test_a_key_that_is_new_is_fetched_but_made_up_ones_do_not_make_us_fetch() -> None:
    publisher = Publisher(entry("1"))
    verifier = SaleorSignature(origins=[SHOP], fetch=publisher)
    with instant() as time:
        verifier.verify(request(jws("1")), BODY)
        publisher.entries = [entry("2")]
        for _ in range(50):
            assert code_of(verifier, request(jws("2"))) == "UNAUTHORIZED"
        assert len(publisher.asked) == 1
        time.advance(31)
        verifier.verify(request(jws("2")), BODY)
        assert len(publisher.asked) == 2
        assert code_of(verifier, request(jws("1"))) == "UNAUTHORIZED"


def test_keys_serve_on_while_the_shop_is_down_and_are_looked_at_again_after_a_while() -> None:
    publisher = Publisher(entry("1"))
    verifier = SaleorSignature(origins=[SHOP], fetch=publisher)
    with instant() as time:
        verifier.verify(request(jws("1")), BODY)
        time.advance(599)
        verifier.verify(request(jws("1")), BODY)
        assert len(publisher.asked) == 1
        publisher.down = True
        time.advance(2)
        verifier.verify(request(jws("1")), BODY)
        verifier.verify(request(jws("1")), BODY)
        assert len(publisher.asked) == 2


def test_without_keys_the_sender_is_asked_to_come_back_and_the_shop_is_not_hammered() -> None:
    publisher = Publisher(entry("1"))
    publisher.down = True
    verifier = SaleorSignature(origins=[SHOP], fetch=publisher)
    with instant() as time:
        for _ in range(3):
            with pytest.raises(Failure) as caught:
                verifier.verify(request(jws("1")), BODY)
            assert (caught.value.code, caught.value.status) == ("SIGNING_KEYS_UNAVAILABLE", 503)
            assert caught.value.retryable
        assert len(publisher.asked) == 1
        publisher.down = False
        time.advance(31)
        verifier.verify(request(jws("1")), BODY)


@pytest.mark.parametrize(
    "published",
    [b"", b"[]", b"{}", b'{"keys": 7}', b'{"keys": ["x", null, {}]}', b"\xff", b'{"keys": [' + b"1," * 40 + b"1]}",
     json.dumps({"keys": [{"kty": "RSA", "n": "é", "e": "AQAB"}, {"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}).encode()],
)  # fmt: skip
def test_a_key_set_that_is_none_lets_nobody_in(published: bytes) -> None:
    verifier = SaleorSignature(origins=[SHOP], fetch=lambda _: published)
    assert code_of(verifier, request(jws("1"))) in {"UNAUTHORIZED", "SIGNING_KEYS_UNAVAILABLE"}


@pytest.mark.parametrize("change", [{"use": "enc"}, {"alg": "PS256"}, {"kty": "EC"}, {"e": number(2)}, {"e": "AQ"}])
def test_keys_that_are_not_for_rs256_are_left_out(change: dict[str, str]) -> None:
    verifier = SaleorSignature(origins=[SHOP], fetch=Publisher(entry("1", **change)))
    assert code_of(verifier, request(jws("1"))) == "UNAUTHORIZED"


@pytest.mark.parametrize(
    "change",
    [{"alg": "none"}, {"alg": "HS256"}, {"b64": True}, {"b64": None}, {"crit": ["b64", "exp"]}, {"crit": None},
     {"kid": 7}, {"kid": ""}, {"kid": "x" * 300}],
)  # fmt: skip
def test_a_jws_of_another_sort_is_malformed(change: dict[str, Any]) -> None:
    verifier = SaleorSignature(origins=[SHOP], fetch=Publisher(entry("1")))
    headers = request(jws("1", **change))
    assert code_of(verifier, headers) == "INVALID_SIGNATURE_FORMAT"


@pytest.mark.parametrize("signature", ["x", "..", "a.b.c", "e30..", "e30.e30.e30", "!!..AAAA", "e30..!!", "é..é"])
def test_what_is_no_detached_jws_is_malformed(signature: str) -> None:
    verifier = SaleorSignature(origins=[SHOP], fetch=Publisher(entry("1")))
    assert code_of(verifier, request(signature)) == "INVALID_SIGNATURE_FORMAT"


def test_without_a_secret_and_without_origins_nobody_gets_in() -> None:
    assert code_of(SaleorSignature(), request(jws("1"))) == "UNAUTHORIZED"
    assert code_of(SaleorSignature(), {}) == "UNAUTHORIZED"


@pytest.mark.parametrize("origin", ["shop.example.com", "ftp://x", "https://"])
def test_an_origin_that_is_none_is_refused_at_once(origin: str) -> None:
    with pytest.raises(ValueError, match="origin"):
        SaleorSignature(origins=[origin], fetch=Publisher())
