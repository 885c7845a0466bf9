"""Where artifacts are: what a URL and the environment say, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.artifact import Credentials, LocationInvalid, read_location
from holdfast.artifact.location import Commit, Scheme
from holdfast.base import Secret

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden"}


@pytest.mark.parametrize("url", ["/data/a", "file:///data/a", "file://localhost/data/a"])
def test_a_folder_is_a_path_or_a_file_url(url: str) -> None:
    location = read_location(url, {})
    assert (location.scheme, location.folder, str(location)) == (Scheme.FILE, "/data/a", "file:///data/a")


def test_without_an_address_the_environment_decides_then_a_folder() -> None:
    assert read_location(None, {"HOLDFAST_ARTIFACTS": "memory://"}).scheme is Scheme.MEMORY
    assert read_location(None, {}).folder == os.path.abspath("holdfast-data/artifacts")


def test_a_bucket_is_read_with_all_its_settings() -> None:
    location = read_location(
        "s3://key:hid%2Fden@bucket/a/b/?endpoint=http://127.0.0.1:8333/&region=eu-1&timeout_s=2.5&bytes_max=1000"
        "&commit=multipart",
        {},
    )
    assert (location.bucket, location.prefix, location.region) == ("bucket", "a/b", "eu-1")
    assert (location.endpoint, location.timeout_s, location.bytes_max) == ("http://127.0.0.1:8333", 2.5, 1_000)
    assert location.commit is Commit.MULTIPART
    assert location.credentials == Credentials("key", Secret("hid/den"))


def test_keys_and_place_come_from_the_environment_where_the_url_has_none() -> None:
    environment = {**KEYS, "AWS_SESSION_TOKEN": "token", "AWS_REGION": "eu-2", "AWS_ENDPOINT_URL": "http://host:1"}
    location = read_location("s3://bucket", environment)
    assert location.credentials == Credentials("key", Secret("hidden"), Secret("token"))
    assert (location.region, location.endpoint) == ("eu-2", "http://host:1")
    assert read_location("s3://a:b@bucket?region=x", environment).credentials == Credentials("a", Secret("b"))


@pytest.mark.parametrize("url", ["/data/a", "memory://", "gs://bucket"])
def test_keys_of_s3_are_refused_where_they_are_of_no_use(url: str) -> None:
    with pytest.raises(LocationInvalid, match="credentials are keys of S3") as refused:
        read_location(url, {}, credentials=Credentials("key", Secret("hidden")))
    assert "hidden" not in str(refused.value)


def test_no_key_shows_in_what_is_printed() -> None:
    location = read_location("s3://key:hidden@bucket/p?endpoint=http://host:1", {})
    assert str(location) == "s3://key:***@bucket/p?endpoint=http://host:1"
    assert "hidden" not in repr(location) + repr(location.credentials) + repr(location.signer())


def test_the_signer_stands_where_the_bucket_is() -> None:
    at_amazon = read_location("s3://bucket?region=eu-1", KEYS).signer()
    elsewhere = read_location("s3://bucket?endpoint=http://host:1", KEYS).signer()
    assert at_amazon is not None
    assert elsewhere is not None
    assert (at_amazon.base, elsewhere.base) == ("https://bucket.s3.eu-1.amazonaws.com", "http://host:1/bucket")
    assert read_location("s3://bucket", {}).signer() is None
    assert read_location("gs://bucket", KEYS).signer() is None


WITHOUT_PACKAGE = """
import sys
sys.modules["obstore"] = None
from holdfast.artifact import Artifacts
Artifacts.open(sys.argv[1]).put("name", b"content")
Artifacts.open("memory://")
"""


def test_a_folder_needs_no_package_and_the_rest_say_which(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_PACKAGE, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (tmp_path / "name").read_bytes() == b"content"
    assert 'pip install "holdfast[artifacts]"' in ended.stderr


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://host/a", "not a kind of storage"),
        ("https://host/a", "not a kind of storage"),
        ("s3://", "no bucket"),
        ("s3:///a", "no bucket"),
        ("s3://key@bucket", "half a key"),
        ("s3://bucket/../a", "prefix"),
        ("s3://bucket/%2e%2e/a", "prefix"),
        ("s3://bucket?endpoit=x", "no setting 'endpoit'"),
        ("s3://bucket?endpoint=host:1", "not a URL"),
        ("s3://bucket?timeout_s=0", "positive"),
        ("s3://bucket?timeout_s=soon", "positive"),
        ("s3://bucket?bytes_max=nan", "positive"),
        ("s3://bucket?bytes_max=99999999999", "at most"),
        ("gs://bucket?anonymous=perhaps", "true or false"),
        ("s3://bucket?anonymous=true", "no setting"),
        ("s3://bucket?commit=later", "copy or multipart"),
        ("gs://key:hidden@bucket", "only s3"),
        ("gs://bucket?region=x", "no setting"),
        ("file://host/a", "this machine"),
        ("file:///a?region=x", "no setting"),
    ],
)
def test_an_address_that_cannot_be_right_is_refused_with_the_reason(url: str, told: str) -> None:
    with pytest.raises(LocationInvalid, match=told) as refused:
        read_location(url, {})
    assert "hidden" not in str(refused.value)
