"""The gateway's process, kept alive: started, watched, and started again at the same address when it dies.

Always true: it ends when the program that started it ends, however that comes about, and no file of it stays behind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Self

from holdfast.base import Secret, monotonic_s, world
from holdfast.base.limits import ENVIRONMENT_PREFIX
from holdfast.base.private_files import make_folder
from holdfast_systems.conversion.gateway.__main__ import ANNOUNCED, TOKEN_BYTES, TOKEN_VARIABLE
from holdfast_systems.conversion.gateway.converter import quiet_environment
from holdfast_systems.conversion.gateway.limits import GatewayLimits

START_S_MAX = 60.0
STOP_S_MAX = 10.0
RESTART_S = 0.1
RESTART_S_MAX = 5.0
"""The wait before another start doubles up to this, and never ends."""
STEADY_S = 30.0
"""Run time after which the next restart of the process is as quick as the first."""


class GatewayNotStarted(RuntimeError):
    """The gateway's process did not come up; its log says why."""


class Gateway:
    """A gateway in a process of its own. `with start_gateway(folder) as gateway: …gateway.address…`"""

    def __init__(self, folder: Path, limits: GatewayLimits, *, faults: bool, port: int) -> None:
        self.folder = folder
        """Its log, and files that last as long as a request."""
        self._limits = limits
        self._faults = faults
        self.token = Secret(world().token_bytes(TOKEN_BYTES).hex())
        """What its `/faults` asks for."""
        self._port = port
        self._stopping = Event()
        self._lock = Lock()
        self._process = self._started()
        self.restarts = 0
        """How many times the process has been started again."""
        self._watch = Thread(target=self._keep_alive, name="conversion-gateway", daemon=True)
        self._watch.start()

    @property
    def address(self) -> str:
        """Where it is, from its first start to its end; no slash at the end."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process as it is now."""
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """End it, and let what is running be cut off; a second call does nothing."""
        with self._lock:
            self._stopping.set()
            process = self._process
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._watch.join()
        _close_pipes(process)
        self._tidy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _keep_alive(self) -> None:
        wait_s = RESTART_S
        while True:
            begun_s = monotonic_s()
            self._process.wait()
            if monotonic_s() - begun_s > STEADY_S:
                wait_s = RESTART_S
            # The wait itself ends when somebody stops the gateway.
            while not self._stopping.wait(wait_s):
                wait_s = min(wait_s * 2, RESTART_S_MAX)
                if self._restarted():
                    break
            if self._stopping.is_set():
                return

    def _restarted(self) -> bool:
        _close_pipes(self._process)
        try:
            fresh = self._started()
        except (GatewayNotStarted, OSError):
            return False
        with self._lock:
            self._process = fresh
            self.restarts += 1
            if self._stopping.is_set():
                fresh.send_signal(signal.SIGTERM)
                fresh.wait()
                _close_pipes(fresh)
        return True

    def _started(self) -> subprocess.Popen[bytes]:
        """Start the process and wait until it has said its address.

        Raises:
            GatewayNotStarted: it has not, and is gone.
        """
        self._tidy()
        with self._log().open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own program
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Not an argument: every user of the machine can read those.
                env={**quiet_environment(os.environ), **_limits(os.environ), TOKEN_VARIABLE: self.token.reveal()},
                start_new_session=True,  # Ctrl-C is for the program around it, which then stops the gateway
            )
        port = _announced_port(process)
        if port is None:
            process.kill()
            process.wait()
            _close_pipes(process)
            raise GatewayNotStarted(f"the conversion gateway did not start; see {self._log()}")
        self._port = port
        return process

    def _command(self) -> list[str]:
        options = [
            part
            for field in fields(self._limits)
            for part in (f"--{field.name.replace('_', '-')}", str(getattr(self._limits, field.name)))
        ]
        options += ["--port", str(self._port), "--folder", str(self.folder), "--with-parent"]
        options += ["--log", str(self._log())]
        options += ["--faults"] if self._faults else []
        return [sys.executable, "-m", "holdfast_systems.conversion.gateway", *options]

    def _log(self) -> Path:
        """What it says about conversions, and what it says to standard error; bounded by the process itself."""
        return self.folder / "gateway.log"

    def _tidy(self) -> None:
        """Remove what a process that was killed could not."""
        for left in self.folder.glob("gateway-*"):
            shutil.rmtree(left, ignore_errors=True)


def start_gateway(folder: Path, *, limits: GatewayLimits | None = None, faults: bool = False, port: int = 0) -> Gateway:
    """Start a gateway on loopback and keep it alive until `stop()`; it converts when this returns.

    Args:
        folder: for its log and for files that last as long as a request; nobody else may use it.
        faults: whether `PUT {address}/faults` with the gateway's `token` switches faults on.
        port: 0 takes any free one.

    Raises:
        GatewayNotStarted: it did not come up; its log in the folder says why.
    """
    make_folder(folder)
    return Gateway(folder.resolve(), limits or GatewayLimits(), faults=faults, port=port)


def _limits(given: Mapping[str, str]) -> dict[str, str]:
    """The limits of the program around it, those of connections above all, are the gateway's as well."""
    return {name: value for name, value in given.items() if name.startswith(ENVIRONMENT_PREFIX)}


def _announced_port(process: subprocess.Popen[bytes]) -> int | None:
    """The port that the process says it listens on; None when it ends, or says nothing in time."""
    heard: list[bytes] = []
    assert process.stdout is not None
    listener = Thread(target=lambda out: heard.append(out.readline(1_024)), args=(process.stdout,), daemon=True)
    listener.start()
    listener.join(START_S_MAX)
    line = heard[0].decode("utf-8", "replace").strip() if heard else ""
    return int(line.rpartition(":")[2]) if line.startswith(ANNOUNCED) else None


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
