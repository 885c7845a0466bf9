"""A stand-in for Google Cloud Storage on loopback. It is not the real service, only enough of its XML API.

What it takes seriously are generations: every write makes a new one, and `x-goog-if-generation-match` is obeyed, so
that of many who create an object only one can. It asks for no credentials. Faults can be switched on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from holdfast.base import REAL, utc_text

_PART = re.compile(rb"<PartNumber>(\d+)</PartNumber>")
_BODY_BYTES_MAX = 64 * 1_048_576


@dataclass(frozen=True, slots=True)
class _Object:
    content: bytes
    generation: int
    modified_us: int


@dataclass(slots=True)
class _Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class GcsStandIn:
    """The buckets of a stand-in; a bucket exists once it was made here."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self._lock = Lock()
        self._buckets: dict[str, dict[str, _Object]] = {}
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._generation = 0
        self._failures: list[int] = []
        self._lost_writes = 0

    def url(self, bucket: str, prefix: str = "") -> str:
        """The bucket, or a prefix in it, as `Artifacts.open` takes it."""
        return f"gs://{bucket}/{prefix}?endpoint={self.endpoint}&anonymous=true"

    def create_bucket(self, name: str) -> None:
        self._buckets.setdefault(name, {})

    def fail_next(self, status: int, *, times: int = 1) -> None:
        """Answer the next requests with this status and do nothing."""
        self._failures += [status] * times

    def lose_write_replies(self, times: int = 1) -> None:
        """Carry the next writes of objects out, and close the connection instead of answering."""
        self._lost_writes += times

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> _Answer | None:
        """What the service says; None when the reply is lost."""
        with self._lock:
            if self._failures:
                return _Answer(self._failures.pop(0), b"<Error><Code>ServiceUnavailable</Code></Error>")
            url = urlsplit(target)
            bucket, _, key = unquote(url.path).removeprefix("/").partition("/")
            if bucket not in self._buckets:
                return _error(404, "NoSuchBucket")
            query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
            answer = self._on_object(method, bucket, key, query, headers, body) if key else self._list(bucket, query)
            if method == "PUT" and answer.status == 200 and self._lost_writes and "uploadId" not in query:
                self._lost_writes -= 1
                return None
            return answer

    def _on_object(
        self, method: str, bucket: str, key: str, query: dict[str, str], headers: dict[str, str], body: bytes
    ) -> _Answer:
        if "uploads" in query or "uploadId" in query:
            return self._on_upload(method, bucket, key, query, body)
        if method == "PUT":
            source = headers.get("x-goog-copy-source")
            return self._copy(bucket, key, source, headers) if source else self._write(bucket, key, body, headers)
        found = self._buckets[bucket].get(key)
        if found is None:
            return _error(404, "NoSuchKey")
        if method == "DELETE":
            del self._buckets[bucket][key]
            return _Answer(204)
        return _Answer(200, found.content, _described(found))

    def _write(self, bucket: str, key: str, content: bytes, headers: dict[str, str]) -> _Answer:
        there = self._buckets[bucket].get(key)
        wanted = headers.get("x-goog-if-generation-match")
        if wanted is not None and int(wanted) != (there.generation if there else 0):
            return _error(412, "PreconditionFailed")
        self._generation += 1
        self._buckets[bucket][key] = _Object(content, self._generation, REAL.wall_us())
        return _Answer(200, headers=_described(self._buckets[bucket][key]))

    def _copy(self, bucket: str, key: str, source: str, headers: dict[str, str]) -> _Answer:
        from_bucket, _, from_key = unquote(source).removeprefix("/").partition("/")
        found = self._buckets.get(from_bucket, {}).get(from_key)
        return self._write(bucket, key, found.content, headers) if found else _error(404, "NoSuchKey")

    def _on_upload(self, method: str, bucket: str, key: str, query: dict[str, str], body: bytes) -> _Answer:
        upload = query.get("uploadId", "")
        if "uploads" in query:
            upload = REAL.token_bytes(8).hex()
            self._uploads[upload] = {}
            told = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            return _Answer(200, told.encode())
        parts = self._uploads.get(upload)
        if parts is None:
            return _error(404, "NoSuchUpload")
        if method == "PUT":
            parts[int(query["partNumber"])] = body
            return _Answer(200, headers={"ETag": f'"{len(parts)}"'})
        del self._uploads[upload]
        if method == "DELETE":
            return _Answer(204)
        whole = b"".join(parts[int(number)] for number in _PART.findall(body))
        etag = self._write(bucket, key, whole, {}).headers["ETag"]
        told = f"<CompleteMultipartUploadResult><ETag>{escape(etag)}</ETag></CompleteMultipartUploadResult>"
        return _Answer(200, told.encode())

    def _list(self, bucket: str, query: dict[str, str]) -> _Answer:
        prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", "")
        count = int(query.get("max-keys", "1000"))
        names = [name for name in sorted(self._buckets[bucket]) if name.startswith(prefix) and name > after]
        listed = "".join(_listed(name, self._buckets[bucket][name]) for name in names[:count])
        more = f"<NextContinuationToken>{escape(names[count - 1])}</NextContinuationToken>" if names[count:] else ""
        return _Answer(200, f"<ListBucketResult>{more}{listed}</ListBucketResult>".encode())


@contextmanager
def gcs_standin() -> Iterator[GcsStandIn]:
    """A stand-in that listens while the block lasts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Requests) as server:
        server.daemon_threads = True
        _Requests.standins[server.server_port] = standin = GcsStandIn(server.server_port)
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        serving.start()
        try:
            yield standin
        finally:
            server.shutdown()
            serving.join()
            del _Requests.standins[server.server_port]


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    standins: dict[int, GcsStandIn] = {}  # noqa: RUF012 - shared by the servers of this process

    def _respond(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _BODY_BYTES_MAX:
            self.send_error(413)
            return
        standin = self.standins[self.server.server_address[1]]  # type: ignore[index]  # bound to an IPv4 address
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = standin.answer(self.command, self.path, headers, self.rfile.read(length))
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in ({"Content-Length": str(len(answer.body))} | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _respond  # noqa: N815 - the names that http.server looks for

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _error(status: int, code: str) -> _Answer:
    return _Answer(status, f"<Error><Code>{code}</Code></Error>".encode())


def _described(found: _Object) -> dict[str, str]:
    from email.utils import formatdate

    return {
        "ETag": f'"{found.generation}"',
        "x-goog-generation": str(found.generation),
        "Last-Modified": formatdate(found.modified_us / 1_000_000, usegmt=True),
    }


def _listed(name: str, found: _Object) -> str:
    return (
        f"<Contents><Key>{escape(name)}</Key><Size>{len(found.content)}</Size><ETag>{found.generation}</ETag>"
        f"<LastModified>{utc_text(found.modified_us)}</LastModified></Contents>"
    )
