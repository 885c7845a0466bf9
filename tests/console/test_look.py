"""One look: a page reads everything at one moment, in one transaction, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast.base import bus, replaced
from holdfast.store import Store
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
    assert begun == [False, False], "one asks whether the session was ended, the other reads the page"


def test_in_a_snapshot_time_stands_still(virtual_store: Store) -> None:
    time = VirtualTime()

    def look() -> int:
        return virtual_store.atomic(lambda tx: tx.now_us(), write=False)

    def read() -> None:
        begun_us = look()
        time.advance(5)
        assert look() == begun_us

    with replaced(virtual_world(time)):
        before_us = look()
        virtual_store.snapshot(read)
        assert look() == before_us + 5_000_000


def test_a_snapshot_cannot_write_and_ends_with_what_reads(store: Store) -> None:
    with pytest.raises(TypeError, match="only reads"):
        store.snapshot(lambda: store.atomic(lambda tx: tx.run("queue.register", name="mail")))
    store.atomic(lambda tx: tx.run("queue.register", name="mail"))


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
