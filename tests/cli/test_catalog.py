"""`holdfast catalog`: exports to a pipe or a file, and versions compared with an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.cli.command import application

SHADOW = Path(__file__).parent / "shadow"
ERRORS = """
from holdfast import Catalog

errors = Catalog("app")
SOLD_OUT = errors.fault("SOLD_OUT", status={status}, retry={retry}, says="Nothing is left.")
number = 7
"""


def run(*words: str) -> Any:
    return CliRunner().invoke(application, ["catalog", *words])


def with_systems(systems: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as a process that finds these systems in place of the installed ones."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast.cli", "catalog", *words],
        env={**os.environ, "PYTHONPATH": str(systems)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A catalog in a module of the current folder; each test has its own, under its own name."""
    name = f"errors_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(ERRORS.format(status=409, retry=False))
    (tmp_path / f"{name}_broken.py").write_text("raise RuntimeError('no luck')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def exported(status: int = 409, *, retry: bool = False, code: str = "SOLD_OUT") -> str:
    from holdfast import Catalog
    from holdfast.analysis import entries, to_json

    errors = Catalog("app")
    errors.fault(code, status=status, retry=retry, says="Nothing is left.")
    return to_json(entries([errors]))


@pytest.mark.parametrize(
    ("form", "sign"),
    [
        ("markdown", "## SOLD_OUT"),
        ("json", '"format": "holdfast.catalog"'),
        ("openapi", '"openapi": "3.1.0"'),
        ("typescript", "export class ApiError"),
        ("python", "class ApiError(Exception)"),
    ],
)
def test_every_format_is_printed_and_written(app: str, tmp_path: Path, form: str, sign: str) -> None:
    printed = run("export", "--format", form, "--catalog", f"{app}:errors")
    assert printed.exit_code == 0, printed.output
    assert sign in printed.stdout
    assert "SOLD_OUT" in printed.stdout
    written = run("export", "--format", form, "--catalog", f"{app}:errors", "--output", "out")
    assert (written.exit_code, written.stdout) == (0, "")
    assert (tmp_path / "out").read_text() == printed.stdout
    assert [path.name for path in tmp_path.glob("out*")] == ["out"]


def test_without_a_catalog_the_cores_and_every_systems_are_exported() -> None:
    ended = with_systems(SHADOW, "export", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    names = {name for entry in json.loads(ended.stdout)["faults"] for name in entry["catalogs"]}
    assert names == {"holdfast", "holdfast.edge", "delivery", "holdfast.artifact", "operate", "console", "alpha"}


def test_a_system_whose_faults_cannot_be_read_is_named(tmp_path: Path) -> None:
    package = tmp_path / "holdfast_systems" / "gamma"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "main.py").touch()
    (package / "faults.py").write_text("1 / 0")
    ended = with_systems(tmp_path, "export")
    assert ended.returncode == 1
    assert "SYSTEM_BROKEN: The system gamma cannot be used: ZeroDivisionError" in ended.stderr


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("errors", "CATALOG_NOT_FOUND: 'errors' is not MODULE:NAME"),
        ("no_such_module:errors", "there is no module no_such_module"),
        ("{app}:nothing", "has no nothing"),
        ("{app}:number", "is of type int, not holdfast.Catalog"),
        ("{app}_broken:errors", "CATALOG_BROKEN"),
    ],
)
def test_a_catalog_that_cannot_be_had_is_one_clear_line(app: str, where: str, told: str) -> None:
    ended = run("export", "--catalog", where.format(app=app))
    assert (ended.exit_code, ended.stdout) == (1 if "BROKEN" in told else 2, "")
    assert told in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_file_that_cannot_be_written_is_one_clear_line(app: str) -> None:
    ended = run("export", "--catalog", f"{app}:errors", "--output", "no/such/folder/out")
    assert ended.exit_code == 2
    assert ended.stderr == "holdfast: --output no/such/folder/out: No such file or directory\n"


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "code", "told"),
    [
        (exported(), 0, "Nothing has changed."),
        (exported(410), 6, "SOLD_OUT (app) has status 409 instead of 410"),
        (exported(retry=True), 6, "SOLD_OUT (app) is no longer retried"),
        (exported(code="GONE_NOW"), 6, "GONE_NOW (app) is gone"),
    ],
)
@pytest.mark.parametrize("new", [(), ("-",)], ids=["omitted", "dash"])
def test_the_running_code_is_compared_with_an_export(
    app: str, tmp_path: Path, new: tuple[str, ...], old: str, code: int, told: str
) -> None:
    (tmp_path / "old.json").write_text(old)
    ended = run("diff", "old.json", *new, "--catalog", f"{app}:errors")
    assert ended.exit_code == code, ended.output
    assert told in ended.stdout


def test_additions_are_listed_and_fine(tmp_path: Path) -> None:
    first, second = tmp_path / "old.json", tmp_path / "new.json"
    first.write_text(json.dumps({**json.loads(exported()), "faults": []}))
    second.write_text(exported())
    ended = run("diff", str(first), str(second))
    assert ended.exit_code == 0
    assert ended.stdout == "Fine:\n  SOLD_OUT (app) is new\n0 of 1 changes break clients.\n"


def test_a_program_gets_one_document(tmp_path: Path) -> None:
    first, second = tmp_path / "old.json", tmp_path / "new.json"
    first.write_text(exported(410))
    second.write_text(exported(409, retry=True))
    ended = run("diff", str(first), str(second), "--json")
    assert ended.exit_code == 6
    assert json.loads(ended.stdout) == {
        "breaking": [
            {"catalog": "app", "code": "SOLD_OUT", "change": "status", "before": 410, "after": 409},
            {"catalog": "app", "code": "SOLD_OUT", "change": "retryable", "before": False, "after": True},
        ],
        "fine": [],
    }


def test_a_name_in_an_export_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text(exported().replace('"app"', r'"app\u001b[2J\n0 of 1 changes break clients."'))
    ended = run("diff", str(old), str(old))
    assert ended.stdout == "Nothing has changed.\n"
    (tmp_path / "new.json").write_text(json.dumps({**json.loads(exported()), "faults": []}))
    ended = run("diff", str(old), str(tmp_path / "new.json"))
    assert "\x1b" not in ended.stdout
    assert len(ended.stdout.splitlines()) == 3


def test_a_catalog_is_not_chosen_from_a_file(app: str, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(exported())
    ended = run("diff", "old.json", "old.json", "--catalog", f"{app}:errors")
    assert ended.exit_code == 2
    assert "--catalog" in ended.stderr


@pytest.mark.parametrize(("text", "told"), [("no json", "it is not JSON"), (None, "No such file or directory")])
def test_what_is_no_export_is_one_clear_line(tmp_path: Path, text: str | None, told: str) -> None:
    file = tmp_path / "old.json"
    if text is not None:
        file.write_text(text)
    ended = run("diff", str(file))
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "EXPORT_UNREADABLE" in ended.stderr
    assert told in ended.stderr
