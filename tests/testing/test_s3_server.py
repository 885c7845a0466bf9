"""The S3 server for tests: one for all users, gone with the last of them however that one ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.testing.processes import wait_until
from holdfast.testing.s3 import S3Address, S3Broken, s3_server, send, shared_s3

pytestmark = pytest.mark.timeout(300)

USER = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from holdfast.testing.s3 import {server}

with {server}(Path(sys.argv[1])) as address:
    print(json.dumps(asdict(address)), flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_user(folder: Path, server: str) -> Iterator[tuple[subprocess.Popen[bytes], S3Address]]:
    """Another process that uses a server, and the address it was told."""
    program = USER.format(server=server)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield process, S3Address(**json.loads(process.stdout.readline()))
        process.kill()


def test_users_share_one_server_that_ends_with_the_last(tmp_path: Path) -> None:
    with other_user(tmp_path, "shared_s3") as (other, told):
        with shared_s3(tmp_path) as address:
            assert address == told
            other.kill()
            other.wait()
            assert address.answers(), "one user was killed, another is left"
        assert not address.answers()


def test_a_server_does_not_outlive_a_program_that_was_killed(tmp_path: Path) -> None:
    with other_user(tmp_path, "s3_server") as (other, address):
        assert address.answers()
        other.kill()
        other.wait()
        wait_until(lambda: not address.answers(), within_s=60, what="the server has ended")


def test_the_server_knows_its_own_key_only_and_leaves_no_files(tmp_path: Path) -> None:
    with s3_server(tmp_path) as address:
        stranger = replace(address, secret_access_key="another")
        assert (address.answers(), stranger.answers()) == (True, False)
        with pytest.raises(S3Broken, match="403"):
            stranger.create_bucket("some-bucket")
        address.create_bucket("some-bucket")
        assert send(address.signer("some-bucket").sign("GET", "", expires_s=60))[0] == 200
        assert send(address.signer("no-such-bucket").sign("PUT", "name", expires_s=60), b"content")[0] == 404
        (process,) = processes(address)
        variables = (process / "environ").read_text().split("\0")
        (home,) = [Path(text.removeprefix("HOME=")) for text in variables if text.startswith("HOME=")]
        assert home.is_dir()
    assert not home.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["s3.log"]


def processes(address: S3Address) -> list[Path]:
    """The processes whose command line names the server's port."""
    named = f"-s3.port={address.port}\0".encode()
    return [line.parent for line in Path("/proc").glob("[0-9]*/cmdline") if named in content(line)]


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # it ended while we looked
