"""The gateway's process: kept alive at one address, ended with whoever started it, and it knows no secrets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from holdfast.testing.ports import free_port, listening_socket
from holdfast.testing.processes import children, wait_until
from holdfast_systems.conversion.gateway import Gateway, GatewayLimits, GatewayNotStarted, faults_door, start_gateway
from holdfast_systems.conversion.tests import pdfs

SMALL = GatewayLimits(processes=1)
PATIENCE_S = 60.0


def answers(gateway: Gateway) -> bool:
    try:
        return httpx.get(f"{gateway.address}/health", timeout=PATIENCE_S).status_code == 200
    except httpx.TransportError:
        return False


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def bearer(gateway: Gateway) -> dict[str, str]:
    return {"Authorization": f"Bearer {gateway.token.reveal()}"}


def test_a_gateway_that_was_killed_comes_back_at_its_address(tmp_path: Path) -> None:
    with start_gateway(tmp_path, limits=SMALL, faults=True) as gateway:
        address, pid, offspring = gateway.address, gateway.pid, children(gateway.pid)
        httpx.put(f"{address}/faults", json={"status": 500}, headers=bearer(gateway), timeout=PATIENCE_S)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: gateway.restarts == 1 and answers(gateway), within_s=60, what="it is back")
        assert gateway.address == address
        assert gateway.pid != pid
        reply = httpx.post(f"{address}/convert?mapping=text", content=pdfs.pdfium(), timeout=PATIENCE_S)
        assert reply.status_code == 200
        assert len(list(tmp_path.glob("gateway-*"))) == 1
        wait_until(lambda: not any(map(alive, offspring)), within_s=60, what="its processes are gone, too")
    assert not answers(gateway)


def test_stopping_twice_is_stopping_once_and_nothing_is_left(tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, limits=SMALL)
    family = [gateway.pid, *children(gateway.pid)]
    gateway.stop()
    gateway.stop()
    assert not gateway.running
    assert not any(map(alive, family))
    assert [path.name for path in tmp_path.iterdir()] == ["gateway.log"]
    lines = (tmp_path / "gateway.log").read_text().splitlines()
    assert [line.partition(" INFO ")[2].partition(" at ")[0] for line in lines] == ["started", "stopped"]


def test_without_faults_there_are_no_switches(tmp_path: Path) -> None:
    with start_gateway(tmp_path, limits=SMALL) as gateway:
        assert httpx.put(f"{gateway.address}/faults", json={"status": 500}, timeout=PATIENCE_S).status_code == 404
        assert httpx.get(f"{gateway.address}/health", timeout=PATIENCE_S).status_code == 200


def test_a_port_that_is_taken_is_told_at_once(tmp_path: Path) -> None:
    with listening_socket() as taken, pytest.raises(GatewayNotStarted):
        start_gateway(tmp_path, limits=SMALL, port=taken.getsockname()[1])
    assert "cannot start" in (tmp_path / "gateway.log").read_text()


def test_a_gateway_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from holdfast_systems.conversion.gateway import GatewayLimits, start_gateway\n"
        "gateway = start_gateway(Path(sys.argv[1]), limits=GatewayLimits(processes=1))\n"
        "print(gateway.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        family = [pid, *children(pid)]
        assert all(map(alive, family))
        parent.kill()
    wait_until(lambda: not any(map(alive, family)), within_s=60, what="all are gone")


def test_processes_that_read_foreign_files_know_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "very-secret")
    with start_gateway(tmp_path, limits=SMALL) as gateway:
        for pid in (gateway.pid, *children(gateway.pid)):
            assert b"very-secret" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_it_runs_alone_from_the_command_line_and_ends_in_order(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "holdfast_systems.conversion.gateway", "--port", str(port), "--processes", "1"]
    with subprocess.Popen([*command, "--folder", str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().decode().strip().endswith(f" http://127.0.0.1:{port}")
        assert httpx.get(f"http://127.0.0.1:{port}/health", timeout=PATIENCE_S).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert list(tmp_path.iterdir()) == []


async def test_the_switches_can_be_reached_by_another_door(gateway: Gateway) -> None:
    transport = httpx.ASGITransport(faults_door(lambda: gateway.address, lambda: gateway.token))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as door:
        assert (await door.put("/faults", json={"status": 503, "times": 2})).status_code == 200
        assert (await door.get("/faults")).json() == {"status": 503, "times": 2}
        assert (await door.put("/faults", json={"status": 1})).status_code == 400
        assert (await door.post("/faults", json={})).status_code == 405
        assert (await door.delete("/faults")).status_code == 204
        assert (await door.get("/faults")).json() == {}


async def test_the_other_door_is_for_this_machine_only(gateway: Gateway) -> None:
    transport = httpx.ASGITransport(faults_door(lambda: gateway.address, lambda: gateway.token), client=("10.0.0.7", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as door:
        assert (await door.put("/faults", json={"status": 503})).status_code == 403
    async with httpx.AsyncClient(base_url=gateway.address, timeout=PATIENCE_S) as client:
        assert (await client.get("/faults", headers=bearer(gateway))).json() == {}


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Bearer"])
def test_the_switches_of_the_gateway_ask_for_its_token(gateway: Gateway, authorization: str) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    for method in ("GET", "PUT", "DELETE"):
        reply = httpx.request(
            method, f"{gateway.address}/faults", json={"status": 500}, headers=headers, timeout=PATIENCE_S
        )
        assert (reply.status_code, reply.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    assert httpx.get(f"{gateway.address}/health", timeout=PATIENCE_S).status_code == 200
