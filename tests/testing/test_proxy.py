"""The proxy that breaks connections, between real clients and real servers."""

from __future__ import annotations

import asyncio
import gc
import socket
import socketserver
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from holdfast.base import REAL
from holdfast.testing.postgres import PostgresAddress, PostgresServer
from holdfast.testing.proxy import COMMIT, FaultProxy


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer.start(tmp_path_factory.mktemp("postgres"), fsync=False) as running:
        yield running


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[FaultProxy]:
    server.execute("DROP TABLE IF EXISTS ledger")
    server.execute("CREATE TABLE ledger (number int)")
    with FaultProxy(server.port) as running:
        yield running
    assert not running._thread.is_alive()


def connect(proxy: FaultProxy, *, autocommit: bool = False) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(PostgresAddress(proxy.port).dsn(), autocommit=autocommit)


def rows(server: PostgresServer) -> int:
    return int(server.execute("SELECT count(*) FROM ledger")[0][0])


def test_without_faults_every_byte_passes(proxy: FaultProxy) -> None:
    with connect(proxy) as connection:
        text = connection.execute("SELECT string_agg(n::text, ',') FROM generate_series(1, 300000) n").fetchone()
    assert text == (",".join(str(number) for number in range(1, 300_001)),)


def test_a_commit_whose_reply_is_lost_did_happen(proxy: FaultProxy, server: PostgresServer) -> None:
    with connect(proxy) as connection:
        connection.execute("INSERT INTO ledger VALUES (1)")
        proxy.set(lose_reply=COMMIT, times=1)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        assert connection.closed
    assert proxy.triggered == 1
    assert rows(server) == 1
    with connect(proxy) as connection:
        connection.execute("INSERT INTO ledger VALUES (2)")
    assert rows(server) == 2


def test_a_commit_that_is_lost_on_its_way_did_not_happen(proxy: FaultProxy, server: PostgresServer) -> None:
    with connect(proxy) as connection:
        connection.execute("INSERT INTO ledger VALUES (1)")
        proxy.set(lose_request=COMMIT)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    proxy.wait_triggered(within_s=60)
    assert rows(server) == 0


def test_the_reply_to_a_prepared_statement_is_lost_too(proxy: FaultProxy, server: PostgresServer) -> None:
    with connect(proxy, autocommit=True) as connection:
        for number in range(3):
            connection.execute("INSERT INTO ledger VALUES (%s)", (number,), prepare=True)
        proxy.set(lose_reply="insert into ledger")
        assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("INSERT INTO ledger VALUES (%s)", (3,), prepare=True)
    assert rows(server) == 4


def test_of_a_pipeline_only_the_part_after_the_lost_reply_did_not_happen(
    proxy: FaultProxy, server: PostgresServer
) -> None:
    with connect(proxy, autocommit=True) as connection:
        proxy.set(lose_reply=r"values \(2\)")
        with pytest.raises(psycopg.OperationalError):
            pipelined(connection, 1, 2, 3)
    assert sorted(server.execute("SELECT number FROM ledger")) == [(1,), (2,)]


def pipelined(connection: psycopg.Connection[tuple[object, ...]], *numbers: int) -> None:
    with connection.pipeline() as pipeline:
        for number in numbers:
            connection.execute(f"INSERT INTO ledger VALUES ({number})".encode())
            pipeline.sync()


def test_a_word_in_another_statement_is_no_commit(proxy: FaultProxy) -> None:
    proxy.set(lose_reply=COMMIT)
    with connect(proxy, autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE brief (note text) ON COMMIT PRESERVE ROWS")
        connection.execute("INSERT INTO brief VALUES ('commit; end')")
        assert proxy.triggered == 0
        with pytest.raises(psycopg.OperationalError):
            connection.execute("BEGIN; INSERT INTO brief VALUES ('; '); End")
    assert proxy.triggered == 1


def test_new_connections_lead_to_the_new_upstream(proxy: FaultProxy, echo: int) -> None:
    proxy.upstream = ("127.0.0.1", echo)
    with dialled(proxy) as client:
        assert spoken(client, b"hello") == b"hello"


async def test_an_async_client_sees_the_same_faults(proxy: FaultProxy, server: PostgresServer) -> None:
    connection = await psycopg.AsyncConnection.connect(PostgresAddress(proxy.port).dsn())
    async with connection:
        await connection.execute("INSERT INTO ledger VALUES (1)")
        proxy.set(lose_reply=COMMIT)
        with pytest.raises(psycopg.OperationalError):
            await connection.commit()
    assert await asyncio.to_thread(rows, server) == 1


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        try:
            while data := self.request.recv(65_536):
                self.request.sendall(data)
        except ConnectionError:
            return


@pytest.fixture
def echo() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running.server_address[1]
        running.shutdown()
        thread.join()


@pytest.fixture
def line(echo: int) -> Iterator[FaultProxy]:
    with FaultProxy(echo) as running:
        yield running


def dialled(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=60)


def spoken(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    return client.recv(65_536)


def whatever_comes(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65_536), b""))


def test_a_reset_strikes_open_and_new_connections(line: FaultProxy) -> None:
    with dialled(line) as client:
        assert spoken(client, b"hello") == b"hello"
        line.set(reset=True)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    # The reset may come as early as the connect itself.
    with pytest.raises(ConnectionError), dialled(line) as client:
        spoken(client, b"hello")
    line.heal()
    with dialled(line) as client:
        assert spoken(client, b"hello") == b"hello"


def test_open_connections_alone_can_be_reset(line: FaultProxy) -> None:
    with dialled(line) as old:
        assert spoken(old, b"hello") == b"hello"
        line.reset_connections()
        with pytest.raises(ConnectionResetError):
            old.recv(1)
        with dialled(line) as new:
            assert spoken(new, b"hello") == b"hello"


def test_connections_that_end_by_themselves_at_that_moment_do_not_stop_a_reset(line: FaultProxy) -> None:
    async def ended_and_reset() -> None:
        for connection in line._traffic.connections:
            assert connection._task is not None
            connection._task.cancel()
        await line._reset()

    with dialled(line) as one, dialled(line) as other:
        assert spoken(one, b"hello") == spoken(other, b"hello") == b"hello"
        line._call(ended_and_reset())
        assert line.open_connections == 0


def test_a_half_open_connection_stays_silent_until_it_is_healed(line: FaultProxy) -> None:
    with dialled(line) as old:
        assert spoken(old, b"hello") == b"hello"
        line.set(half_open=True)
        with dialled(line) as new:
            for client in (old, new):
                client.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    spoken(client, b"anyone?")
            line.heal()
            for client in (old, new):
                client.settimeout(60)
                assert client.recv(100) == b"anyone?"


def test_nobody_listens_while_connections_are_refused(line: FaultProxy) -> None:
    with dialled(line) as old:
        assert spoken(old, b"hello") == b"hello"
        line.set(refuse=True)
        with pytest.raises(ConnectionRefusedError):
            dialled(line)
        assert spoken(old, b"still here") == b"still here"
    line.heal()
    with dialled(line) as new:
        assert spoken(new, b"hello") == b"hello"


def test_a_connection_that_is_made_while_listening_ends_is_served_or_closed(line: FaultProxy) -> None:
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(300):
            with dialled(line) as client:
                line.set(refuse=True)
                client.settimeout(60)
                with suppress(ConnectionError):
                    assert spoken(client, b"hello") in {b"hello", b""}
            line.heal()
        gc.collect()
    assert [str(warning.message) for warning in unclosed] == []


@pytest.mark.parametrize("limit", [0, 1, 5, 99])
def test_a_connection_is_cut_after_exactly_so_many_bytes(line: FaultProxy, limit: int) -> None:
    with dialled(line) as client:
        assert spoken(client, b"hello") == b"hello"
        line.set(cut_after_bytes=limit, times=1)
        client.sendall(b"x" * 100)
        assert whatever_comes(client) == b"x" * limit
    assert line.triggered == 1
    with dialled(line) as client:
        assert spoken(client, b"hello") == b"hello"


def test_a_request_is_held_back_for_the_delay(line: FaultProxy) -> None:
    line.set(delay_s=0.2)
    with dialled(line) as client:
        begun_s = REAL.monotonic_s()
        assert spoken(client, b"hello") == b"hello"
        assert REAL.monotonic_s() - begun_s >= 0.19  # a loop may round its clock to milliseconds


def test_the_reply_to_a_request_of_any_protocol_is_lost(line: FaultProxy) -> None:
    line.set(lose_reply="^POST /charge", times=1)
    with dialled(line) as client:
        client.sendall(b"POST /charge HTTP/1.1\r\n\r\n")
        assert whatever_comes(client) == b""
    assert line.triggered == 1


def test_a_pattern_may_begin_in_one_piece_and_end_in_the_next(line: FaultProxy) -> None:
    line.set(lose_request="charge")
    with dialled(line) as client:
        assert spoken(client, b"POST /cha") == b"POST /cha"
        client.sendall(b"rge HTTP/1.1\r\n\r\n")
        assert whatever_comes(client) == b""


def test_a_client_of_an_upstream_that_is_away_is_turned_away(line: FaultProxy) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        line.upstream = nobody.getsockname()
        with dialled(line) as client:
            assert whatever_comes(client) == b""


def test_an_unknown_fault_is_refused(line: FaultProxy) -> None:
    with pytest.raises(TypeError, match="explode"):
        line.set(explode=True)


def test_connections_are_counted_while_they_are_open(line: FaultProxy) -> None:
    with dialled(line) as client:
        assert spoken(client, b"hello") == b"hello"
        assert line.open_connections == 1
