"""Whatever stands in a header, a verifier lets in or fails with a 401: it never breaks."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.delivery import BodyHmac, SaleorSignature, StandardWebhooks
from holdfast.delivery.signing import Verifier

SHARED = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
PUBLIC = Secret("whpk_" + base64.b64encode(bytes([1]) * 32).decode())
REFUSED = {"UNAUTHORIZED", "INVALID_SIGNATURE_FORMAT", "SIGNATURE_EXPIRED"}

VERIFIERS: dict[str, tuple[Verifier, list[Secret]]] = {
    "body": (BodyHmac(), [SHARED]),
    "standard": (StandardWebhooks(), [SHARED, PUBLIC]),
    "saleor": (SaleorSignature(), [SHARED]),
    "saleor-keys": (SaleorSignature(origins=["https://shop"], fetch=lambda _: b'{"keys":[]}'), []),
}
NAMES = [
    "X-GR-Signature", "webhook-id", "webhook-timestamp", "webhook-signature", "svix-id", "svix-timestamp",
    "svix-signature", "Saleor-Signature", "Saleor-Api-Url", "Saleor-Domain",
]  # fmt: skip

base64_text = st.binary(max_size=80).map(lambda made: base64.b64encode(made).decode())
jose = st.dictionaries(
    st.sampled_from(["alg", "b64", "crit", "kid"]),
    st.sampled_from(["RS256", "none", False, True, None, ["b64"], [], 7, "1", {}]),
).map(lambda made: base64.urlsafe_b64encode(json.dumps(made).encode()).decode().rstrip("="))
near = st.one_of(
    st.builds(
        "{}{},{}".format, st.sampled_from(["", "v1,A ", "v9,x "]), st.sampled_from(["v1", "v1a", ""]), base64_text
    ),
    st.builds("sha256={}".format, st.text(max_size=70)),
    st.builds("{}..{}".format, jose, base64_text),
    st.integers().map(str),
    st.builds("{}://{}".format, st.sampled_from(["http", "https", ""]), st.text(max_size=20)),
)
values = st.one_of(st.text(max_size=100), st.binary(max_size=100), near)
headers = st.lists(
    st.tuples(st.one_of(st.sampled_from(NAMES), st.sampled_from(NAMES).map(str.encode)), values), max_size=8
)


@pytest.mark.parametrize("name", VERIFIERS)
@settings(max_examples=250)
@given(sent=headers, body=st.binary(max_size=60))
def test_a_hostile_header_is_a_401_and_nothing_else(name: str, sent: list[tuple], body: bytes) -> None:
    verifier, secrets = VERIFIERS[name]
    with pytest.raises(Failure) as caught:
        verifier.verify(sent, body, secrets=secrets)
    assert caught.value.status == 401
    assert caught.value.code in REFUSED
