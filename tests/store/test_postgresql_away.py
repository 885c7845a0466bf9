"""PostgreSQL that cannot be had: its driver is missing, or nobody answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from socket import socket

import pytest

from holdfast.store import Store

PROGRAM = """
import logging, sys
from holdfast.catalog import Failure
from holdfast.store import Store
if "log" in sys.argv:
    logging.basicConfig()
store = Store.open(sys.argv[1])
try:
    store.migrate()
except Failure as failure:
    print(failure.code)
store.close()
"""


@pytest.fixture
def nobodys_url() -> Iterator[str]:
    """An address of this machine where nobody listens, nor can while the test goes on."""
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"postgresql://nobody@127.0.0.1:{taken.getsockname()[1]}/nothing"


@pytest.mark.parametrize("package", ["psycopg", "psycopg_pool"])
def test_without_the_driver_the_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open("postgresql://nobody@127.0.0.1:1/nothing")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError) as missing:
        store.migrate()
    assert missing.value.__notes__ == [f'holdfast: {package} comes with an extra: pip install "holdfast[postgresql]"']


def test_a_server_that_is_away_is_told_once(nobodys_url: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, nobodys_url], capture_output=True, text=True, timeout=110, check=True
    )
    assert (ended.stdout, ended.stderr) == ("DATABASE_CONNECTION_ERROR\n", "")


def test_who_configured_logging_still_hears_each_try(nobodys_url: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"{nobodys_url}?pooled=0", "log"],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    assert "WARNING:psycopg.pool:error connecting in 'pool-1'" in ended.stderr
