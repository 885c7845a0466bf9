"""One look: a page reads everything at one moment, in one transaction, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.base import bus, replaced
from holdfast.console.look import LookStore, LookTx
from holdfast.store import Store, Tx
from holdfast.testing.instant import VirtualTime, virtual_world
from holdfast.watch.flush import Flusher
from holdfast.watch.meter import Meter
from holdfast.worker import Jobs

from .asking import Asker
from .making import finish, kill

PAGES = ["/", "/?scope=endpoint:", "/?scope=link:&range=24h", "/jobs", "/dead", "/deliveries", "/alerts", "/breakers"]


@contextmanager
def counting(store: Store) -> Iterator[list[bool]]:
    """The transactions that are begun, each with whether it may write."""
    begun: list[bool] = []
    real = store.database.transaction

    def transaction(*, write: bool) -> Any:
        begun.append(write)
        return real(write=write)

    store.database.transaction = transaction  # type: ignore[method-assign]
    try:
        yield begun
    finally:
        del store.database.transaction  # type: ignore[method-assign]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_read_in_one_transaction(store: Store, jobs: Jobs, inside: Asker, path: str) -> None:
    kill(store, jobs, 2)
    finish(store, jobs, 1)
    with counting(store) as begun:
        assert inside.get(path).status == 200
    assert begun == [False]


def test_while_a_page_is_made_its_time_stands_still(virtual_store: Store) -> None:
    time = VirtualTime()

    def phase(tx: Tx) -> None:
        look = LookTx(tx)
        begun_us = look.now_us()
        time.advance(5)
        assert look.now_us() == begun_us
        assert LookTx(tx).now_us() == begun_us + 5_000_000

    with replaced(virtual_world(time)):
        virtual_store.atomic(phase, write=False)


def test_whoever_only_looks_cannot_write(store: Store) -> None:
    def phase(tx: Any) -> None:
        LookStore(store, tx).atomic(lambda inner: inner.run("queue.register", name="mail"))

    with pytest.raises(TypeError, match="only reads"):
        store.atomic(phase, write=False)


def test_what_was_heard_of_lately_can_be_chosen(store: Store, inside: Asker) -> None:
    meter = Meter()
    deaf = bus.listen(meter.hear)
    bus.tell("job.finished", queue="mail & more", attempt=3, duration_us=5)
    bus.tell("link.succeeded", link="shop → bank", attempt=1, duration_s=0.1)
    deaf()
    Flusher(store, meter).flush()
    text = inside.get("/").text
    assert 'value="queue:mail &amp; more"' in text
    assert 'value="link:shop → bank"' in text
    assert "Retries of a job" in text
    assert "2: 1" in text, "one job ended after two retries"
