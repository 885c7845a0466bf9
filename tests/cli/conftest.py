"""The `holdfast` command in this process and as a process of its own, and a small application for workers to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.catalog.core import NOT_FOUND
from holdfast.cli.command import application
from holdfast.store import Store
from holdfast.worker import Jobs, ledger
from holdfast.worker.settlement import failed

from .serving import tell_until_it_ends

COMMAND = (sys.executable, "-m", "holdfast.cli")
END_S_MAX = 90.0
APPLICATION = '''
import os
import signal
import threading

from holdfast.worker import Handlers, Job

handlers = Handlers()
empty = Handlers()
never = threading.Event()


@handlers.handle("hello")
def hello(job: Job) -> str:
    return f"hello {job.payload['name']}"


@handlers.handle("stop")
def stop(job: Job) -> int:
    """Asks its own process to stop, and takes a moment to finish."""
    os.kill(os.getpid(), signal.SIGTERM)
    never.wait(0.2)
    return os.getpid()


@handlers.handle("stuck")
def stuck(job: Job) -> None:
    """Leaves a mark that it runs, and never ends."""
    open(job.payload, "w").close()
    never.wait()
'''


class Running:
    """A process of the command; its lines are read as they come."""

    def __init__(self, words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def told_until_it_ends(self, number: int) -> None:
        """Say it once more whenever it did not help."""
        tell_until_it_ends(self.process, number)

    def end(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=END_S_MAX)
        return self.process.returncode, said


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A fresh database with our schema, for what does not depend on the engine."""
    url = f"sqlite:///{tmp_path / 'only.db'}"
    store = Store.open(url)
    store.migrate()
    store.close()
    return url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the application lies."""
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "jobs.py").write_text(APPLICATION)
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Running]]:
    """Starts the command as a process; what still runs at the end of the test is killed."""
    started: list[Running] = []

    def starting(*words: str, **environment: str) -> Running:
        started.append(Running(words, folder, environment))
        return started[-1]

    yield starting
    for one in started:
        one.process.kill()
        one.process.communicate(timeout=END_S_MAX)


class Hand:
    """The command inside this process, on one database."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, *words: str, given: str | None = None) -> Any:
        return CliRunner().invoke(application, list(words), input=given, env={"HOLDFAST_DATABASE": self.url})

    def answer(self, *words: str, given: str | None = None) -> str:
        """What it prints when all is well."""
        ended = self(*words, given=given)
        assert ended.exit_code == 0, ended.output
        return ended.stdout

    def documents(self, *words: str) -> list[dict[str, Any]]:
        """What it prints with `--json`."""
        return [json.loads(line) for line in self.answer(*words, "--json").splitlines()]

    def document(self, *words: str) -> dict[str, Any]:
        (one,) = self.documents(*words)
        return one


@pytest.fixture
def hand(database_url: str) -> Hand:
    """The command on each engine."""
    return Hand(database_url)


@pytest.fixture
def quick(sqlite_url: str) -> Hand:
    """The command on SQLite alone."""
    return Hand(sqlite_url)


@pytest.fixture
def hand_on() -> type[Hand]:
    """Makes the command on any database."""
    return Hand


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    client = Jobs(store)
    yield client
    client.close()


@pytest.fixture
def die(store: Store) -> Callable[[str], list[str]]:
    def dying(queue: str) -> list[str]:
        held = store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker="w-1", count=50))
        dead = [failed(job, NOT_FOUND(), None, 5, blamed=False) for job in held]
        store.atomic(lambda tx: ledger.settle(tx, "w-1", (), dead))
        return [job.id for job in held]

    return dying
