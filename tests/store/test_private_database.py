"""The files of an embedded database are for their owner alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import Store


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """A umask that closes nothing."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_database_log_and_shared_memory_are_0600_in_a_0700_folder(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'data' / 'holdfast.db'}")
    store.migrate()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").iterdir()}
    store.close()
    assert modes == dict.fromkeys(("holdfast.db", "holdfast.db-shm", "holdfast.db-wal"), 0o600)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_a_database_that_others_may_open_is_told_and_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "shared.db"
    path.touch(mode=0o664)
    Store.open(f"sqlite:///{path}").close()
    assert path.stat().st_mode & 0o777 == 0o664
    assert [f"may open the database {path}" in one.getMessage() for one in caplog.records] == [True]
