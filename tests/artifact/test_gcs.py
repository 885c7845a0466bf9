"""Against a stand-in for GCS: generations decide who was first, and a lost reply does not create twice."""

from __future__ import annotations

import pytest

from holdfast.artifact import Artifacts
from holdfast.catalog import Failure
from holdfast.testing.gcs import GcsStandIn

CONTENTS = pytest.mark.parametrize("content", [b"small", bytes(6_000_000)], ids=["small", "large"])


@pytest.fixture
def artifacts(gcs: GcsStandIn) -> Artifacts:
    return Artifacts.open(gcs.url("bucket", "prefix"))


@CONTENTS
def test_a_put_whose_reply_was_lost_is_recognised(artifacts: Artifacts, gcs: GcsStandIn, content: bytes) -> None:
    gcs.lose_write_replies()
    stored = artifacts.put("name", content)
    assert stored.created is False  # nobody can know whose it was; it is the same content
    assert artifacts.get("name") == content


@CONTENTS
def test_a_lost_reply_does_not_hide_a_conflict(artifacts: Artifacts, gcs: GcsStandIn, content: bytes) -> None:
    artifacts.put("name", b"another")
    gcs.lose_write_replies()
    with pytest.raises(Failure, match="ARTIFACT_CONFLICT"):
        artifacts.put("name", content)
    assert artifacts.get("name") == b"another"


def test_a_storage_that_keeps_failing_is_unavailable(artifacts: Artifacts, gcs: GcsStandIn) -> None:
    gcs.fail_next(503, times=3)
    with pytest.raises(Failure) as failed:
        artifacts.put("name", b"content")
    assert (failed.value.code, failed.value.status, failed.value.retryable) == ("STORAGE_UNAVAILABLE", 503, True)
    assert artifacts.put("name", b"content").created


def test_one_bad_answer_is_got_over(artifacts: Artifacts, gcs: GcsStandIn) -> None:
    gcs.fail_next(503)
    assert artifacts.put("name", b"content").created


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "STORAGE_REFUSED"),
        (401, "STORAGE_REFUSED"),
        (403, "STORAGE_REFUSED"),
        (501, "STORAGE_REFUSED"),
        (507, "STORAGE_FULL"),
        (429, "STORAGE_UNAVAILABLE"),
        (500, "STORAGE_UNAVAILABLE"),
        (502, "STORAGE_UNAVAILABLE"),
    ],
)
def test_an_answer_is_read_by_its_status(artifacts: Artifacts, gcs: GcsStandIn, status: int, code: str) -> None:
    gcs.fail_next(status, times=5)
    with pytest.raises(Failure) as failed:
        artifacts.get("name")
    assert (failed.value.code, failed.value.retryable) == (code, code != "STORAGE_REFUSED")


def test_a_bucket_that_does_not_exist_is_no_missing_artifact(gcs: GcsStandIn) -> None:
    with pytest.raises(Failure, match="STORAGE_REFUSED"):
        Artifacts.open(gcs.url("no-such-bucket")).get("name")
