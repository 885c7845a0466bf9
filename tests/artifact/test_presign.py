"""The signature itself, against the example that Amazon publishes."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.artifact.presign import Credentials, Signer
from holdfast.base import Secret, World, replaced

BEGUN_US = int(datetime(2013, 5, 24, tzinfo=UTC).timestamp()) * 1_000_000
KEYS = Credentials("AKIAIOSFODNN7EXAMPLE", Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
SIGNATURE = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"


def test_the_published_example_has_the_published_signature() -> None:
    signer = Signer("https://examplebucket.s3.amazonaws.com", "us-east-1", KEYS)
    with replaced(World(wall_us=lambda: BEGUN_US)):
        request = signer.sign("GET", "test.txt", expires_s=86_400)
    assert request.url == (
        "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        f"&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature={SIGNATURE}"
    )
    assert request.expires_us == BEGUN_US + 86_400_000_000


def test_a_session_token_is_part_of_what_is_signed() -> None:
    temporary = Credentials(KEYS.access_key_id, KEYS.secret_access_key, Secret("a/token+1="))
    with replaced(World(wall_us=lambda: BEGUN_US)):
        request = Signer("https://host", "us-east-1", temporary).sign("GET", "test.txt", expires_s=60)
    assert "&X-Amz-Security-Token=a%2Ftoken%2B1%3D&" in request.url
