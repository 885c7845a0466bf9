"""`holdfast migrate`, and what a command says about a database that it cannot use."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import REAL

PROCESSES = 10
Start = Callable[..., Any]


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without any table, on each engine."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'new' / 'empty.db'}"
        return
    server = request.getfixturevalue("postgres_server")
    name = f"empty_{REAL.token_bytes(8).hex()}"
    yield server.create_database(name)
    server.drop_database(name)


def test_ten_processes_that_migrate_at_once_run_each_migration_once(start: Start, empty_url: str) -> None:
    ended = [one.end() for one in [start("migrate", "--json", HOLDFAST_DATABASE=empty_url) for _ in range(PROCESSES)]]
    assert [code for code, _ in ended] == [0] * PROCESSES, ended
    ran = [name for _, said in ended for name in json.loads(said)["ran"]]
    assert ran[0] == "0001_baseline"
    assert sorted(set(ran)) == sorted(ran)


def test_it_says_what_ran_and_then_that_there_is_nothing_to_do(hand_on: Callable[[str], Any], empty_url: str) -> None:
    hand = hand_on(empty_url)
    assert hand.answer("migrate").startswith("Ran 0001_baseline")
    assert hand.answer("migrate").startswith("Nothing to do")


def test_tables_that_are_missing_are_one_line_that_names_the_command(
    hand_on: Callable[[str], Any], empty_url: str, tmp_path: Path
) -> None:
    if empty_url.startswith("sqlite"):
        (tmp_path / "new").mkdir()
        sqlite3.connect(tmp_path / "new" / "empty.db").close()
    ended = hand_on(empty_url)("jobs", "list")
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (5, "", 1)
    assert "SCHEMA_OUTDATED" in ended.stderr
    assert "holdfast migrate" in ended.stderr


def test_a_file_that_is_not_there_is_said_and_not_made(hand_on: Callable[[str], Any], tmp_path: Path) -> None:
    ended = hand_on(f"sqlite:///{tmp_path}/nowhere/shop.db")("jobs", "list")
    assert (ended.exit_code, ended.stderr.count("\n")) == (5, 1)
    assert "DATABASE_NOT_FOUND" in ended.stderr
    assert not (tmp_path / "nowhere").exists()


def test_a_server_that_does_not_answer_is_one_line_without_the_password(hand_on: Callable[[str], Any]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and nobody listens
        ended = hand_on(f"postgresql://ann:hush@127.0.0.1:{nobody.getsockname()[1]}/shop")("queues", "status")
    assert (ended.exit_code, ended.stderr.count("\n")) == (5, 1)
    assert "DATABASE_CONNECTION_ERROR" in ended.stderr
    assert "refused" in ended.stderr
    assert "Check the address" in ended.stderr
    assert "hush" not in ended.stderr


@pytest.mark.parametrize("words", [("migrate",), ("jobs", "list")])
def test_a_file_that_is_no_database_is_one_line_that_names_it(
    hand_on: Callable[[str], Any], tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be taken for one " * 10)
    ended = hand_on(f"sqlite:///{tmp_path}/notes.txt")(*words)
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (5, "", 1)
    assert f"DATABASE_UNUSABLE: The database at sqlite:///{tmp_path}/notes.txt cannot be used" in ended.stderr
    assert "file is not a database" in ended.stderr


def test_a_folder_in_the_place_of_the_file_is_one_line(hand_on: Callable[[str], Any], tmp_path: Path) -> None:
    ended = hand_on(f"sqlite:///{tmp_path}")("migrate")
    assert (ended.exit_code, ended.stderr.count("\n")) == (5, 1)
    assert "DATABASE_UNUSABLE" in ended.stderr
    assert "unable to open database file" in ended.stderr


def test_a_folder_that_cannot_be_made_is_one_line(hand_on: Callable[[str], Any], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = hand_on(f"sqlite:///{tmp_path}/file/shop.db")("migrate")
    assert (ended.exit_code, ended.stderr.count("\n")) == (5, 1)
    assert "DATABASE_UNUSABLE" in ended.stderr


def test_an_address_that_is_none_is_a_wrong_use(hand_on: Callable[[str], Any]) -> None:
    ended = hand_on("mysql://shop")("migrate")
    assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
    assert "'mysql' is not a database address" in ended.stderr
