"""Which database a command works on: the one that was named, or the one that is served from the data folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.cli.command import application
from holdfast.cli.worker_crew import ModuleCrew
from holdfast.store import Store
from holdfast.worker import Jobs


def kept(folder: Path, kind: str) -> str:
    """A database in the folder with one job in it; its id."""
    folder.mkdir(parents=True)
    store = Store.open(f"sqlite:///{folder / 'holdfast.db'}")
    store.migrate()
    made = Jobs(store).enqueue(kind)
    store.close()
    return made.id


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder, with nothing in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DATABASE", raising=False)
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({}, "holdfast-data"),
        ({"HOLDFAST_DATA": ""}, "holdfast-data"),
        ({"HOLDFAST_DATA": "elsewhere"}, "elsewhere"),
        ({"HOLDFAST_DATA": "elsewhere", "HOLDFAST_DATABASE": "sqlite:///named/holdfast.db"}, "named"),
    ],
)
def test_a_command_finds_the_database_that_is_served(here: Path, environment: dict[str, str], folder: str) -> None:
    made = {name: kept(here / name, name) for name in ("holdfast-data", "elsewhere", "named")}
    ended = CliRunner().invoke(application, ["jobs", "list", "--json"], env=environment)
    assert ended.exit_code == 0, ended.output
    assert made[folder] in ended.stdout
    assert not any(made[name] in ended.stdout for name in made if name != folder)


def test_a_database_that_is_not_in_the_data_folder_is_named_with_its_folder(here: Path) -> None:
    ended = CliRunner().invoke(application, ["jobs", "list"], env={"HOLDFAST_DATA": "elsewhere"})
    assert ended.exit_code == 5
    assert "sqlite:///elsewhere/holdfast.db" in ended.stderr
    assert not (here / "elsewhere").exists()


@pytest.mark.parametrize(
    ("variable", "told"),
    [("HOLDFAST_LIMIT_PAGES", "there is no limit named 'pages'"), ("HOLDFAST_LIMIT_PAGE_ROWS_MAX", "'many' is not")],
)
def test_a_limit_that_cannot_be_meant_is_one_line(start: Callable[..., Any], variable: str, told: str) -> None:
    code, said = start("jobs", "list", **{variable: "many"}).end()
    assert (code, said.count("\n")) == (2, 1), said
    assert said.startswith(f"holdfast: {variable}: ")
    assert told in said


@pytest.mark.parametrize(
    ("given", "address"), [(None, "sqlite:///elsewhere/holdfast.db"), ("sqlite:///a.db", "sqlite:///a.db")]
)
def test_a_worker_of_a_module_works_on_the_same_database(given: str | None, address: str) -> None:
    assert ModuleCrew("shop.jobs:handlers", Path("elsewhere"), alerts=None).database(given) == address
