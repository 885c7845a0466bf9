"""A file as the body of a request: sent as it is, read a piece at a time, and anew for every attempt."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.http import ANYWHERE, FileBody, HttpClient
from holdfast.http.asgi import Reply, give
from holdfast.http.wire import PIECE_BYTES_MAX

from .edge_servers import served

SIZES = (0, 1, PIECE_BYTES_MAX, PIECE_BYTES_MAX + 1, 5 * PIECE_BYTES_MAX + 7)


class Upstream:
    """Answers with the digest of what it was sent."""

    def __init__(self) -> None:
        self.lengths: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.lengths.append(headers["content-length"])
        digest = hashlib.sha256()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            digest.update(message.get("body", b""))
            if not message.get("more_body"):
                break
        await give(Reply(body=digest.hexdigest().encode(), content_type="text/plain"), send, head=False)


@pytest.fixture
def upstream() -> Iterator[tuple[Upstream, str]]:
    app = Upstream()
    with served(app) as port:
        yield app, f"http://127.0.0.1:{port}/"


@pytest.mark.parametrize("size", SIZES)
async def test_a_file_arrives_as_it_is(tmp_path: Path, upstream: tuple[Upstream, str], size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    (tmp_path / "file").write_bytes(content)
    app, url = upstream
    async with HttpClient(reach=ANYWHERE) as client:
        body = FileBody(tmp_path / "file")
        for _ in range(2):  # a body may be sent again
            reply = await client.send("POST", url, body=body)
            assert reply.body.decode() == hashlib.sha256(content).hexdigest()
    assert app.lengths == [str(size)] * 2


def test_blocking_code_sends_files_too(tmp_path: Path, upstream: tuple[Upstream, str]) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3 * PIECE_BYTES_MAX)
    client = HttpClient(reach=ANYWHERE).sync
    try:
        reply = client.send("POST", upstream[1], body=FileBody(tmp_path / "file"))
    finally:
        client.close()
    assert reply.body.decode() == hashlib.sha256(b"x" * 3 * PIECE_BYTES_MAX).hexdigest()


async def test_no_more_than_a_piece_is_read_at_once_and_not_on_the_loop(
    tmp_path: Path, upstream: tuple[Upstream, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x" * 4 * PIECE_BYTES_MAX)
    read, here = FileBody.piece, threading.get_ident()
    sizes: list[int] = []

    def noted(body: FileBody, start: int, size: int) -> bytes:
        assert threading.get_ident() != here
        sizes.append(size)
        return read(body, start, size)

    monkeypatch.setattr(FileBody, "piece", noted)
    async with HttpClient(reach=ANYWHERE) as client:
        await client.send("POST", upstream[1], body=FileBody(tmp_path / "file"))
    assert sizes == [PIECE_BYTES_MAX] * 4


async def test_a_file_that_becomes_shorter_is_a_failure_and_nobody_waits(
    tmp_path: Path, upstream: tuple[Upstream, str]
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 4 * PIECE_BYTES_MAX)
    body = FileBody(file)
    file.write_bytes(b"x")
    async with HttpClient(reach=ANYWHERE) as client:
        with pytest.raises(Failure, match="CONNECTION_RESET"):
            await client.send("POST", upstream[1], body=body)


def test_a_file_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileBody(tmp_path / "none")
