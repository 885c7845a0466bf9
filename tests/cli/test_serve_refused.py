"""What `holdfast serve` refuses: one clear line, an exit code, and nothing that half runs."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .serving import STOP_S_MAX, run


def test_a_system_that_cannot_be_imported_is_named_with_the_reason(tmp_path: Path) -> None:
    package = tmp_path / "systems" / "holdfast_systems" / "gamma"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "main.py").write_text("raise RuntimeError('no luck')")
    ended = run(tmp_path, "serve", "--port", "0", systems=tmp_path / "systems")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("holdfast: SYSTEM_BROKEN: The system gamma cannot be used: RuntimeError: no luck (")
    assert ended.stderr.count("\n") == 1


def test_a_system_that_does_not_start_is_named_with_the_reason(tmp_path: Path) -> None:
    ended = run(tmp_path, "serve", "alpha", "--port", "0", ALPHA_FAILS="start")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("holdfast: SYSTEM_NOT_STARTED: alpha did not start: RuntimeError: the wind is wrong")


def test_an_unknown_system_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    ended = run(tmp_path, "serve", "gamma", "--port", "0")
    assert ended.returncode == 3
    assert "There is no system named 'gamma'; there are: alpha, beta." in ended.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("beta", "--part", "three"), 3, "The system beta has no part named 'three'; its parts are: one, two."),
        (("alpha", "--part", "one"), 3, "The system alpha has no part named 'one'; it is served as a whole."),
        (("--part", "one"), 2, "--part divides one system: name exactly one"),
        (("alpha", "beta", "--part", "one"), 2, "--part divides one system: name exactly one"),
    ],
)
def test_a_part_that_no_one_system_has_is_refused(tmp_path: Path, words: tuple[str, ...], code: int, told: str) -> None:
    ended = run(tmp_path, "serve", *words, "--port", "0")
    assert (ended.returncode, ended.stdout) == (code, "")
    assert told in ended.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--system", "beta", "--part", "three"), 3, "its parts are: one, two."),
        (("app:handlers", "--part", "one"), 2, "--part divides one system: name exactly one"),
    ],
)
def test_a_worker_refuses_such_a_part_as_well(tmp_path: Path, words: tuple[str, ...], code: int, told: str) -> None:
    ended = run(tmp_path, "worker", *words)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert told in ended.stderr


def test_a_folder_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = run(tmp_path, "serve", "beta", "--port", "0", "--data", "file")
    assert ended.returncode == 1
    assert ended.stderr.startswith("holdfast: DATA_UNUSABLE: The folder file cannot be used: it is not a folder.")


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(tmp_path, "serve", HOLDFAST_PORT=str(port))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        ended.stderr == f"holdfast: port {port} on 127.0.0.1 is in use; choose another with --port or HOLDFAST_PORT\n"
    )


def test_a_host_that_does_not_exist_is_one_clear_line(tmp_path: Path) -> None:
    ended = run(tmp_path, "serve", "--host", "no-such-host.invalid", "--port", "0")
    assert ended.returncode == 1
    assert ended.stderr.startswith("holdfast: cannot listen on port 0 of no-such-host.invalid: ")
    assert ended.stderr.count("\n") == 1


def test_the_version_is_printed(tmp_path: Path) -> None:
    assert re.fullmatch(r"holdfast \d+\.\d+\.\d+\n", run(tmp_path, "--version").stdout)


@pytest.mark.parametrize("missing", ["typer", "uvicorn"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(missing: str, tmp_path: Path) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from holdfast.cli.main import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "serve"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=STOP_S_MAX,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        f'holdfast: this needs {missing}, which is not installed: pip install "holdfast[cli,serve]"\n'
    )
