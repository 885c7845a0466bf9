"""Which keys are keys, and which requests are the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Failure, Secret
from holdfast.base import SecretLeak
from holdfast.guard.idempotency import Answer, Keys, Started, request_hash
from holdfast.guard.request import checked_scope, received_hash
from holdfast.store import Store

MADE = Answer(201, body=b"made")


def make(started: Started) -> Answer:
    return MADE


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "a\x00", "\ud800", None, 7, Secret("k")], ids=repr)
def test_a_key_that_is_none_is_refused(key: Any) -> None:
    with pytest.raises(Failure) as caught:
        checked_scope(tenant="", operation="charge", key=key)
    assert (caught.value.code, caught.value.status) == ("IDEMPOTENCY_KEY_INVALID", 400)


@pytest.mark.parametrize("key", ["x", "é" * 255, "\U0001f600" * 255, "saleor:T3JkZXI6MQ==:TGluZTox", "a b'\"%s:x{y}"])
def test_a_key_has_1_to_255_printable_characters(store: Store, key: str) -> None:
    keys, longest = Keys(store), "\U0001f600" * 200
    assert not keys.once(longest, key, 1, make, tenant=longest).replayed
    assert keys.once(longest, key, 1, make, tenant=longest).replayed


@pytest.mark.parametrize(
    "scope", [{"operation": ""}, {"operation": "x" * 201}, {"tenant": "x" * 201}, {"tenant": "\x00"}]
)
def test_a_scope_that_cannot_be_stored_is_refused(scope: dict[str, str]) -> None:
    with pytest.raises(Failure, match="BAD_REQUEST"):
        checked_scope(**{"tenant": "", "operation": "charge", "key": "k", **scope})


def test_json_is_the_same_however_it_is_spelt_and_bytes_are_not() -> None:
    assert request_hash(body={"a": 1, "b": [2]}) == request_hash(body={"b": [2], "a": 1})
    assert request_hash(body=b'{"a":1}') != request_hash(body=b'{"a": 1}')
    assert request_hash(body=b"x") == request_hash(body=bytearray(b"x")) == request_hash(body=memoryview(b"x"))
    assert request_hash(method="post", path="/a", body=b"") == request_hash(method="POST", path="/a")


@given(st.tuples(st.text(), st.text(), st.binary()), st.tuples(st.text(), st.text(), st.binary()))
def test_different_requests_have_different_hashes(one: tuple[str, str, bytes], two: tuple[str, str, bytes]) -> None:
    hashes = [request_hash(method=method, path=path, body=body) for method, path, body in (one, two)]
    same = (one[0].upper(), *one[1:]) == (two[0].upper(), *two[1:])
    assert (hashes[0] == hashes[1]) is same


def test_a_secret_in_a_request_is_not_hashed_by_accident() -> None:
    with pytest.raises(SecretLeak):
        request_hash(body={"card": Secret("4242")})


@pytest.mark.parametrize("body", [b"", b"\x00\xff", None, [], {"b": [1, 2.5, None], "a": 'é"\\'}, "text"], ids=repr)
def test_a_received_request_has_the_same_hash(body: Any) -> None:
    asked = {"method": "post", "path": "/pay?x=1", "body": body}
    assert received_hash(**asked) == request_hash(**asked)
