"""The data folder and the operator's token."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from holdfast.catalog import Failure
from holdfast.cli.state import data_folder, database_of, operators_token


def test_a_token_is_made_once_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    folder = data_folder(tmp_path / "data")
    first, shown = operators_token(folder, {})
    again, shown_again = operators_token(folder, {"HOLDFAST_TOKEN": " "})
    assert (first, shown, shown_again) == (again, True, False)
    assert len(first.reveal()) >= 32
    assert folder.stat().st_mode & 0o777 == 0o700
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_token_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    token, _ = operators_token(tmp_path, {})
    file = tmp_path / "operator-token"
    file.chmod(0o644)
    assert operators_token(tmp_path, {})[0] == token
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_given_token_is_used_and_neither_shown_nor_stored(tmp_path: Path) -> None:
    token, shown = operators_token(tmp_path, {"HOLDFAST_TOKEN": "  one of my own making \n"})
    assert (token.reveal(), shown, list(tmp_path.iterdir())) == ("one of my own making", False, [])


def test_processes_that_start_together_have_one_token(tmp_path: Path) -> None:
    found: list[str] = []
    together = threading.Barrier(8)

    def start() -> None:
        together.wait()
        found.append(operators_token(tmp_path, {})[0].reveal())

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(set(found))) == (8, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["operator-token"]


def test_an_emptied_token_lets_nobody_in_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "operator-token").touch()
    with pytest.raises(Failure, match=r"DATA_UNUSABLE.*there is no token in it"):
        operators_token(tmp_path, {})


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Failure, match="DATA_UNUSABLE"):
        data_folder(tmp_path / "file" / "data")


def test_the_database_is_in_the_folder_unless_one_is_named() -> None:
    assert database_of(Path("there"), None) == "sqlite:///there/holdfast.db"
    assert database_of(Path("there"), "postgresql://db/shop") == "postgresql://db/shop"
