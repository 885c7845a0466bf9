"""The gateway as a command: where it listens, what its log says, and what a connection may cost."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from holdfast.testing.processes import wait_until
from holdfast_systems.conversion.tests import pdfs

PATIENCE_S = 60.0
ANNOUNCED = "The conversion gateway is running at "


@contextmanager
def gateway(log: Path, *options: str, **environment: str) -> Iterator[str]:
    """A gateway of one process, whose standard error goes to this file; the address that it prints."""
    command = [sys.executable, "-m", "holdfast_systems.conversion.gateway", "--processes", "1", *options]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **environment})
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith(ANNOUNCED), log.read_text()
        yield line.removeprefix(ANNOUNCED).strip()
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        process.stdout.close()


def convert(address: str, content: bytes, mapping: str = "text") -> int:
    reply = httpx.post(f"{address}/convert", params={"mapping": mapping}, content=content, timeout=PATIENCE_S)
    return reply.status_code


def test_it_listens_where_it_is_told_to(tmp_path: Path) -> None:
    with gateway(tmp_path / "log", "--host", "127.0.0.2") as address:
        assert address.startswith("http://127.0.0.2:")
        assert httpx.get(f"{address}/health", timeout=PATIENCE_S).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{address.rpartition(':')[2]}/health", timeout=PATIENCE_S)
    assert "let only the workers reach it" not in (tmp_path / "log").read_text()


def test_on_every_address_it_says_who_may_convert(tmp_path: Path) -> None:
    with gateway(tmp_path / "log", "--host", "0.0.0.0") as address:
        assert address.startswith("http://127.0.0.1:")
        assert convert(address, pdfs.pdfium()) == 200
    assert "every client that reaches 0.0.0.0 may convert" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("to_file", [True, False])
def test_its_log_says_how_each_conversion_went(tmp_path: Path, to_file: bool) -> None:
    log = tmp_path / "log"
    options = ["--log", str(tmp_path / "gateway.log")] if to_file else []
    with gateway(log, *options) as address:
        assert convert(address, pdfs.reportlab(pages=3)) == 200
        assert convert(address, pdfs.encrypted("secret")) == 415
        assert convert(address, pdfs.pdfium(), "nothing") == 406
    lines = (tmp_path / "gateway.log" if to_file else log).read_text().splitlines()
    told = [re.sub(r"^\S+ \S+ |trace=[0-9a-f]{32} |\d+\.\d{3}", "", line) for line in lines]
    assert told[0].startswith(f"INFO started at {address}: 1 processes")
    assert told[1].startswith("INFO converted: pages=3 result_bytes=")
    assert told[1].endswith("mapping='text' in  s")
    assert told[2].startswith("INFO refused: 415 PDF_ENCRYPTED: ")
    assert told[3].startswith("INFO refused: 406 UNSUPPORTED_MAPPING: ")
    assert told[4:] == ["INFO stopped"]


def test_more_connections_than_allowed_are_told_so(tmp_path: Path) -> None:
    with gateway(tmp_path / "log", HOLDFAST_LIMIT_CONNECTIONS_MAX="2") as address:
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        idle = [socket.create_connection(place, timeout=PATIENCE_S) for _ in range(2)]
        try:
            with socket.create_connection(place, timeout=PATIENCE_S) as third:
                assert third.recv(1_000).startswith(b"HTTP/1.1 503")
        finally:
            for one in idle:
                one.close()
        wait_until(lambda: convert(address, pdfs.pdfium()) == 200, within_s=PATIENCE_S, what="there is a place again")


def test_a_connection_that_sends_nothing_is_closed(tmp_path: Path) -> None:
    with gateway(tmp_path / "log", HOLDFAST_LIMIT_HEADERS_S_MAX="0.2") as address:
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=PATIENCE_S) as idle:
            idle.sendall(b"POST /convert HTTP/1.1\r\nHost:")
            received = b""
            while piece := idle.recv(1_000):
                received += piece
        assert received.startswith(b"HTTP/1.1 408")
