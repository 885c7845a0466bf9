"""From memory to the store: right across processes, once each, and never in the way."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from holdfast.base import bus
from holdfast.catalog.core import DATABASE_CONNECTION_ERROR
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.guard import Link
from holdfast.policy import Breaker, Budget
from holdfast.store import Store, Tx
from holdfast.testing.instant import instant
from holdfast.watch import StoreSeries, names, start
from holdfast.watch.flush import Flusher
from holdfast.watch.gauges import ALIVE_S, Gauges
from holdfast.watch.meter import Meter
from holdfast.watch.names import OTHER


def totals(store: Store) -> dict[tuple[str, str], float]:
    rows = store.atomic(lambda tx: tx.rows("metric.totals", most=10_000), write=False)
    return {(name, labels): value for name, labels, value in rows}


def revive(meter: Meter, times: int = 1, queue: str = "pdf") -> None:
    for _ in range(times):
        meter.hear("job.revived", {"queue": queue})


REVIVED = ("manual_retry_total", '{"queue":"pdf"}')


def test_processes_add_to_the_same_numbers(store: Store) -> None:
    meters = [Meter() for _ in range(3)]
    flushers = [Flusher(store, meter) for meter in meters]
    for turn in range(2):
        for number, meter in enumerate(meters):
            revive(meter, turn + number)
        assert all(one.flush() for one in flushers)
    assert totals(store)[REVIVED] == 0 + 1 + 2 + 1 + 2 + 3


def test_nothing_is_written_when_nothing_was_counted(store: Store) -> None:
    assert Flusher(store, Meter()).flush()
    assert totals(store) == {}
    assert store.atomic(lambda tx: tx.run("metric.seen", process="")) == 0


class Lossy:
    """A store whose next transactions end badly: before they begin, or after they were committed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.endings: list[str] = []

    def atomic(self, phase: Callable[[Tx], object], **asked: bool) -> object:
        ending = self.endings.pop(0) if self.endings else "good"
        if ending == "away":
            raise DATABASE_CONNECTION_ERROR()
        done = self._store.atomic(phase, **asked)
        if ending == "reply lost":
            raise COMMIT_UNKNOWN()
        return done


@pytest.mark.parametrize("ending", ["away", "reply lost"])
def test_a_batch_that_failed_is_added_once(store: Store, ending: str) -> None:
    meter, lossy = Meter(), Lossy(store)
    flusher = Flusher(lossy, meter)  # type: ignore[arg-type]
    lossy.endings = [ending, ending]
    revive(meter, 3)
    assert not flusher.flush()
    revive(meter, 4)
    assert not flusher.flush()
    assert flusher.flush()
    assert totals(store)[REVIVED] == 7
    assert flusher.flush()
    assert totals(store)[REVIVED] == 7


def test_what_waits_for_a_store_that_is_away_is_bounded(store: Store) -> None:
    meter, lossy = Meter(), Lossy(store)
    flusher = Flusher(lossy, meter)  # type: ignore[arg-type]
    lossy.endings = ["away"] * 5
    most = names.MANUAL_RETRIES.series_max
    for turn in range(5):
        for number in range(most):
            revive(meter, queue=f"q{turn}-{number}")
        assert not flusher.flush()
    assert len(flusher._pending) <= 2 * (most + 1) + names.JOB_TRANSITIONS.series_max
    assert flusher.flush()
    counted = [value for (name, _), value in totals(store).items() if name == "manual_retry_total"]
    assert sum(counted) == 5 * most


def test_series_are_bounded_for_all_processes_together(store: Store) -> None:
    most = names.MANUAL_RETRIES.series_max
    for process in range(3):
        meter = Meter()
        for number in range(most - 50):
            revive(meter, queue=f"p{process}-{number}")
        assert Flusher(store, meter).flush()
    found = {labels: value for (name, labels), value in totals(store).items() if name == "manual_retry_total"}
    assert len(found) == most + 1
    assert found[f'{{"queue":"{OTHER}"}}'] == 3 * (most - 50) - most


def test_a_histogram_is_stored_as_its_buckets_its_sum_and_its_count(store: Store) -> None:
    meter = Meter()
    for took_us in (1_000, 5_000, 6_000, 900_000_000):
        meter.hear("job.finished", {"queue": "pdf", "duration_us": took_us})
    assert Flusher(store, meter).flush()
    found = {key: value for key, value in totals(store).items() if key[0].startswith("job_processing")}
    name = "job_processing_duration_seconds"
    assert found == {
        (f"{name}_sum", '{"queue":"pdf"}'): pytest.approx(900.012),
        (f"{name}_count", '{"queue":"pdf"}'): 4,
        (f"{name}_bucket", '{"le":"0.005","queue":"pdf"}'): 2,
        (f"{name}_bucket", '{"le":"0.01","queue":"pdf"}'): 1,
        (f"{name}_bucket", '{"le":"+Inf","queue":"pdf"}'): 1,
    }


def test_a_breaker_of_this_process_shows_while_the_process_is_heard_of(virtual_store: Store) -> None:
    with instant() as time:
        meter = Meter()
        flusher, series = Flusher(virtual_store, meter), StoreSeries(virtual_store)
        meter.hear("breaker.opened", {"name": "bank"})
        assert flusher.flush()
        assert series.gauge("link_breaker_state", where={"link": "bank"}) == 2
        time.advance(ALIVE_S - 1)
        assert flusher.beat()
        time.advance(ALIVE_S - 1)
        assert series.gauge("link_breaker_state", where={"link": "bank"}) == 2
        time.advance(2)
        assert series.gauge("link_breaker_state", where={"link": "bank"}) is None


def test_of_several_processes_the_worst_breaker_shows(store: Store) -> None:
    for verb in ("breaker.closed", "breaker.opened", "breaker.half_opened"):
        meter = Meter()
        meter.hear(verb, {"name": "bank"})
        assert Flusher(store, meter).flush()
    assert StoreSeries(store).gauges("link_breaker_state", "link") == {"bank": 2}


def test_a_breaker_that_processes_share_shows_as_its_table_says(store: Store) -> None:
    meter = Meter()
    meter.hear("breaker.opened", {"name": "pdf"})
    assert Flusher(store, meter).flush()
    trip = {"name": "pdf", "mode": "hold", "reason": "too many failures", "open_us": 1_000_000}
    store.atomic(lambda tx: tx.row("breaker.trip", **trip))
    assert Gauges(store).read()
    generation = store.atomic(lambda tx: tx.row("breaker.probe", name="pdf", probes=1, probe_us=1_000_000))
    assert generation is not None
    store.atomic(lambda tx: tx.row("breaker.recover", name="pdf", generation=generation[0]))
    # Another process has closed it; this one has not heard of that.
    assert StoreSeries(store).gauge("link_breaker_state", where={"link": "pdf"}) == 0


def test_watching_brings_numbers_and_links_to_the_store(store: Store) -> None:
    link = Link("till → bank", breaker=Breaker(), budget=Budget(burst=20))
    watching = start(store, flush_s=600, links=[link])
    try:
        bus.tell("job.revived", queue="pdf", id="7")
        assert watching.flush()
        series = StoreSeries(store)
        assert series.increase("manual_retry_total", over_s=60) == 1
        assert series.gauge("link_breaker_state", where={"link": "till → bank"}) == 0
        assert series.gauge("link_budget_left", where={"link": "till → bank"}) == 20
        bus.tell("job.revived", queue="pdf", id="8")
    finally:
        watching.stop()
    assert totals(store)[REVIVED] == 2
    bus.tell("job.revived", queue="pdf", id="9")
    watching.stop()
    assert totals(store)[REVIVED] == 2
    assert StoreSeries(store).gauge("link_breaker_state") is None


def test_a_link_that_is_gone_is_not_kept_alive(store: Store) -> None:
    link = Link("till → bank", breaker=Breaker())
    watching = start(store, flush_s=600, links=[link])
    try:
        del link
        gc.collect()
        assert not list(watching._links)
    finally:
        watching.stop()


def test_a_closed_store_does_not_disturb_the_process(store: Store) -> None:
    watching = start(store, flush_s=600)
    store.close()
    bus.tell("job.revived", queue="pdf", id="7")
    assert watching.flush() is False
    watching.stop()


PROGRAM = """
import os, sys
from holdfast.base import bus
from holdfast.store import Store
from holdfast.watch import start

store = Store.open(sys.argv[1])
watching = start(store, flush_s=600)
bus.tell("job.revived", queue="pdf", id="1")
child = os.fork()
bus.tell("job.revived", queue="pdf", id="2")
watching.stop()
if child:
    os.waitpid(child, 0)
os._exit(0)
"""


def test_a_forked_child_counts_for_itself(database_url: str) -> None:
    # Later versions of Python warn of every fork beside a thread, which is what is tested here.
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM, database_url]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    store = Store.open(database_url)
    # Once before the fork, and once in each of the two.
    assert totals(store)[REVIVED] == 3
    store.close()


KILLED = """
import sys
from holdfast.base import bus
from holdfast.store import Store
from holdfast.watch import start

watching = start(Store.open(sys.argv[1]), flush_s=600)
bus.tell("job.revived", queue="pdf", id="1")
watching.flush()
bus.tell("job.revived", queue="pdf", id="2")
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_killed_process_loses_only_what_it_had_not_flushed(database_url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, database_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGKILL)
    store = Store.open(database_url)
    assert totals(store)[REVIVED] == 1
    store.close()
