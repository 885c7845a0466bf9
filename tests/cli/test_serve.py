"""`holdfast serve` as a real process on a real port."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

COMMAND = (sys.executable, "-m", "holdfast.cli")
STOP_S_MAX = 30


class Running:
    """The process and the port it printed."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", first)
        assert found, (first, self.process.communicate(timeout=STOP_S_MAX))
        self.port = int(found[1])

    def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=STOP_S_MAX)
        try:
            connection.request(method, path, headers=dict(headers or {}))
            response = connection.getresponse()
            return response, response.read().decode()
        finally:
            connection.close()

    def stop(self, number: int) -> tuple[int, str, str]:
        self.process.send_signal(number)
        said, complained = self.process.communicate(timeout=STOP_S_MAX)
        return self.process.returncode, said, complained


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    started = Running()
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate(timeout=STOP_S_MAX)


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=STOP_S_MAX, check=False, env=environment or None
    )


@pytest.mark.parametrize("path", ["/", "/errors/", "/errors/NETWORK_TIMEOUT"])
def test_the_pages_are_served_as_html(running: Running, path: str) -> None:
    response, text = running.ask(path)
    assert response.status == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "NETWORK_TIMEOUT" in text


def test_the_health_check_says_ok(running: Running) -> None:
    response, text = running.ask("/health")
    assert response.status == 200
    assert json.loads(text)["status"] == "ok"


def test_a_head_request_gets_the_length_and_no_body(running: Running) -> None:
    response, text = running.ask("/errors/", "HEAD")
    whole, body = running.ask("/errors/")
    assert text == ""
    assert response.headers["content-length"] == whole.headers["content-length"] == str(len(body.encode()))


def test_an_unknown_code_is_a_404_with_a_problem_document(running: Running) -> None:
    response, text = running.ask("/errors/NO_SUCH_CODE")
    assert response.status == 404
    assert response.headers["content-type"] == "application/problem+json"
    assert json.loads(text)["code"] == "NOT_FOUND"


def test_another_method_is_a_405_that_names_the_allowed_ones(running: Running) -> None:
    response, text = running.ask("/errors/", "POST")
    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")
    assert json.loads(text)["code"] == "METHOD_NOT_ALLOWED"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_stops_it_cleanly(number: signal.Signals) -> None:
    code, said, complained = Running().stop(number)
    assert (code, complained) == (0, "")
    assert said.endswith("Stopped.\n")


def test_every_printed_address_answers() -> None:
    started = Running()
    try:
        assert started.process.stdout is not None
        lines = [started.process.stdout.readline() for _ in range(2)]
        paths = [re.sub(r".*:\d+(/\S*).*", r"\1", line.strip()) for line in lines]
        assert [started.ask(path)[0].status for path in paths] == [200, 200]
    finally:
        started.stop(signal.SIGTERM)


def test_a_port_in_use_is_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("serve", "--port", str(port))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        ended.stderr == f"holdfast: port {port} on 127.0.0.1 is in use; choose another with --port or HOLDFAST_PORT\n"
    )


def test_the_port_is_read_from_the_environment() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("serve", HOLDFAST_PORT=str(port))
    assert f"port {port} on 127.0.0.1 is in use" in ended.stderr


def test_a_host_that_does_not_exist_is_one_clear_line() -> None:
    ended = run("serve", "--host", "no-such-host.invalid", "--port", "0")
    assert ended.returncode == 1
    assert ended.stderr.startswith("holdfast: cannot listen on port 0 of no-such-host.invalid: ")
    assert ended.stderr.count("\n") == 1


def test_the_version_is_printed() -> None:
    assert re.fullmatch(r"holdfast \d+\.\d+\.\d+\n", run("--version").stdout)


@pytest.mark.parametrize("missing", ["typer", "uvicorn"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from holdfast.cli.main import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "serve"], capture_output=True, text=True, timeout=STOP_S_MAX, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        f'holdfast: this needs {missing}, which is not installed: pip install "holdfast[cli,serve]"\n'
    )
