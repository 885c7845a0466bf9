"""The limits of the server, with real connections: half-open, slow, unread, too many, out of file descriptors."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.client import HTTPResponse
from typing import Any

import pytest

from holdfast.base import World, replaced, world
from holdfast.http import connection_limits, descriptors
from holdfast.http.front import Front, Mount
from holdfast.http.repeated_logs import Repeated
from holdfast.http.server import BACKLOG, Server
from holdfast.testing.ports import listening_socket
from holdfast.testing.processes import wait_until

WAIT_S = 30.0
GET = b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: shop\r\nContent-Length: 100000\r\n\r\n"


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: shop\r\n\r\n"
asked: list[str] = []


async def app(scope: Any, receive: Any, send: Any) -> None:
    asked.append(scope["path"])
    if scope["path"] == "/refused":
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
        return await send({"type": "http.response.body", "body": b""})
    while (await receive()).get("more_body"):
        pass
    size = 50_000_000 if scope["path"] == "/large" else 2
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
    return await send({"type": "http.response.body", "body": b"x" * size})


@contextmanager
def serving(**changed: Any) -> Iterator[int]:
    """The server in a thread, with these limits; its port."""
    with served(**changed) as (port, _):
        yield port


@contextmanager
def served(**changed: Any) -> Iterator[tuple[int, Server]]:
    here = world()
    told = World(limits=replace(here.limits, **changed))
    ready = threading.Event()
    servers: list[Server] = []

    def run(listener: socket.socket) -> None:
        async def serve() -> None:
            server = Server(Front([Mount(path="", app=app)]), stop_s_max=1)
            servers.append(server)
            ready.set()
            await server.serve(sockets=[listener])

        with replaced(told):
            asyncio.run(serve())

    with listening_socket() as listener:
        thread = threading.Thread(target=run, args=(listener,), daemon=True)
        thread.start()
        assert ready.wait(WAIT_S)
        try:
            yield int(listener.getsockname()[1]), servers[0]
        finally:
            servers[0].should_exit = True
            thread.join(WAIT_S)


def connect(port: int, sent: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
    connection.sendall(sent)
    return connection


def status(connection: socket.socket) -> int:
    """The status of the next reply, which is read whole."""
    response = HTTPResponse(connection)
    response.begin()
    response.read()
    return response.status


def rest(connection: socket.socket) -> bytes:
    """Everything that still comes, until the server closes."""
    parts = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def refused(size: int) -> bytes:
    """The beginning of a request that is answered before any of its body is read."""
    return b"POST /refused HTTP/1.1\r\nHost: shop\r\nContent-Length: %d\r\n\r\nx" % size


def test_a_large_body_that_nobody_reads_is_not_received_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "UNREAD_PAUSE_S", 3_600.0)
    with served() as (port, server):
        with connect(port, refused(1_000_000)) as large:
            assert status(large) == 401
            (held,) = server.server_state.connections
            wait_until(lambda: held.flow.read_paused, within_s=WAIT_S, what="the rest is left where it is")
        with connect(port, refused(1_000)) as small:
            assert status(small) == 401
            small.sendall(b"x" * 999 + GET)
            assert status(small) == 200, "a small one is received, and the connection goes on"


def test_the_rest_of_it_is_received_after_a_while_and_the_connection_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "UNREAD_PAUSE_S", 0.01)
    with serving() as port, connect(port, refused(1_000_000)) as large:
        assert status(large) == 401
        large.sendall(b"x" * 999_999 + GET)
        assert status(large) == 200


def test_half_open_connections_do_not_live_for_ever() -> None:
    with serving(headers_s_max=0.3) as port, ExitStack() as stack:
        silent = [stack.enter_context(connect(port)) for _ in range(50)]
        begun = [stack.enter_context(connect(port, GET[:-2])) for _ in range(50)]
        assert {rest(one) for one in silent} == {b""}
        assert {rest(one).split(b"\r\n")[0] for one in begun} == {b"HTTP/1.1 408 Request Timeout"}


def test_headers_that_drip_are_not_waited_for() -> None:
    with serving(headers_s_max=0.5) as port, connect(port) as slow:
        stop = threading.Event()

        def drip() -> None:
            for byte in GET * 100:
                if stop.wait(0.05):
                    return
                try:
                    slow.sendall(bytes([byte]).replace(b"\n", b"x").replace(b"\r", b"x"))
                except OSError:
                    return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        answer = rest(slow)
        stop.set()
        thread.join(WAIT_S)
    assert answer.startswith(b"HTTP/1.1 408")


def test_a_second_request_that_drips_on_a_kept_connection_is_not_waited_for() -> None:
    with serving(headers_s_max=0.3) as port, connect(port, GET) as kept:
        assert status(kept) == 200
        kept.sendall(b"GET / HT")
        assert b"HTTP/1.1 408" in rest(kept)


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    with serving(body_s_max=0.3, body_bytes_per_s_min=1_000_000) as port, connect(port, POST + b"x" * 10) as slow:
        assert rest(slow) == b""


def test_a_body_that_keeps_coming_is_waited_for() -> None:
    with serving(body_s_max=0.2, body_bytes_per_s_min=10_000) as port, connect(port, POST) as steady:
        pause = threading.Event()
        for _ in range(10):
            steady.sendall(b"x" * 10_000)
            pause.wait(0.06)
        assert status(steady) == 200


def test_a_reply_that_is_not_read_is_given_up() -> None:
    with (
        served(unread_s_max=0.3) as (port, server),
        connect(port, GET.replace(b"/ ", b"/large ")) as unread,
    ):
        connections = server.server_state.connections
        wait_until(lambda: bool(connections), within_s=WAIT_S, what="it is served")
        wait_until(lambda: not connections, within_s=WAIT_S, what="it is closed")
        assert len(rest(unread)) < 50_000_000


def test_an_idle_connection_is_closed_after_the_time_between_requests() -> None:
    with serving(keep_alive_s=1.0) as port, connect(port, GET) as kept:
        assert status(kept) == 200
        assert rest(kept) == b""


def test_one_connection_too_many_is_told_so_and_closed(caplog: pytest.LogCaptureFixture) -> None:
    with serving(connections_max=20) as port, ExitStack() as stack:
        kept = [stack.enter_context(connect(port, GET)) for _ in range(20)]
        assert all(status(one) == 200 for one in kept)
        refused = [rest(stack.enter_context(connect(port))) for _ in range(30)]
        kept[0].close()
        wait_until(lambda: _answers(port), within_s=WAIT_S, what="a place is free again")
        kept[1].sendall(GET)
        assert status(kept[1]) == 200
    assert {one.split(b"\r\n")[0] for one in refused} == {b"HTTP/1.1 503 Service Unavailable"}
    assert all(b"retry-after: 1\r\n" in one for one in refused)
    lines = [one for one in caplog.records if "refused" in one.getMessage()]
    assert len(lines) == 1


def _answers(port: int) -> bool:
    with connect(port, GET) as one:
        try:
            return status(one) == 200
        except OSError:
            return False


def test_without_descriptors_few_lines_are_written_and_the_server_comes_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[str] = []
    passes = Repeated.filter

    def counted(self: Repeated, record: logging.LogRecord) -> bool:
        failures.append(record.getMessage())
        return passes(self, record)

    monkeypatch.setattr(Repeated, "filter", counted)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with serving() as port, ExitStack() as stack:
        waiting = [stack.enter_context(socket.socket()) for _ in range(30)]
        for one in waiting:
            one.settimeout(WAIT_S)
        highest = max(one.fileno() for one in waiting)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        try:
            for one in waiting:
                one.connect(("127.0.0.1", port))
            # Two rounds of failures to accept, a second apart.
            wait_until(lambda: len(failures) > BACKLOG, within_s=WAIT_S, what="accepting fails again and again")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        wait_until(lambda: _answers(port), within_s=WAIT_S, what="connections are accepted again")
    assert len([one for one in caplog.records if "out of system resource" in one.getMessage()]) == 1


def test_connections_leave_descriptors_for_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, allowed in ((1_024, 768), (100, 50), (65_536, 65_280)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert descriptors.connections_allowed() == allowed
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    assert connection_limits.connections_max() == 50


def test_a_line_that_repeats_is_written_once_in_a_while_and_says_how_often() -> None:
    at_s = [0.0]
    repeated = Repeated()

    def passes(line: str) -> str | None:
        record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 0, line, None, None)
        return record.getMessage() if repeated.filter(record) else None

    with replaced(World(monotonic_s=lambda: at_s[0])):
        assert [passes("Invalid HTTP request received.") for _ in range(337)] == [
            "Invalid HTTP request received.",
            *[None] * 336,
        ]
        assert passes("another") == "another"
        at_s[0] = 11.0
        assert passes("Invalid HTTP request received.") == "Invalid HTTP request received. (336 more like this)"


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Content-Length: 5\r\nContent-Length: 50",
        b"Content-Length: 5, 50",
        b"Content-Length: +5",
        b"Content-Length : 5",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: identity, chunked",
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    ],
)
def test_a_request_whose_length_is_doubtful_is_refused_and_what_follows_is_not_read(lengths: bytes) -> None:
    asked.clear()
    doubtful = b"POST /first HTTP/1.1\r\nHost: shop\r\n" + lengths + b"\r\n\r\n0\r\n\r\n"
    with serving() as port, connect(port, doubtful + SMUGGLED) as connection:
        answer = rest(connection)
    assert answer[:10] in {b"HTTP/1.1 4", b"HTTP/1.1 5"}
    assert answer.count(b"HTTP/1.1") == 1
    assert asked == []
