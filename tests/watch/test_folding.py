"""Slices are folded: a bounded number of rows for each series, however many processes count, and every count exact."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import resources
from itertools import pairwise

import pytest

from holdfast.store import Store
from holdfast.testing.instant import VirtualTime, instant
from holdfast.watch import StoreSeries
from holdfast.watch.flush import Flusher
from holdfast.watch.folding import fold
from holdfast.watch.gauges import Gauges
from holdfast.watch.meter import Meter
from holdfast.watch.slices import FOLD_S, LEVELS, SLICES_MAX, WIDTHS_S, Level, width_at
from holdfast.watch.upkeep import Upkeep
from holdfast.worker import Jobs

from .alert_scene import stand_at_a_slice
from .test_flush import Lossy, totals

QUEUES = ("pdf", "mail", "text")
AT_ONCE = (Level(10, 0), Level(30, 0), Level(60, 86_400))
"""Everything is folded as soon as the slice that it goes to is over."""


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        stand_at_a_slice(virtual)
        yield virtual


class Process:
    """A process that counts and flushes, and does its turn of the upkeep."""

    def __init__(self, store: Store) -> None:
        self.meter = Meter()
        self.flusher = Flusher(store, self.meter)
        self.upkeep = Upkeep(store, Gauges(store, remembered_s=0))

    def work(self, times: int) -> None:
        for queue in QUEUES:
            for _ in range(times):
                self.meter.hear("job.finished", {"queue": queue, "duration_us": 20_000})
        assert self.flusher.flush()
        self.upkeep.run()


def slices(store: Store) -> list[tuple[int, str, int, str, float]]:
    read = "SELECT width_s, name, slice_us, labels, value FROM holdfast_metric_slice"
    return store.atomic(lambda tx: list(tx._execute(read, {}).fetchall()), write=False)


def slices_of(store: Store, name: str) -> int:
    """How many there are; a test that looks two thousand times need not read them all."""
    count = f"SELECT count(*) FROM holdfast_metric_slice WHERE name = '{name}'"
    return store.atomic(lambda tx: int(tx._execute(count, {}).fetchone()[0]), write=False)


def counted_in_slices(store: Store) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for _, name, _, labels, value in slices(store):
        found[name, labels] = found.get((name, labels), 0.0) + value
    return found


@pytest.mark.parametrize("processes", [1, 3])
def test_a_series_has_a_bounded_number_of_rows_however_many_processes_count(
    virtual_store: Store, time: VirtualTime, processes: int
) -> None:
    crew = [Process(virtual_store) for _ in range(processes)]
    grown = []
    for _ in range(40):
        for _ in range(6):
            for one in crew:
                one.work(times=2)
            time.advance(10)
        grown.append(len(slices(virtual_store)))
    rows: dict[tuple[str, str], int] = {}
    for _, name, _, labels, _ in slices(virtual_store):
        rows[name, labels] = rows.get((name, labels), 0) + 1
    # 40 minutes: 330 s in slices of ten seconds, up to 21 min in slices of thirty, the rest in minutes.
    assert max(rows.values()) <= 33 + 31 + 20 + 3 + 2 * FOLD_S // 10
    last = grown[-1] - grown[-11]
    assert last <= len(rows) * 10, "once all levels are full, a minute brings one row for each series"
    told = processes * 40 * 6 * 2
    assert {value for (name, _), value in counted_in_slices(virtual_store).items() if name.endswith("_total")} == {told}
    assert StoreSeries(virtual_store).increase("job_processing_duration_seconds_count", over_s=86_400) == 3 * told


def test_the_bound_holds_for_the_whole_time_that_numbers_are_kept(virtual_store: Store, time: VirtualTime) -> None:
    meter = Meter()
    flusher, upkeep = Flusher(virtual_store, meter), Upkeep(virtual_store, Gauges(virtual_store))
    most = 0
    step_s = 600
    for number in range(16 * 86_400 // step_s):
        # Not every second of two weeks: enough that every coarse slice has something.
        for _ in range(3 if number % 12 == 0 else 1):
            meter.hear("job.revived", {"queue": "pdf"})
            assert flusher.flush()
            time.advance(10)
        time.advance(step_s - 10 * (3 if number % 12 == 0 else 1))
        if number % 6 == 0:
            upkeep.prune()
        fold(virtual_store)
        most = max(most, slices_of(virtual_store, "manual_retry_total"))
    assert most <= SLICES_MAX
    assert SLICES_MAX < 850


def test_windows_and_charts_say_the_same_before_and_after(virtual_store: Store, time: VirtualTime) -> None:
    one, series = Process(virtual_store), StoreSeries(virtual_store)
    begun_us = series.now_us()
    for _ in range(60):
        one.meter.hear("job.revived", {"queue": "pdf"})
        assert one.flusher.flush()
        time.advance(60)
    now_us = series.now_us()
    windows = (60, 300, 900, 1_800, 3_600)
    chart = {"since_us": begun_us, "until_us": now_us, "step_s": 60}
    before = [series.increase("manual_retry_total", over_s=over_s) for over_s in windows]
    drawn = series.points("manual_retry_total", **chart)
    assert fold(virtual_store) > 0
    assert [series.increase("manual_retry_total", over_s=over_s) for over_s in windows] == before
    assert series.points("manual_retry_total", **chart) == drawn
    assert sum(point[""] for _, point in drawn) == 60
    assert fold(virtual_store) == 0, "what was folded is not folded again"


def test_the_highest_sample_of_a_gauge_stays(virtual_store: Store, time: VirtualTime) -> None:
    jobs, series = Jobs(virtual_store), StoreSeries(virtual_store)
    upkeep = Upkeep(virtual_store, Gauges(virtual_store, remembered_s=0))
    begun_us = series.now_us() // 3_600_000_000 * 3_600_000_000
    for number in range(3):
        for _ in range(number):
            jobs.enqueue("convert", {}, queue="pdf")
        upkeep.sample()
        time.advance(60)
    time.advance(2 * 86_400)
    assert fold(virtual_store) > 0
    points = series.points("queue_depth", since_us=begun_us, until_us=begun_us + 3_600_000_000, step_s=3_600)
    assert [one.get("") for _, one in points] == [3.0]
    jobs.close()


@pytest.mark.parametrize("ending", ["away", "reply lost"])
def test_a_fold_that_failed_is_done_once(virtual_store: Store, time: VirtualTime, ending: str) -> None:
    one, lossy = Process(virtual_store), Lossy(virtual_store)
    one.work(times=5)
    time.advance(3_600)
    before = counted_in_slices(virtual_store)
    for _ in range(3):
        lossy.endings = [ending]
        with pytest.raises(Exception, match=r"DATABASE_CONNECTION_ERROR|COMMIT_UNKNOWN"):
            fold(lossy)  # type: ignore[arg-type]
        assert counted_in_slices(virtual_store) == before
    fold(virtual_store)
    assert counted_in_slices(virtual_store) == before


def test_processes_that_count_and_fold_at_the_same_time_lose_nothing_and_count_nothing_twice(store: Store) -> None:
    meters = [Meter() for _ in range(3)]
    flushers = [Flusher(store, meter) for meter in meters]
    # What was counted a while ago, so that there is something to fold at once.
    for flusher, meter in zip(flushers, meters, strict=True):
        meter.hear("job.revived", {"queue": "old"})
        assert flusher.flush()
    store.atomic(lambda tx: tx._execute("UPDATE holdfast_metric_slice SET slice_us = slice_us - 600000000", {}))
    troubles: list[BaseException] = []

    def count(flusher: Flusher, meter: Meter) -> None:
        try:
            for number in range(40):
                meter.hear("job.revived", {"queue": f"q{number % 5}"})
                assert flusher.flush()
                fold(store, AT_ONCE)
        except BaseException as error:
            troubles.append(error)

    threads = [threading.Thread(target=count, args=pair) for pair in zip(flushers, meters, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    revived = {key: value for key, value in totals(store).items() if key[0] == "manual_retry_total"}
    assert sum(revived.values()) == 3 * 41
    in_slices = counted_in_slices(store)
    assert {key: in_slices[key] for key in revived} == revived
    assert not [row for row in slices(store) if row[0] == 10 and '"old"' in row[3]], "the old ones were folded"


KILLED = """
import sys
from holdfast.store import Store
from holdfast.watch.folding import _batch
from holdfast.watch.slices import Level

def phase(tx):
    assert _batch(tx, level=Level(10, 0), coarser=Level(60, 0)) > 0
    print("folded, not committed", flush=True)
    sys.stdin.read()

Store.open(sys.argv[1]).atomic(phase)
"""


def test_a_process_that_is_killed_in_the_middle_of_a_fold_loses_nothing(database_url: str) -> None:
    store = Store.open(database_url)
    meter = Meter()
    meter.hear("job.revived", {"queue": "pdf"})
    assert Flusher(store, meter).flush()
    store.atomic(lambda tx: tx._execute("UPDATE holdfast_metric_slice SET slice_us = slice_us - 600000000", {}))
    before = slices(store)
    words = [sys.executable, "-c", KILLED, database_url]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "folded, not committed\n"
        os.kill(process.pid, signal.SIGKILL)
    assert slices(store) == before
    assert fold(store) > 0
    assert sum(value for _, name, _, _, value in slices(store) if name == "manual_retry_total") == 1
    store.close()


@pytest.mark.parametrize(
    ("age_s", "width_s"), [(0, 10), (300, 10), (901, 30), (3_600, 60), (90_000, 300), (1e7, 3_600)]
)
def test_what_happened_longer_ago_is_known_less_finely(age_s: float, width_s: int) -> None:
    assert width_at(age_s) == width_s
    assert [level.width_s for level in LEVELS] == sorted(level.width_s for level in LEVELS)
    for fine, coarse in pairwise(LEVELS):
        assert coarse.width_s % fine.width_s == 0


def test_the_statements_that_read_slices_name_every_width() -> None:
    text = resources.files("holdfast.store").joinpath("sql/metric.sql").read_text("utf-8")
    named = re.findall(r"width_s IN \(([0-9, ]+)\)", text)
    assert {tuple(map(int, one.split(", "))) for one in named} == {WIDTHS_S}
    assert len(named) == 3
