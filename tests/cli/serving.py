"""`holdfast serve` as a process that is started, asked and ended, with two small systems in place of the real ones."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from holdfast.store import Store

COMMAND = (sys.executable, "-m", "holdfast.cli")
SHADOW = Path(__file__).parent / "shadow"
STOP_S_MAX = 90
APART_S = 0.7
"""A word that follows sooner is the same word; and one that follows much sooner meets a process that is just going."""
TOKEN = "operator-for-a-test"


def environment_of(systems: Path | None, **more: str) -> dict[str, str]:
    """The variables of a process that finds these systems and nothing of ours in its surroundings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, **({} if systems is None else {"PYTHONPATH": str(systems)}), **more}


def tell_until_it_ends(process: subprocess.Popen[str], number: int) -> None:
    """Send the signal again and again until the process has ended."""
    for _ in range(int(STOP_S_MAX / APART_S)):
        process.send_signal(number)
        try:
            process.wait(APART_S)
        except subprocess.TimeoutExpired:
            continue
        return
    raise TimeoutError(f"process {process.pid} did not end within {STOP_S_MAX} s")


class Running:
    """The process, the lines it printed when it was ready, and its port."""

    def __init__(self, folder: Path, *words: str, systems: Path = SHADOW, **environment: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*COMMAND, "serve", *words, "--port", "0"],
            cwd=folder,
            env=environment_of(systems, **environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.lines: list[str] = []
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith("Stop with"):
                break
        found = re.search(r"http://127\.0\.0\.1:(\d+)", "".join(self.lines[:1]))
        assert found, (self.lines, self.process.communicate(timeout=STOP_S_MAX))
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
        return self.end()

    def end(self) -> tuple[int, str, str]:
        said, complained = self.process.communicate(timeout=STOP_S_MAX)
        return self.process.returncode, said, complained

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever still runs is killed."""
        self.process.kill()
        self.process.communicate(timeout=STOP_S_MAX)

    def store(self) -> Store:
        return Store.open(f"sqlite:///{self.folder / 'holdfast-data' / 'holdfast.db'}")

    def life(self) -> list[str]:
        return (self.folder / "holdfast-data" / "alpha" / "life.txt").read_text().split()


def run(folder: Path, *words: str, systems: Path = SHADOW, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        env=environment_of(systems, **environment),
        capture_output=True,
        text=True,
        timeout=STOP_S_MAX,
        check=False,
    )
