"""With PostgreSQL away a caller is told within two seconds, and why; what is only busy is told as busy."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from signal import SIGCONT, SIGSTOP
from subprocess import PIPE, Popen

import pytest

from holdfast.base import REAL
from holdfast.catalog import Failure
from holdfast.http import Edge
from holdfast.store import AddressInvalid, Store, Tx, attempts, connections, read_address
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.processes import wait_until
from holdfast.testing.proxy import FaultProxy

from ..http.edge_servers import call, served

WITHIN_S = 2.0
PATIENCE_S = 30.0
HURRIED = "wait_s=0.3"

REFUSED = {"refuse": True, "reset": True}
SILENT = {"half_open": True}


@pytest.fixture
def url(proxy: FaultProxy, emptied_dsn: str) -> str:
    return PostgresAddress(proxy.port).dsn(emptied_dsn.rsplit("/", 1)[1])


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    stores: list[Store] = []

    def made(*given: str, **named: int) -> Store:
        stores.append(Store.open(*given, **named))  # type: ignore[arg-type]
        return stores[-1]

    yield made
    for store in stores:
        store.close()


def register(store: Store) -> None:
    store.atomic(lambda tx: tx.run("queue.register", name="mail"), repeatable=True)


def refused(store: Store) -> tuple[Failure, float]:
    begun_s = REAL.monotonic_s()
    with pytest.raises(Failure) as told:
        register(store)
    return told.value, REAL.monotonic_s() - begun_s


@pytest.mark.parametrize("known", [True, False], ids=["connected before", "never connected"])
def test_a_server_that_is_away_is_told_within_two_seconds_with_the_true_cause(
    proxy: FaultProxy, url: str, opened: Callable[..., Store], known: bool
) -> None:
    store = opened(url)
    if known:
        register(store)
    proxy.set(**REFUSED)
    proxy.set(refuse=True)
    failure, took_s = refused(store)
    assert failure.code == "DATABASE_CONNECTION_ERROR"
    assert "refused" in failure.technical
    assert took_s < WITHIN_S
    proxy.heal()
    register(store)


def test_a_server_that_never_answers_is_told_as_such_and_not_as_an_exhausted_pool(
    proxy: FaultProxy, url: str, opened: Callable[..., Store]
) -> None:
    store = opened(f"{url}?pooled=0&{HURRIED}")
    proxy.set(**SILENT)
    failure, _ = refused(store)
    assert failure.code == "DATABASE_CONNECTION_ERROR"
    assert "has not answered" in failure.technical


def test_when_every_connection_hangs_on_a_server_that_is_gone_the_pool_is_not_called_exhausted(
    proxy: FaultProxy, url: str, opened: Callable[..., Store]
) -> None:
    store = opened(f"{url}?pooled=0&{HURRIED}", pool_max=1)
    register(store)
    inside, leave = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        inside.set()
        assert leave.wait(PATIENCE_S)

    holder = threading.Thread(target=lambda: store.atomic(hold, write=False))
    holder.start()
    assert inside.wait(PATIENCE_S)
    proxy.set(refuse=True)
    failure, _ = refused(store)
    assert (failure.code, "refused" in failure.technical) == ("DATABASE_CONNECTION_ERROR", True)
    proxy.heal()
    leave.set()
    holder.join(PATIENCE_S)


def test_a_pool_that_is_only_busy_is_told_as_exhausted(
    url: str, opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.5)
    store = opened(f"{url}?{HURRIED}", pool_max=1)
    register(store)
    inside, leave = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        inside.set()
        assert leave.wait(PATIENCE_S)

    holder = threading.Thread(target=store.atomic, args=(hold,))
    holder.start()
    assert inside.wait(PATIENCE_S)
    failure, _ = refused(store)
    assert failure.code == "DATABASE_POOL_EXHAUSTED"
    leave.set()
    holder.join(PATIENCE_S)


def test_a_server_that_comes_back_in_time_is_waited_for(
    proxy: FaultProxy, url: str, opened: Callable[..., Store]
) -> None:
    store = opened(f"{url}?wait_s={PATIENCE_S}")
    register(store)
    proxy.set(**REFUSED)
    proxy.set(refuse=True)
    back = threading.Timer(0.5, proxy.heal)
    back.start()
    register(store)
    back.join()


STOPPED = """
import sys
from holdfast.store import Store

store = Store.open(sys.argv[1])
print("asks", flush=True)
store.atomic(lambda tx: tx.run("queue.register", name="mail"), repeatable=True)
store.close()
"""


def test_a_process_that_was_stopped_does_not_blame_the_server(proxy: FaultProxy, url: str) -> None:
    """Its attempt to connect began long ago, but nobody was there to take the answer."""
    proxy.set(delay_s=0.2)
    asking = Popen([sys.executable, "-c", STOPPED, f"{url}?pooled=0"], stdout=PIPE, stderr=PIPE, text=True)
    try:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "asks\n"
        wait_until(lambda: proxy.open_connections > 0, within_s=PATIENCE_S, what="that it connects")
        asking.send_signal(SIGSTOP)
        REAL.sleep(WITHIN_S)  # longer than a caller waits for a server that is away
        asking.send_signal(SIGCONT)
        _, said = asking.communicate(timeout=PATIENCE_S)
    finally:
        asking.kill()
    assert (asking.returncode, said) == (0, "")


def test_many_who_ask_at_once_are_all_told_soon(proxy: FaultProxy, url: str, opened: Callable[..., Store]) -> None:
    """While a server is known to be away nobody waits: callers must not queue for each other's waiting."""
    store = opened(f"{url}?{HURRIED}")
    register(store)
    proxy.set(**REFUSED)
    proxy.set(refuse=True)
    refused(store)
    wait_until(
        lambda: store.database._connections._attempts.wait_s == attempts.AWAY_WAIT_S,  # type: ignore[attr-defined]
        within_s=PATIENCE_S,
        what="that the server is known to be away",
    )
    with ThreadPoolExecutor(2) as pool:
        begun_s = REAL.monotonic_s()
        told = list(pool.map(lambda _: refused(store)[0].code, range(20)))
    assert set(told) == {"DATABASE_CONNECTION_ERROR"}
    assert REAL.monotonic_s() - begun_s < 20 * 0.3, "none of them has waited"
    proxy.heal()
    wait_until(
        lambda: store.database._connections._attempts.wait_s > attempts.AWAY_WAIT_S,  # type: ignore[attr-defined]
        within_s=PATIENCE_S,
        what="that somebody saw it come back",
    )
    register(store)


def test_a_request_gets_its_503_within_two_seconds(proxy: FaultProxy, url: str, opened: Callable[..., Store]) -> None:
    store = opened(url)
    register(store)

    async def app(scope: object, receive: object, send: object) -> None:
        await store.atomic_async(lambda tx: tx.run("queue.register", name="mail"))

    with served(Edge(app)) as port:
        proxy.set(**REFUSED)
        proxy.set(refuse=True)
        begun_s = REAL.monotonic_s()
        reply = call(port, "GET", "/")
        took_s = REAL.monotonic_s() - begun_s
        proxy.heal()
    assert (reply.status, reply.json()["error"]["code"]) == (503, "DATABASE_CONNECTION_ERROR")
    assert reply.headers["retry-after"] == "1"
    assert took_s < WITHIN_S


def test_how_long_is_a_setting_of_the_call_the_address_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://u@h/d"
    assert read_address(url).wait_s == 1.5
    monkeypatch.setenv("HOLDFAST_DATABASE_WAIT_S", "4")
    assert read_address(url).wait_s == 4
    address = read_address(f"{url}?wait_s=3")
    assert (address.wait_s, address.target, read_address(str(address))) == (3, url, address)
    assert read_address(f"{url}?wait_s=3", wait_s=2).wait_s == 2
    with pytest.raises(AddressInvalid, match=r"wait_s=soon.*number of seconds"):
        read_address(f"{url}?wait_s=soon")
    monkeypatch.setenv("HOLDFAST_DATABASE_WAIT_S", "0")
    with pytest.raises(AddressInvalid, match=r"HOLDFAST_DATABASE_WAIT_S=0"):
        read_address(url)
