"""Hostile files and unlucky moments: each costs what it may, harms nothing else, and leaves the gateway whole."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from holdfast.catalog import Failure
from holdfast.testing.processes import children, wait_until
from holdfast_systems.conversion.gateway import Gateway, GatewayLimits
from holdfast_systems.conversion.gateway.converter import Order
from holdfast_systems.conversion.gateway.pool import Pool
from holdfast_systems.conversion.tests import pdfs

CPU_S_OVER_MAX = 2.0


@pytest.fixture
def pool_with() -> Iterator[Callable[..., Pool]]:
    """Pools of one process, in this process."""
    started: list[Pool] = []

    def start(**limits: int) -> Pool:
        started.append(Pool(GatewayLimits(**{"processes": 1, "wall_s": 60, **limits})))
        started[-1].start()
        return started[-1]

    yield start
    for pool in started:
        pool.stop()


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., Order]:
    def make(pdf: bytes, *, mapping: str = "text", wall_s: float = 60.0) -> Order:
        source = tmp_path / "source.pdf"
        source.write_bytes(pdf)
        return Order(source=source, result=tmp_path / "result.xml", mapping=mapping, wall_s=wall_s, abandoned=Event())

    return make


def cpu_s_of_children(pid: int) -> float:
    """CPU time of the children that the process has reaped."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def state(pid: int) -> str:
    """R runs, S waits, T stands still, Z is dead."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def is_dead(pid: int) -> bool:
    """Whether nothing of the process is left but its name, which waits for us."""
    return state(pid) == "Z" and len(os.listdir(f"/proc/{pid}/task")) == 1


def has_order(pid: int) -> bool:
    """Whether something lies in the input of a process that stands still."""
    pipe = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return any(fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))
    finally:
        os.close(pipe)


def post(client: httpx.Client, pdf: bytes, mapping: str = "text") -> httpx.Response:
    return client.post("/convert", params={"mapping": mapping}, content=pdf)


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """Processes that take orders and do nothing."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: all(state(pid) == "T" for pid in pids), within_s=60, what="they stand still")
        yield
    finally:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue


@pytest.mark.parametrize(
    ("made", "reasons"),
    [
        (pdfs.slow, {"cpu"}),
        (pdfs.memory_bomb, {"crash", "memory"}),
        (pdfs.object_stream_bomb, {"crash", "memory"}),
        (pdfs.laughing, {"cpu", "crash", "memory"}),
    ],
)
def test_a_bomb_costs_its_limit_and_harms_nothing_else(
    client: httpx.Client, gateway: Gateway, made: Callable[[], bytes], reasons: set[str]
) -> None:
    pid, before_s = gateway.pid, cpu_s_of_children(gateway.pid)
    replies: list[httpx.Response] = []
    exploding = threading.Thread(target=lambda: replies.append(post(client, made())))
    exploding.start()
    assert post(client, pdfs.reportlab()).status_code == 200
    exploding.join()
    error = replies[0].json()["error"]
    assert (replies[0].status_code, error["code"]) == (413, "CONVERSION_TOO_HEAVY"), error
    assert error["details"]["reason"] in reasons
    assert cpu_s_of_children(gateway.pid) - before_s <= 1 + CPU_S_OVER_MAX
    assert gateway.pid == pid
    assert post(client, pdfs.reportlab()).status_code == 200


def test_xml_that_grows_too_large_is_refused(pool_with: Any, order: Any) -> None:
    pool = pool_with(xml_bytes_max=1_000)
    with pytest.raises(Failure) as refused:
        pool.convert(order(pdfs.reportlab(), mapping="layout"))
    assert refused.value.code == "RESULT_TOO_LARGE"
    assert pool.convert(order(pdfs.pdfium())).pages == 1


def test_a_conversion_that_gets_no_time_may_be_tried_again(pool_with: Any, order: Any) -> None:
    pool = pool_with()
    (pid,) = pool.pids
    with stopped([pid]), pytest.raises(Failure) as refused:
        pool.convert(order(pdfs.reportlab(), wall_s=0.3))
    assert (refused.value.code, refused.value.retryable) == ("CONVERSION_STARVED", True)
    assert pool.pids != [pid]
    assert pool.convert(order(pdfs.reportlab())).pages == 2


def test_a_process_is_replaced_after_so_many_conversions(pool_with: Any, order: Any) -> None:
    pool = pool_with(conversions_max=2)
    seen = []
    for _ in range(4):
        seen.append(pool.pids[0])
        pool.convert(order(pdfs.pdfium()))
    assert seen[0] == seen[1] != seen[2] == seen[3]


def test_a_process_that_keeps_too_much_memory_is_replaced(pool_with: Any, order: Any) -> None:
    pool = pool_with(idle_bytes_max=1)
    first = pool.pids
    pool.convert(order(pdfs.pdfium()))
    assert pool.pids != first


def test_a_process_that_was_killed_while_it_waited_costs_nobody_anything(pool_with: Any, order: Any) -> None:
    pool = pool_with()
    os.kill(pool.pids[0], signal.SIGKILL)
    wait_until(lambda: is_dead(pool.pids[0]), within_s=60, what="the process is dead")
    assert pool.convert(order(pdfs.pdfium())).pages == 1


def test_a_pool_that_loses_every_process_calls_itself_unwell(
    pool_with: Any, order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = pool_with()
    assert pool.healthy
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", shutil.which("false"))
        os.kill(pool.pids[0], signal.SIGKILL)
        wait_until(lambda: is_dead(pool.pids[0]), within_s=60, what="the process is dead")
        for _ in range(3):
            with pytest.raises(Failure) as refused:
                pool.convert(order(pdfs.pdfium()))
            assert (refused.value.code, refused.value.retryable) == ("CONVERTER_LOST", True)
    assert not pool.healthy

    def converts() -> bool:
        # A process that was begun while nothing could start may still stand in line.
        try:
            return bool(pool.convert(order(pdfs.pdfium())).pages)
        except Failure:
            return False

    wait_until(converts, within_s=60, what="the pool has recovered")
    assert pool.healthy


def waiting(client: httpx.Client, count: int) -> bool:
    told = client.get("/health").json()
    return bool(told["running"] + told["waiting"] == count)


def test_whoever_finds_the_queue_full_is_told_when_to_come_again(client: httpx.Client, gateway: Gateway) -> None:
    replies: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: replies.append(post(client, pdfs.pdfium()))) for _ in range(3)]
    with stopped(children(gateway.pid)):
        for thread in threads:
            thread.start()
        wait_until(lambda: waiting(client, 3), within_s=60, what="two run and one waits")
        refused = post(client, pdfs.pdfium())
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "CONVERTER_BUSY")
        assert int(refused.headers["retry-after"]) >= 1
    for thread in threads:
        thread.join()
    assert [reply.status_code for reply in replies] == [200, 200, 200]


def test_a_process_killed_in_the_middle_is_a_server_error_and_the_next_works(
    client: httpx.Client, gateway: Gateway
) -> None:
    replies: list[httpx.Response] = []
    running = children(gateway.pid)
    thread = threading.Thread(target=lambda: replies.append(post(client, pdfs.pdfium())))
    with stopped(running):
        thread.start()
        wait_until(lambda: any(map(has_order, running)), within_s=60, what="it has begun")
        os.kill(next(filter(has_order, running)), signal.SIGKILL)
        thread.join()
    assert (replies[0].status_code, replies[0].json()["error"]["code"]) == (503, "CONVERTER_LOST")
    assert post(client, pdfs.pdfium()).status_code == 200


def test_nobody_converts_for_a_client_that_has_left(client: httpx.Client, gateway: Gateway) -> None:
    running = children(gateway.pid)
    pdf = pdfs.pdfium()
    with stopped(running):
        with socket.create_connection(("127.0.0.1", int(gateway.address.rpartition(":")[2]))) as leaving:
            leaving.sendall(b"POST /convert?mapping=text HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(pdf))
            leaving.sendall(pdf)
            wait_until(lambda: any(map(has_order, running)), within_s=60, what="it has begun")
        wait_until(lambda: waiting(client, 0), within_s=60, what="the conversion is given up")
        wait_until(
            lambda: len(set(running) - set(children(gateway.pid))) == 1, within_s=60, what="its process is ended"
        )
    assert post(client, pdf).status_code == 200
