"""Standard Webhooks: what we sign others accept, what others sign we accept, and old signatures are worth nothing."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
import standardwebhooks.webhooks
import svix.webhooks
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from holdfast.base import Secret, now_us
from holdfast.catalog import Failure
from holdfast.delivery.signing import SecretInvalid
from holdfast.delivery.standard import StandardWebhooks
from holdfast.testing import instant

SCHEME = StandardWebhooks()
SHARED = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
OTHER = Secret("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
BODY = '{"type":"contact.created","name":"Zoë"}'.encode()
OTHERS = pytest.mark.parametrize(
    "library", [standardwebhooks.webhooks, svix.webhooks], ids=["standardwebhooks", "svix"]
)


def pair() -> tuple[Secret, Secret]:
    private = Ed25519PrivateKey.generate()
    seed, public = private.private_bytes_raw(), private.public_key().public_bytes_raw()
    return (
        Secret("whsk_" + base64.b64encode(seed + public).decode()),
        Secret("whpk_" + base64.b64encode(public).decode()),
    )


def signed(*secrets: Secret, event_id: str = "msg_1", at_us: int | None = None) -> dict[str, str]:
    moment_us = now_us() if at_us is None else at_us
    return dict(SCHEME.sign(BODY, event_id=event_id, at_us=moment_us, secrets=secrets))


@OTHERS
def test_others_accept_what_we_sign(library) -> None:
    library.Webhook(SHARED.reveal()).verify(BODY, signed(SHARED))
    library.Webhook(OTHER.reveal()).verify(BODY, signed(SHARED, OTHER))
    with pytest.raises(library.WebhookVerificationError):
        library.Webhook(OTHER.reveal()).verify(BODY, signed(SHARED))


@OTHERS
def test_others_accept_what_we_sign_also_beside_a_signature_with_an_ed25519_key(library) -> None:
    library.Webhook(SHARED.reveal()).verify(BODY, signed(pair()[0], SHARED))


@OTHERS
def test_others_accept_a_secret_that_we_made(library) -> None:
    made = SCHEME.new_secret()
    library.Webhook(made.reveal()).verify(BODY, signed(made))


@OTHERS
@pytest.mark.parametrize("prefix", ["webhook", "svix"])
def test_we_accept_what_others_sign(library, prefix: str) -> None:
    moment = datetime.fromtimestamp(now_us() // 1_000_000, UTC)
    signature = library.Webhook(SHARED.reveal()).sign("msg_7", moment, BODY.decode())
    headers = {
        f"{prefix}-id": "msg_7",
        f"{prefix}-timestamp": str(int(moment.timestamp())),
        f"{prefix}-signature": signature,
    }
    verified = SCHEME.verify(headers, BODY, secrets=[OTHER, SHARED])
    assert verified.event_id == "msg_7"
    assert verified.at_us == int(moment.timestamp()) * 1_000_000
    with pytest.raises(Failure, match="UNAUTHORIZED"):
        SCHEME.verify(headers, BODY, secrets=[OTHER])


def test_the_specification_s_own_numbers_come_out() -> None:
    # From the reference implementations' test of signing.
    headers = dict(
        SCHEME.sign(
            b'{"test": 2432232314}', event_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at_us=1_614_265_330_000_000,
            secrets=[SHARED],
        )
    )  # fmt: skip
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["webhook-timestamp"] == "1614265330"


def test_a_pair_of_keys_signs_with_one_half_and_verifies_with_either() -> None:
    private, public = pair()
    headers = signed(private)
    assert headers["webhook-signature"].startswith("v1a,")
    assert SCHEME.verify(headers, BODY, secrets=[public]).event_id == "msg_1"
    SCHEME.verify(headers, BODY, secrets=[private])
    SCHEME.verify(headers, BODY, secrets=[SHARED, public])
    with pytest.raises(Failure, match="UNAUTHORIZED"):
        SCHEME.verify(headers, BODY, secrets=[pair()[1], SHARED])


def test_a_seed_alone_is_the_same_key() -> None:
    private, public = pair()
    whole = base64.b64decode(private.reveal().removeprefix("whsk_"))
    seed = Secret("whsk_" + base64.b64encode(whole[:32]).decode())
    at_us = now_us()
    assert signed(seed, at_us=at_us) == signed(private, at_us=at_us)
    SCHEME.verify(signed(seed), BODY, secrets=[public])


def test_a_v1_signature_does_not_pass_as_v1a_and_the_other_way_round() -> None:
    private, public = pair()
    for headers, secret in ((signed(SHARED), public), (signed(private), SHARED)):
        with pytest.raises(Failure, match="UNAUTHORIZED"):
            SCHEME.verify(headers, BODY, secrets=[secret])


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
def test_the_signature_covers_the_id_and_the_time(name: str) -> None:
    headers = signed(SHARED)
    changed = {"webhook-id": "msg_2", "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 7)}
    with pytest.raises(Failure, match="UNAUTHORIZED"):
        SCHEME.verify(headers | {name: changed[name]}, BODY, secrets=[SHARED])


@pytest.mark.parametrize(("age_s", "good"), [(0, True), (299, True), (302, False), (-299, True), (-302, False)])
def test_a_signature_is_good_for_five_minutes_either_way(age_s: int, good: bool) -> None:
    with instant() as time:
        headers = signed(SHARED, at_us=now_us() if age_s >= 0 else now_us() - age_s * 1_000_000)
        time.advance(max(age_s, 0))
        if good:
            SCHEME.verify(headers, BODY, secrets=[SHARED])
            return
        with pytest.raises(Failure) as caught:
            SCHEME.verify(headers, BODY, secrets=[SHARED])
        assert (caught.value.code, caught.value.status) == ("SIGNATURE_EXPIRED", 401)


def test_who_does_not_know_the_secret_is_not_told_that_the_time_is_wrong() -> None:
    with pytest.raises(Failure, match="UNAUTHORIZED"):
        SCHEME.verify(signed(OTHER, at_us=0), BODY, secrets=[SHARED])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("webhook-id", "msg.1"), ("webhook-id", "msg 1"), ("webhook-id", "é"), ("webhook-id", "x" * 256),
        ("webhook-timestamp", "1.5"), ("webhook-timestamp", "-1"), ("webhook-timestamp", "1e9"),
        ("webhook-timestamp", "²"), ("webhook-timestamp", "9" * 13), ("webhook-timestamp", "nan"),
        ("webhook-signature", "v1"), ("webhook-signature", "v1,"), ("webhook-signature", "v1,é"),
        ("webhook-signature", "v1,AAAA"), ("webhook-signature", ","), ("webhook-signature", "v1a,AAAA"),
        ("webhook-signature", "v1,abcde"), ("webhook-signature", " ".join(["v9,x"] * 17)),
        ("webhook-signature", "v1," + "A" * 200), ("webhook-signature", "v1,AA=A"), ("webhook-signature", "v1,====="),
    ],
)  # fmt: skip
def test_a_malformed_header_has_a_code_of_its_own(name: str, value: str) -> None:
    with pytest.raises(Failure) as caught:
        SCHEME.verify(signed(SHARED) | {name: value}, BODY, secrets=[SHARED])
    assert (caught.value.code, caught.value.status) == ("INVALID_SIGNATURE_FORMAT", 401)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_request_that_lacks_a_header_is_not_let_in(missing: str) -> None:
    headers = signed(SHARED)
    del headers[missing]
    with pytest.raises(Failure, match="UNAUTHORIZED"):
        SCHEME.verify(headers, BODY, secrets=[SHARED])


def test_versions_that_are_not_known_are_skipped() -> None:
    headers = signed(SHARED)
    headers["webhook-signature"] = "v2,whatever " + headers["webhook-signature"]
    SCHEME.verify(headers, BODY, secrets=[SHARED])


@pytest.mark.parametrize("event_id", ["", "a.b", "a b", "é", "x" * 256, "a\n"])
def test_an_id_that_could_be_read_in_two_ways_is_not_signed(event_id: str) -> None:
    with pytest.raises(ValueError, match="not a webhook id"):
        signed(SHARED, event_id=event_id)


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "whsec_AAAA", "whsec_!!!", "whsec_" + "A" * 800, "whsk_AAAA", "whpk_AAAA", "whsec_é",
     "whsk_" + base64.b64encode(bytes(64)).decode()],
)  # fmt: skip
def test_a_secret_that_is_none_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(SecretInvalid) as caught:
        SCHEME.check_secret(Secret(secret))
    assert len(secret) < 7 or secret not in str(caught.value)


def test_a_public_key_cannot_sign() -> None:
    with pytest.raises(SecretInvalid, match="public key"):
        signed(pair()[1])
