"""On a real S3 server: presigned URLs as plain HTTP clients use them, and the server's refusals as faults."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Self
from urllib.parse import urlsplit

import pytest

from holdfast.artifact import Artifacts, Credentials, Presigned, read_location
from holdfast.base import REAL, Secret, World, replaced
from holdfast.catalog import Failure
from holdfast.testing.s3 import S3Address, send

CONTENT = b"an artifact of thirty-two bytes."


@pytest.fixture
def artifacts(s3_url: str) -> Artifacts:
    return Artifacts.open(s3_url)


class Loopback:
    """Has nothing, and keeps what it was asked with."""

    def __init__(self) -> None:
        asked = self.asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(dict(self.headers.items()))
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def exchange(
    request: Presigned, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    url = urlsplit(request.url)
    connection = http.client.HTTPConnection(url.netloc, timeout=60)
    connection.request(request.method, f"{url.path}?{url.query}", body, dict(headers or request.headers))
    answer = connection.getresponse()
    read = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, read


def test_a_presigned_get_gives_the_content_as_a_download(artifacts: Artifacts) -> None:
    artifacts.put("reports/a b é.xml", CONTENT)
    request = artifacts.presign_get("reports/a b é.xml", content_type="application/xml", filename='é "1".xml')
    status, headers, body = exchange(request)
    assert (status, body) == (200, CONTENT)
    assert headers["content-type"] == "application/xml"
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''%C3%A9%20%221%22.xml"


def test_a_presigned_put_stores_what_a_plain_client_sends(artifacts: Artifacts) -> None:
    request = artifacts.presign_put("upload", bytes=len(CONTENT), content_type="text/plain")
    assert (request.method, request.headers["Content-Length"]) == ("PUT", "32")
    assert exchange(request, CONTENT)[0] == 200
    assert artifacts.get("upload") == CONTENT
    assert artifacts.measure("upload").bytes == 32
    assert exchange(artifacts.presign_get("upload"))[1]["content-type"] == "text/plain"


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (CONTENT + b"more", {"Content-Length": "36"}),
        (b"less", {"Content-Length": "4"}),
        (CONTENT, {"Content-Type": "text/html"}),
        (CONTENT, {"If-None-Match": None}),
    ],
    ids=["longer", "shorter", "another type", "without the condition"],
)
def test_an_upload_outside_its_limits_is_refused_by_the_server(
    artifacts: Artifacts, body: bytes, changed: dict[str, str | None]
) -> None:
    request = artifacts.presign_put("upload", bytes=len(CONTENT), content_type="text/plain")
    headers = {name: value for name, value in {**request.headers, **changed}.items() if value is not None}
    status, _, answer = exchange(request, body, headers)
    assert (status, b"SignatureDoesNotMatch" in answer) == (403, True)
    assert not artifacts.exists("upload")


def test_a_presigned_put_does_not_replace_what_is_there(artifacts: Artifacts) -> None:
    request = artifacts.presign_put("upload", bytes=len(CONTENT))
    assert exchange(request, CONTENT)[0] == 200
    assert exchange(request, CONTENT[::-1])[0] == 412
    assert artifacts.get("upload") == CONTENT


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"/mine", "/another"),
        (r"X-Amz-Expires=60", "X-Amz-Expires=6000"),
        (r"X-Amz-Signature=.", "X-Amz-Signature=x"),
        (r"X-Amz-Date=\d{8}", "X-Amz-Date=20200101"),
        (r"&X-Amz-Signature=.*", ""),
    ],
)
def test_a_presigned_url_that_was_changed_is_refused(artifacts: Artifacts, pattern: str, by: str) -> None:
    artifacts.put("mine", CONTENT)
    artifacts.put("another", CONTENT)
    request = artifacts.presign_get("mine", expires_s=60)
    changed = replace(request, url=re.sub(pattern, by, request.url))
    assert changed.url != request.url
    assert exchange(changed)[0] in {400, 403}
    assert exchange(request)[0] == 200


@pytest.mark.parametrize(("signed_ago_s", "status"), [(500, 200), (700, 403)])
def test_a_presigned_url_holds_until_it_expires(artifacts: Artifacts, signed_ago_s: int, status: int) -> None:
    artifacts.put("mine", CONTENT)
    with replaced(World(wall_us=lambda: REAL.wall_us() - signed_ago_s * 1_000_000)):
        request = artifacts.presign_get("mine", expires_s=600)
    assert exchange(request)[0] == status


def test_a_presigned_url_cannot_be_read_off_a_log_line(artifacts: Artifacts) -> None:
    assert "X-Amz" not in repr(artifacts.presign_get("mine"))


@pytest.mark.parametrize("expires_s", [0, -1, 7 * 86_400 + 1])
def test_a_time_that_s3_does_not_accept_is_refused_at_once(artifacts: Artifacts, expires_s: int) -> None:
    with pytest.raises(ValueError, match="expires_s"):
        artifacts.presign_get("mine", expires_s=expires_s)


def test_no_upload_larger_than_the_limit_is_signed(s3_url: str) -> None:
    artifacts = Artifacts.open(s3_url, bytes_max=100)
    assert artifacts.presign_put("upload", bytes=100)
    with pytest.raises(Failure, match="ARTIFACT_TOO_LARGE"):
        artifacts.presign_put("upload", bytes=101)


def test_a_type_that_would_smuggle_a_header_is_refused(artifacts: Artifacts) -> None:
    with pytest.raises(ValueError, match="header"):
        artifacts.presign_put("upload", bytes=1, content_type="text/plain\r\nX-Evil: 1")


@pytest.mark.parametrize("url", ["folder", "memory", "gcs"], indirect=True)
def test_a_storage_without_presigned_urls_says_so(url: str) -> None:
    artifacts = Artifacts.open(url)
    for ask in (lambda: artifacts.presign_get("mine"), lambda: artifacts.presign_put("mine", bytes=1)):
        with pytest.raises(Failure) as refused:
            ask()
        assert (refused.value.code, refused.value.status) == ("PRESIGN_UNSUPPORTED", 501)


ATTEMPTS: dict[str, Callable[[Artifacts], object]] = {
    "put": lambda artifacts: artifacts.put("name", CONTENT),
    "large put": lambda artifacts: artifacts.put("name", bytes(6_000_000)),
    "get": lambda artifacts: artifacts.get("name"),
    "list": lambda artifacts: artifacts.page(),
}


def outcome(url: str, operation: str) -> Failure:
    artifacts = Artifacts.open(url)
    with pytest.raises(Failure) as failed:
        ATTEMPTS[operation](artifacts)
    return failed.value


def test_keys_that_are_given_count_more_than_those_of_the_address_and_the_environment(
    s3: S3Address, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "elsewhere")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "elsewhere")
    given = Credentials(s3.access_key_id, Secret(s3.secret_access_key))
    for address in (f"s3://{s3_bucket}/given?endpoint={s3.endpoint}", replace(s3, access_key_id="no").url(s3_bucket)):
        artifacts = Artifacts.open(address, credentials=given)
        artifacts.put("name", CONTENT)
        assert exchange(artifacts.presign_get("name"))[2] == CONTENT


def test_a_key_is_never_sent_with_the_token_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "somebody else's")
    with Loopback() as server:
        own = Credentials("key", Secret("secret"), Secret("its own"))
        for artifacts in (
            Artifacts.open(f"s3://key:secret@bucket?endpoint={server.url}"),
            Artifacts.open(f"s3://bucket?endpoint={server.url}", credentials=own),
        ):
            with pytest.raises(Failure, match="ARTIFACT_NOT_FOUND"):
                artifacts.get("name")
    assert [asked.get("x-amz-security-token") for asked in server.asked] == [None, "its own"]


@pytest.mark.parametrize("operation", ATTEMPTS)
def test_wrong_keys_are_refused_and_not_retried(s3: S3Address, s3_bucket: str, operation: str) -> None:
    failure = outcome(replace(s3, secret_access_key="wrong").url(s3_bucket), operation)
    assert (failure.code, failure.retryable) == ("STORAGE_REFUSED", False)
    assert "wrong" not in failure.technical


@pytest.mark.parametrize("operation", ATTEMPTS)
def test_a_bucket_that_does_not_exist_is_no_missing_artifact(s3: S3Address, operation: str) -> None:
    assert outcome(s3.url("no-such-bucket"), operation).code == "STORAGE_REFUSED"


@pytest.mark.parametrize("operation", ATTEMPTS)
def test_a_server_that_is_not_there_is_unavailable(s3: S3Address, operation: str) -> None:
    failure = outcome(replace(s3, port=1).url("bucket"), operation)
    assert (failure.code, failure.status, failure.retryable) == ("STORAGE_UNAVAILABLE", 503, True)


@pytest.mark.parametrize("operation", ["put", "get"])
def test_a_silent_server_is_given_up_on(s3: S3Address, operation: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun_s = REAL.monotonic_s()
        url = f"{replace(s3, port=silent.getsockname()[1]).url('bucket')}&timeout_s=0.3"
        assert outcome(url, operation).code == "STORAGE_UNAVAILABLE"
        assert REAL.monotonic_s() - begun_s < 20  # the usual time, for a single try, is thirty seconds


def test_an_upload_that_was_given_up_leaves_no_parts(
    artifacts: Artifacts, s3: S3Address, s3_bucket: str, s3_url: str
) -> None:
    with pytest.raises(Failure, match="ARTIFACT_TOO_LARGE"):
        artifacts.put("large", (bytes(1_000_000) for _ in range(20)), bytes_max=12_000_000)
    status, uploads = send(s3.signer(s3_bucket).sign("GET", "", expires_s=60, query={"uploads": ""}))
    assert (status, b"ListMultipartUploadsResult" in uploads) == (200, True)
    assert read_location(s3_url).prefix.encode() not in uploads


@pytest.mark.parametrize("commit", ["copy", "multipart"])
def test_large_content_is_committed_either_way(s3_url: str, commit: str) -> None:
    artifacts = Artifacts.open(f"{s3_url}&commit={commit}")
    assert artifacts.put("large", bytes(6_000_000)).created
    assert artifacts.put("large", bytes(6_000_000)).created is False
    with pytest.raises(Failure, match="ARTIFACT_CONFLICT"):
        artifacts.put("large", b"1" * 6_000_000)
    assert artifacts.sweep(older_than_s=-3_600) == 0
