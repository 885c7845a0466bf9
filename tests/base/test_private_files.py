"""Files and folders for the user of this process alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.base.private_files import make_file, make_folder, open_to_others


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """A umask that closes nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_every_folder_that_had_to_be_made_is_private_and_the_others_stay_as_they_are(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "one" / "two")
    make_folder(tmp_path / "one" / "two")
    assert [mode(path) for path in (tmp_path, tmp_path / "one", tmp_path / "one" / "two")] == [0o755, 0o700, 0o700]


def test_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_folder(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        make_folder(tmp_path / "file" / "below")


def test_a_new_file_is_private_and_one_that_is_there_is_left_alone(tmp_path: Path) -> None:
    make_file(tmp_path / "new")
    (tmp_path / "old").write_text("kept")
    make_file(tmp_path / "old")
    assert (mode(tmp_path / "new"), (tmp_path / "old").read_text()) == (0o600, "kept")
    assert not open_to_others(tmp_path / "new")
    assert open_to_others(tmp_path / "old")
    assert not open_to_others(tmp_path / "nothing")
