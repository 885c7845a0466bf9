"""A process that is told to stop while PostgreSQL is away ends within its grace time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import REAL
from holdfast.store import Store
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy import FaultProxy
from holdfast.worker import Jobs

from .serving import Running as Served

WITHIN_S = 60.0
GRACE_S = 12.0
SERVE_GRACE_S = 30.0


@pytest.fixture
def proxy(postgres_server: PostgresAddress) -> Iterator[FaultProxy]:
    with FaultProxy(postgres_server.port) as running:
        yield running


@pytest.fixture
def behind(proxy: FaultProxy, emptied_dsn: str) -> str:
    """The address of the database through the proxy."""
    return PostgresAddress(proxy.port).dsn(emptied_dsn.rsplit("/", 1)[1])


def take_away(proxy: FaultProxy) -> None:
    proxy.set(refuse=True, reset=True)
    proxy.set(refuse=True)


def stopped_in_s(process: Any) -> float:
    begun_s = REAL.monotonic_s()
    process.send_signal(signal.SIGTERM)
    process.wait(WITHIN_S)
    return REAL.monotonic_s() - begun_s


@pytest.mark.parametrize("lease", ["1", "60"], ids=["lease over", "lease goes on"])
def test_a_worker_whose_job_never_ends_stops_within_its_grace(
    start: Callable[..., Any], proxy: FaultProxy, behind: str, emptied_dsn: str, tmp_path: Path, lease: str
) -> None:
    store, mark = Store.open(emptied_dsn), tmp_path / "runs"
    Jobs(store).enqueue("stuck", str(mark))
    words = ("worker", "shop.jobs:handlers", "--grace", str(GRACE_S), "--lease", lease)
    running = start(*words, HOLDFAST_DATABASE=behind)
    wait_until(mark.exists, within_s=WITHIN_S, what="the job runs")
    take_away(proxy)
    assert stopped_in_s(running.process) < GRACE_S
    store.close()


def test_serve_stops_within_its_grace(proxy: FaultProxy, behind: str, tmp_path: Path) -> None:
    with Served(tmp_path, "alpha", HOLDFAST_DATABASE=behind) as served:
        take_away(proxy)
        assert stopped_in_s(served.process) < SERVE_GRACE_S
