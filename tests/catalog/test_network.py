"""Network errors, made by real sockets where one machine can make them."""

from __future__ import annotations

import asyncio
import errno
import http.client
import shutil
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.catalog.classify import DEFAULT_CLASSIFIER, Classifier
from holdfast.catalog.core import CONNECTION_REFUSED

PATIENCE_S = 60.0


def code_of(error: BaseException) -> str:
    return DEFAULT_CLASSIFIER.classify(error).code


def foreign(name: str, *bases: type[BaseException]) -> type[BaseException]:
    module, _, short = name.rpartition(".")
    return type(short, bases or (Exception,), {"__module__": module})


@contextmanager
def served(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A loopback server that gives one connection to `answer`; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)

        def run() -> None:
            connection, _ = server.accept()
            with connection:
                answer(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield server.getsockname()[1]
        thread.join(PATIENCE_S)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port where nobody listens, at any address, and which nobody else is given meanwhile."""
    with socket.socket() as bound:
        bound.bind(("", 0))
        yield int(bound.getsockname()[1])


# -- real sockets ----------------------------------------------------------------------------------------------


def test_a_refused_connection_is_retryable(closed_port: int) -> None:
    with pytest.raises(OSError) as raised:
        socket.create_connection(("127.0.0.1", closed_port), timeout=PATIENCE_S)
    failure = DEFAULT_CLASSIFIER.classify(raised.value)
    assert (failure.code, failure.retryable) == ("CONNECTION_REFUSED", True)


async def test_a_connection_refused_at_several_addresses_is_refused(closed_port: int) -> None:
    resolved = [
        (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, closed_port))
        for address in ("127.0.0.1", "127.0.0.2")
    ]
    loop = asyncio.get_running_loop()

    async def resolve(*_: object, **__: object) -> list[object]:
        return list(resolved)

    loop.getaddrinfo = resolve  # type: ignore[assignment,method-assign]
    with pytest.raises(OSError) as raised:
        await loop.create_connection(asyncio.Protocol, "several", closed_port)
    assert raised.value.errno is None
    assert code_of(raised.value) == "CONNECTION_REFUSED"


def test_a_name_that_does_not_resolve_is_retryable() -> None:
    with pytest.raises(socket.gaierror) as raised:
        socket.getaddrinfo("no-such-host.invalid", 80, flags=socket.AI_NUMERICHOST)
    failure = DEFAULT_CLASSIFIER.classify(raised.value)
    assert (failure.code, failure.retryable) == ("DNS_FAILED", True)


def test_a_silent_peer_is_a_timeout_and_retryable() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.001)
        with pytest.raises(OSError) as raised:
            ours.recv(1)
    failure = DEFAULT_CLASSIFIER.classify(raised.value)
    assert (failure.code, failure.retryable) == ("NETWORK_TIMEOUT", True)


async def test_an_asyncio_timeout_is_a_timeout() -> None:
    with pytest.raises(TimeoutError) as raised:
        await asyncio.wait_for(asyncio.Event().wait(), 0)
    assert code_of(raised.value) == "NETWORK_TIMEOUT"


def test_a_peer_that_has_hung_up_is_a_reset_and_retryable() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(OSError) as raised:
        ours.send(b"hello")
    failure = DEFAULT_CLASSIFIER.classify(raised.value)
    assert (failure.code, failure.retryable) == ("CONNECTION_RESET", True)


async def test_a_stream_that_ends_early_is_a_reset() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"ab")
    reader.feed_eof()
    with pytest.raises(asyncio.IncompleteReadError) as raised:
        await reader.readexactly(3)
    assert code_of(raised.value) == "CONNECTION_RESET"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "CONNECTION_RESET"),
        (b"nonsense\r\n\r\n", "INVALID_RESPONSE"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", "CONNECTION_RESET"),
    ],
    ids=["hangs up", "speaks no HTTP", "cuts the body off"],
)
def test_a_server_that_misbehaves_is_read_by_what_it_did(answer: bytes, code: str) -> None:
    def misbehave(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(answer)

    with served(misbehave) as port:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        client.request("GET", "/")
        with pytest.raises((OSError, http.client.HTTPException)) as raised:
            client.getresponse().read()
        client.close()
    assert code_of(raised.value) == code


def test_urllib_is_read_by_its_reason(closed_port: int) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises(urllib.error.URLError) as raised:
        opener.open(f"http://127.0.0.1:{closed_port}/", timeout=PATIENCE_S)
    assert code_of(raised.value) == "CONNECTION_REFUSED"
    assert code_of(urllib.error.URLError("unknown url type: gopher")) == "UNKNOWN"


# -- TLS -------------------------------------------------------------------------------------------------------


def shake_hands(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        ssl.create_default_context().wrap_socket(connection, server_hostname="localhost")


def test_a_peer_that_speaks_no_tls_is_a_tls_error_and_not_retried() -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with served(answer) as port, pytest.raises(ssl.SSLError) as raised:
        shake_hands(port)
    failure = DEFAULT_CLASSIFIER.classify(raised.value)
    assert (failure.code, failure.retryable) == ("TLS_ERROR", False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    chain, key = folder / "chain.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    subprocess.run([*command.split(), "-keyout", key, "-out", chain], check=True, capture_output=True)
    return chain, key


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with the openssl command")
def test_a_certificate_nobody_trusts_is_a_tls_error_and_not_retried(certificate: tuple[Path, Path]) -> None:
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*certificate)

    def answer(connection: socket.socket) -> None:
        with suppress(OSError), server_side.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1)  # the client hangs up here or in the handshake

    with served(answer) as port, pytest.raises(ssl.SSLCertVerificationError) as raised:
        shake_hands(port)
    failure = DEFAULT_CLASSIFIER.classify(raised.value)
    assert (failure.code, failure.retryable) == ("TLS_ERROR", False)
    assert code_of(urllib.error.URLError(raised.value)) == "TLS_ERROR"


def test_a_connection_that_ends_in_the_handshake_is_a_reset() -> None:
    def hang_up(connection: socket.socket) -> None:
        connection.recv(4096)

    with served(hang_up) as port, pytest.raises(OSError) as raised:
        shake_hands(port)
    assert code_of(raised.value) == "CONNECTION_RESET"


# -- tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ECONNREFUSED, "CONNECTION_REFUSED"),
        (errno.ENETUNREACH, "CONNECTION_REFUSED"),
        (errno.EHOSTUNREACH, "CONNECTION_REFUSED"),
        (errno.ECONNRESET, "CONNECTION_RESET"),
        (errno.EPIPE, "CONNECTION_RESET"),
        (errno.ECONNABORTED, "CONNECTION_RESET"),
        (errno.ENOTCONN, "CONNECTION_RESET"),
        (errno.ETIMEDOUT, "NETWORK_TIMEOUT"),
        (errno.ENOSPC, "STORAGE_FULL"),
        (errno.EDQUOT, "STORAGE_FULL"),
        (errno.ENOENT, "UNKNOWN"),
        (errno.EACCES, "UNKNOWN"),
        (errno.EMFILE, "UNKNOWN"),
    ],
)
def test_an_os_error_is_read_by_its_number(number: int, code: str) -> None:
    assert code_of(OSError(number, "text")) == code


def test_an_os_error_without_a_number_is_read_by_its_cause() -> None:
    alone, several = OSError("all attempts failed"), OSError("all attempts failed")
    alone.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    several.__cause__ = ExceptionGroup("attempts", [OSError(errno.EHOSTUNREACH, "no route"), OSError("odd")])
    assert code_of(alone) == code_of(several) == "CONNECTION_REFUSED"
    assert code_of(OSError("nothing")) == "UNKNOWN"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectionError(), "CONNECTION_RESET"),
        (BrokenPipeError(), "CONNECTION_RESET"),
        (ConnectionAbortedError(), "CONNECTION_RESET"),
        (socket.herror(1, "host not found"), "DNS_FAILED"),
        (ssl.SSLError(1, "wrong version number"), "TLS_ERROR"),
        (ssl.SSLZeroReturnError(), "CONNECTION_RESET"),
        (http.client.RemoteDisconnected(), "CONNECTION_RESET"),
        (EOFError(), "UNKNOWN"),
        (http.client.InvalidURL(), "UNKNOWN"),
    ],
)
def test_the_standard_librarys_errors_are_read_by_type(error: BaseException, code: str) -> None:
    assert code_of(error) == code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("aiohttp.client_exceptions.ClientConnectorDNSError", "DNS_FAILED"),
        ("aiohttp.client_exceptions.ClientConnectorError", "CONNECTION_REFUSED"),
        ("aiohttp.client_exceptions.ClientSSLError", "TLS_ERROR"),
        ("aiohttp.client_exceptions.ServerFingerprintMismatch", "TLS_ERROR"),
        ("aiohttp.client_exceptions.ServerTimeoutError", "NETWORK_TIMEOUT"),
        ("aiohttp.client_exceptions.ClientPayloadError", "CONNECTION_RESET"),
        ("httpx.TimeoutException", "NETWORK_TIMEOUT"),
        ("httpx.ConnectError", "CONNECTION_REFUSED"),
        ("httpx.NetworkError", "CONNECTION_RESET"),
        ("httpx.RemoteProtocolError", "CONNECTION_RESET"),
        ("httpx.DecodingError", "INVALID_RESPONSE"),
        ("httpcore.NetworkError", "CONNECTION_RESET"),
        ("requests.exceptions.Timeout", "NETWORK_TIMEOUT"),
        ("requests.exceptions.ConnectTimeout", "NETWORK_TIMEOUT"),
        ("requests.exceptions.SSLError", "TLS_ERROR"),
        ("requests.exceptions.ConnectionError", "CONNECTION_RESET"),
        ("urllib3.exceptions.NameResolutionError", "DNS_FAILED"),
        ("urllib3.exceptions.TimeoutError", "NETWORK_TIMEOUT"),
        ("botocore.exceptions.EndpointConnectionError", "CONNECTION_REFUSED"),
        ("botocore.exceptions.ReadTimeoutError", "NETWORK_TIMEOUT"),
    ],
)
def test_a_clients_error_is_known_by_name_without_importing_the_client(name: str, code: str) -> None:
    assert code_of(foreign(name)("text")) == code


def test_a_clients_error_is_read_by_what_it_wraps() -> None:
    certificate_error = ssl.SSLCertVerificationError(1, "self-signed")
    name_error = socket.gaierror(-2, "Name or service not known")

    httpx_error = foreign("httpx.ConnectError")("text")
    httpx_error.__cause__ = foreign("httpcore.ConnectError")(certificate_error)
    assert code_of(httpx_error) == "TLS_ERROR"

    new_connection = foreign("urllib3.exceptions.NewConnectionError")("text")
    new_connection.__cause__ = name_error
    retries = foreign("urllib3.exceptions.MaxRetryError")("text")
    retries.reason = new_connection  # type: ignore[attr-defined]
    assert code_of(foreign("requests.exceptions.ConnectionError", OSError)(retries)) == "DNS_FAILED"

    connector = foreign("aiohttp.client_exceptions.ClientConnectorError", OSError)("text")
    connector.os_error = TimeoutError(errno.ETIMEDOUT, "timed out")  # type: ignore[attr-defined]
    assert code_of(connector) == "NETWORK_TIMEOUT"


def test_a_wrapped_error_also_meets_the_callers_table() -> None:
    outer = urllib.error.URLError(ConnectionRefusedError())
    own = Classifier({ConnectionResetError: CONNECTION_REFUSED})
    assert own.classify(urllib.error.URLError(ConnectionResetError())).code == "CONNECTION_REFUSED"
    assert own.classify(outer).__cause__ is outer
