"""Numbers over time: windows, charts and quantiles, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from holdfast.base import bus
from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.testing.instant import VirtualTime, instant
from holdfast.watch import names
from holdfast.watch.flush import Flusher
from holdfast.watch.folding import fold
from holdfast.watch.gauges import Gauges
from holdfast.watch.meter import Meter
from holdfast.watch.names import BY_NAME
from holdfast.watch.series import POINTS_MAX, StoreSeries, quantile_of
from holdfast.watch.slices import SHORT_S
from holdfast.watch.upkeep import Upkeep
from holdfast.worker import Jobs

from .alert_scene import stand_at_a_slice

SLICE_US = SHORT_S * 1_000_000


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        stand_at_a_slice(virtual)
        yield virtual


class Counted:
    """A process that counts and flushes when it is told to."""

    def __init__(self, store: Store) -> None:
        self.meter = Meter()
        self.flusher = Flusher(store, self.meter)

    def tell(self, verb: str, *, times: int = 1, **facts: object) -> None:
        for _ in range(times):
            self.meter.hear(verb, facts)
        assert self.flusher.flush()


@pytest.fixture
def counted(time: VirtualTime, virtual_store: Store) -> Counted:
    return Counted(virtual_store)


@pytest.fixture
def series(virtual_store: Store) -> StoreSeries:
    return StoreSeries(virtual_store)


def failed(counted: Counted, code: str, *, queue: str = "pdf", times: int = 1) -> None:
    counted.tell("job.failed", queue=queue, code=code, duration_us=20_000, times=times)


def test_an_increase_covers_its_window_and_nothing_before(
    counted: Counted, series: StoreSeries, time: VirtualTime
) -> None:
    failed(counted, "GW_5XX", times=3)
    time.advance(60)
    failed(counted, "GW_5XX", times=2)
    assert series.increase("jobs_failed_total", over_s=30) == 2
    assert series.increase("jobs_failed_total", over_s=60) == 5
    time.advance(45)
    assert series.increase("jobs_failed_total", over_s=30) == 0
    assert series.increase("jobs_failed_total", over_s=60) == 2


def test_a_window_can_end_in_the_past(counted: Counted, series: StoreSeries, time: VirtualTime) -> None:
    failed(counted, "GW_5XX", times=3)
    time.advance(30)
    then_us = series.now_us()
    time.advance(SHORT_S)
    failed(counted, "GW_5XX", times=4)
    assert series.increase("jobs_failed_total", over_s=60, until_us=then_us) == 3


def test_a_filter_and_a_label_pick_out_series(counted: Counted, series: StoreSeries) -> None:
    failed(counted, "GW_5XX", times=3)
    failed(counted, "GW_4XX", times=2)
    failed(counted, "GW_5XX", queue="mail")
    assert series.increase("jobs_failed_total", over_s=60, where={"error_code": "GW_5XX"}) == 4
    assert series.increase_by("jobs_failed_total", "error_code", over_s=60) == {"GW_5XX": 4, "GW_4XX": 2}
    assert series.increase_by("jobs_failed_total", "queue", over_s=60, where={"error_code": "GW_5XX"}) == {
        "pdf": 3,
        "mail": 1,
    }
    assert series.increase("jobs_failed_total", over_s=60, where={"error_code": "NONE"}) == 0


def test_a_window_of_days_is_read_from_long_slices(
    counted: Counted, series: StoreSeries, time: VirtualTime, virtual_store: Store
) -> None:
    failed(counted, "GW_5XX", times=3)
    time.advance(86_400)
    failed(counted, "GW_5XX", times=4)
    assert fold(virtual_store) > 0
    assert series.increase("jobs_failed_total", over_s=2 * 86_400) == 7
    assert series.increase("jobs_failed_total", over_s=3_600) == 4


def test_old_slices_are_pruned_and_totals_stay(
    counted: Counted, series: StoreSeries, time: VirtualTime, virtual_store: Store
) -> None:
    failed(counted, "GW_5XX", times=3)
    upkeep = Upkeep(virtual_store, Gauges(virtual_store))
    assert upkeep.prune() == 0
    time.advance(15 * 86_400)
    assert fold(virtual_store) > 0
    assert upkeep.prune() > 0
    assert virtual_store.atomic(lambda tx: tx.rows("metric.points", **_everything("jobs_failed_total"))) == []
    totals = {name: value for name, _, value in virtual_store.atomic(lambda tx: tx.rows("metric.totals", most=1_000))}
    assert totals["jobs_failed_total"] == 3


def _everything(name: str) -> dict[str, object]:
    return {"name": name, "since_us": 0, "until_us": 2**60, "step_us": 3_600_000_000}


def test_a_chart_has_every_step_and_zeros_where_nothing_grew(
    counted: Counted, series: StoreSeries, time: VirtualTime
) -> None:
    begun_us = series.now_us() // SLICE_US * SLICE_US
    failed(counted, "GW_5XX", times=3)
    time.advance(40)
    failed(counted, "GW_4XX", times=2)
    span = {"since_us": begun_us, "until_us": begun_us + 60_000_000, "step_s": 20}
    points = series.points("jobs_failed_total", **span)
    assert [at_us - begun_us for at_us, _ in points] == [0, 20_000_000, 40_000_000]
    assert [one[""] for _, one in points] == [3, 0, 2]
    assert [one for _, one in series.points("jobs_failed_total", **span, by="error_code")] == [
        {"GW_5XX": 3, "GW_4XX": 0},
        {"GW_5XX": 0, "GW_4XX": 0},
        {"GW_5XX": 0, "GW_4XX": 2},
    ]
    filtered = series.points("jobs_failed_total", **span, where={"error_code": "GW_4XX"})
    assert [one[""] for _, one in filtered] == [0, 0, 2]


@pytest.mark.parametrize(("span_s", "step_s"), [(0, 10), (-5, 10), (60, 0), ((POINTS_MAX + 2) * SHORT_S, SHORT_S)])
def test_a_chart_that_makes_no_sense_is_a_bad_request(
    series: StoreSeries, time: VirtualTime, span_s: float, step_s: float
) -> None:
    begun_us = series.now_us() // SLICE_US * SLICE_US
    with pytest.raises(Failure) as refused:
        series.points("queue_depth", since_us=begun_us, until_us=begun_us + int(span_s * 1_000_000), step_s=step_s)
    assert refused.value.code == "BAD_REQUEST"


def test_quantiles_come_from_buckets(counted: Counted, series: StoreSeries, time: VirtualTime) -> None:
    begun_us = series.now_us() // SLICE_US * SLICE_US
    counted.tell("job.finished", queue="pdf", duration_us=200_000, times=90)
    counted.tell("job.finished", queue="pdf", duration_us=4_000_000, times=10)
    median = series.quantile("job_processing_duration_seconds", 0.5, over_s=60)
    high = series.quantile("job_processing_duration_seconds", 0.95, over_s=60)
    assert median == pytest.approx(0.1 + 0.15 * 50 / 90)
    assert high == pytest.approx(2.5 + 2.5 * 5 / 10)
    assert series.quantile("job_processing_duration_seconds", 0.5, over_s=60, where={"queue": "mail"}) is None
    assert series.increase("job_processing_duration_seconds_count", over_s=60) == 100
    assert series.increase("job_processing_duration_seconds_sum", over_s=60) == pytest.approx(58.0)
    over_time = series.quantiles(
        "job_processing_duration_seconds", [0.5, 0.95], since_us=begun_us, until_us=begun_us + 20_000_000, step_s=10
    )
    assert over_time == [(begun_us, {0.5: median, 0.95: high}), (begun_us + 10_000_000, {})]


def test_buckets_are_a_distribution(counted: Counted, series: StoreSeries) -> None:
    for attempt, outcome in ((1, "delivered"), (1, "delivered"), (3, "delivered"), (6, "dead")):
        counted.tell("delivery.attempted", endpoint="shop", attempt=attempt, outcome=outcome)
    counted.tell("delivery.attempted", endpoint="shop", attempt=1, outcome="retried")
    found = series.buckets("webhook_retry_count", over_s=60)
    assert {bound: count for bound, count in found.items() if count} == {0.0: 2, 2.0: 1, 5.0: 1}
    assert found[float("inf")] == 0


@pytest.mark.parametrize(
    ("buckets", "q", "expected"),
    [
        ({}, 0.5, None),
        ({1.0: 0.0, float("inf"): 0.0}, 0.5, None),
        ({1.0: 10.0}, 0.5, 0.5),
        ({1.0: 10.0}, 0.0, 0.0),
        ({1.0: 10.0}, 1.0, 1.0),
        ({1.0: 5.0, 2.0: 5.0}, 0.75, 1.5),
        ({1.0: 5.0, 2.0: 0.0, 4.0: 5.0}, 0.75, 3.0),
        ({1.0: 5.0, float("inf"): 5.0}, 0.9, 1.0),
        ({0.0: 10.0, 1.0: 0.0}, 0.5, 0.0),
    ],
)
def test_a_quantile_is_interpolated_as_prometheus_does(
    buckets: dict[float, float], q: float, expected: float | None
) -> None:
    assert quantile_of(buckets, q) == expected


def test_gauges_show_what_stands_in_the_tables(series: StoreSeries, virtual_store: Store, time: VirtualTime) -> None:
    jobs = Jobs(virtual_store)
    for number in range(5):
        jobs.enqueue("convert", {"number": number}, queue="pdf" if number < 3 else "mail")
    time.advance(7)
    assert series.gauge("queue_depth") == 5
    assert series.gauges("queue_depth", "queue") == {"pdf": 3, "mail": 2}
    assert series.gauge("queue_depth", where={"queue": "mail"}) == 2
    assert series.gauge("queue_oldest_seconds") == pytest.approx(7, abs=0.5)
    assert series.gauge("webhook_dead_letters") == 0
    assert series.gauge("link_breaker_state") is None


def test_gauges_have_no_more_series_than_they_declare(
    series: StoreSeries, virtual_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded = replace(names.QUEUE_DEPTH, series_max=3)
    monkeypatch.setitem(BY_NAME, names.QUEUE_DEPTH.name, bounded)
    for number in range(6):
        Jobs(virtual_store).enqueue("k", queue=f"tenant-{number}")
    assert series.gauges("queue_depth", "queue") == {"tenant-0": 1, "tenant-1": 1, "tenant-2": 1, "other": 3}
    assert series.gauge("queue_depth") == 6


def test_a_gauge_is_charted_by_its_samples(series: StoreSeries, virtual_store: Store, time: VirtualTime) -> None:
    jobs, begun_us = Jobs(virtual_store), series.now_us() // SLICE_US * SLICE_US
    upkeep = Upkeep(virtual_store, Gauges(virtual_store, remembered_s=0))
    for _ in range(3):
        jobs.enqueue("convert", {}, queue="pdf")
        upkeep.run()
        time.advance(30)
    points = series.points("queue_depth", since_us=begun_us, until_us=begun_us + 200_000_000, step_s=30, by="queue")
    assert [one.get("pdf") for _, one in points] == [1, 2, 3, 3, 3, 3, None]


def test_one_process_samples_for_all(virtual_store: Store, time: VirtualTime) -> None:
    first, second = (Upkeep(virtual_store, Gauges(virtual_store, remembered_s=0)) for _ in range(2))
    Jobs(virtual_store).enqueue("convert", {}, queue="pdf")
    first.run()
    Jobs(virtual_store).enqueue("convert", {}, queue="pdf")
    second.run()
    rows = virtual_store.atomic(lambda tx: tx.rows("metric.points", **_everything("queue_depth")))
    assert [row[3] for row in rows] == [1.0]


def test_the_bus_reaches_the_series(virtual_store: Store, series: StoreSeries, time: VirtualTime) -> None:
    meter = Meter()
    end = bus.listen(meter.hear)
    try:
        bus.tell("job.revived", queue="pdf", id="7")
    finally:
        end()
    assert Flusher(virtual_store, meter).flush()
    assert series.increase("manual_retry_total", over_s=60) == 1
