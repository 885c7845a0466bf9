"""What the tests of the conversion system share: the real gateway process, and the system on each engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.store import Store
from holdfast_systems.conversion.gateway import Gateway, start_gateway

from .system import Running, client, running


@pytest.fixture(scope="session")
def gateway_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway process for the whole run; whoever kills it leaves a new one behind."""
    with start_gateway(tmp_path_factory.mktemp("gateway"), faults=True) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def switchboard(gateway_process: Gateway) -> Iterator[httpx.Client]:
    with client(gateway_process.address) as http:
        http.headers["Authorization"] = f"Bearer {gateway_process.token.reveal()}"
        yield http


@pytest.fixture
def gateway(gateway_process: Gateway, switchboard: httpx.Client) -> Iterator[Gateway]:
    """The gateway with no fault switched on, before and after."""
    yield gateway_process
    switchboard.delete("/faults").raise_for_status()


@pytest.fixture
def faults(gateway: Gateway, switchboard: httpx.Client) -> Callable[..., None]:
    """Switch faults of the gateway on: `faults(status=503)`; without any, off."""

    def switch(**wanted: Any) -> None:
        reply = switchboard.put("/faults", json=wanted) if wanted else switchboard.delete("/faults")
        reply.raise_for_status()

    return switch


Site = Callable[..., Running]


@pytest.fixture
def site(store: Store, tmp_path: Path, gateway: Gateway) -> Iterator[Site]:
    """Serve the system with these settings, on each engine; behind it stands the shared gateway."""
    with ExitStack() as stack:
        yield _serve(stack, store, tmp_path, gateway)


@pytest.fixture
def solo(sqlite_store: Store, tmp_path: Path, gateway: Gateway) -> Iterator[Site]:
    """The same on one engine, for what does not depend on it."""
    with ExitStack() as stack:
        yield _serve(stack, sqlite_store, tmp_path, gateway)


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'alone.db'}")
    opened.migrate()
    yield opened
    opened.close()


def _serve(stack: ExitStack, store: Store, tmp_path: Path, gateway: Gateway) -> Site:
    def serve(**environment: str) -> Running:
        settings = {"GATEWAY": gateway.address, **environment}
        return stack.enter_context(running(store, tmp_path / "conversion", **settings))

    return serve
