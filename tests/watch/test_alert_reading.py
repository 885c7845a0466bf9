"""Measures read from real numbers: what a process counted and flushed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.catalog import CORE
from holdfast.catalog.fault import Severity
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.watch import names
from holdfast.watch.alert_reading import CAUSES_MAX, Readings, read, read_rule
from holdfast.watch.rules import Rule
from holdfast.watch.rules_builtin import BASELINE_MIN, ERROR_RATE, MEAN_RETRIES, REQUESTS_MIN, RULES, SUCCESS_RATE
from holdfast.watch.rules_measure import Count, Counted, Level, Measure, Quantile
from holdfast.watch.series import StoreSeries

from .alert_scene import Process, open_sqlite, stand_at_a_slice

FAILED = {"code": "UPSTREAM_ERROR", "blame": "upstream", "reason": "attempts_used"}

BY_NAME = {rule.name: rule for rule in RULES}
GOOD = {"outcome": "delivered", "attempt": 1, "status": 200, "duration_s": 0.1}
BAD = {"outcome": "retried", "attempt": 1, "status": 503, "code": "SERVICE_UNAVAILABLE", "duration_s": 0.1}


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    store = open_sqlite(tmp_path)
    yield store
    store.close()


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        stand_at_a_slice(virtual)
        yield virtual


@pytest.fixture
def virtual_store(sqlite_store: Store) -> Store:
    """The series are tested on both engines; what is made of them does not depend on one."""
    return sqlite_store


@pytest.fixture
def process(time: VirtualTime, virtual_store: Store) -> Process:
    return Process(virtual_store)


class Reader:
    def __init__(self, store: Store) -> None:
        self.series = StoreSeries(store)

    def __call__(self, measure: Measure, per: str | None = None) -> Readings:
        return read(measure, per, self.series, self.series.now_us() + 1)

    def of(self, name: str) -> Readings:
        return read_rule(BY_NAME[name], self.series, self.series.now_us() + 1)


@pytest.fixture
def reading(virtual_store: Store, time: VirtualTime) -> Reader:
    return Reader(virtual_store)


def test_a_ratio_is_the_share_in_the_window_and_nothing_where_nothing_happened(
    process: Process, reading: Reader, time: VirtualTime
) -> None:
    assert reading(SUCCESS_RATE) == {}
    process.tell("delivery.attempted", endpoint="a", times=30, **GOOD)
    process.tell("delivery.attempted", endpoint="a", times=10, **BAD)
    process.tell("delivery.attempted", endpoint="b", times=10, **BAD)
    assert reading(SUCCESS_RATE) == {"": 0.6}
    assert reading(SUCCESS_RATE, "endpoint") == {"a": 0.75, "b": 0.0}
    time.advance(320)
    assert reading(SUCCESS_RATE) == {}


def test_an_error_rate_takes_what_is_not_the_callers_own_doing(process: Process, reading: Reader) -> None:
    asked = {"endpoint": "/x", "method": "GET", "duration_s": 0.01}
    process.tell("request.served", status=200, times=15, **asked)
    process.tell("request.served", status=404, **CORE["NOT_FOUND"].facts, times=3, **asked)
    process.tell("request.served", status=500, **CORE["INTERNAL_ERROR"].facts, **asked)
    process.tell("request.served", status=503, code=None, **asked)  # written by the application itself
    assert reading(ERROR_RATE) == {"": pytest.approx(0.1)}


def test_an_error_rate_has_a_minimum_of_requests_and_clients_that_hang_up_are_none(
    process: Process, reading: Reader
) -> None:
    asked = {"endpoint": "/x", "method": "POST", "duration_s": 0.01}
    process.tell("request.served", status=500, **CORE["INTERNAL_ERROR"].facts, times=int(REQUESTS_MIN) - 1, **asked)
    process.tell("request.served", status=499, code=None, times=500, **asked)
    assert reading.of("high_error_rate") == {}
    process.tell("request.served", status=200, **asked)
    assert reading.of("high_error_rate") == {"": 0.95}


def test_the_average_is_of_deliveries_that_ended(process: Process, reading: Reader) -> None:
    assert reading(MEAN_RETRIES) == {}
    process.tell("delivery.attempted", endpoint="a", **{**GOOD, "attempt": 1})
    process.tell("delivery.attempted", endpoint="a", **{**GOOD, "attempt": 6})
    process.tell("delivery.attempted", endpoint="a", **BAD)
    assert reading(MEAN_RETRIES) == {"": 2.5}


def test_only_signature_failures_count_as_such(process: Process, reading: Reader) -> None:
    for code in ("UNAUTHORIZED", "INVALID_SIGNATURE_FORMAT", "SIGNATURE_EXPIRED", "INVALID_PAYLOAD", None):
        process.tell("webhook.received", source="shop", code=code, times=2)
    assert reading.of("webhook_signature_failures") == {"": 6}


def test_one_database_error_that_several_layers_report_counts_once(process: Process, reading: Reader) -> None:
    assert reading.of("database_errors") == {"": 0.0}
    code = "DATABASE_CONNECTION_ERROR"
    process.tell("job.failed", queue="q", code=code, times=4)
    process.tell("request.served", endpoint="/x", method="GET", status=503, code=code, times=7)
    process.tell("request.served", endpoint="/x", method="GET", status=504, code="DATABASE_TIMEOUT", times=2)
    process.tell("request.served", endpoint="/x", method="GET", status=404, code="NOT_FOUND", times=50)
    assert reading.of("database_errors") == {"": 9}


def test_a_service_is_charged_with_its_failures_and_with_calls_its_breaker_turned_down(
    process: Process, reading: Reader
) -> None:
    process.tell("link.gave_up", link="a", **FAILED, times=3)
    process.tell("link.retried", link="a", code="NETWORK_TIMEOUT", blame="upstream", times=2)
    for code in ("NOT_FOUND", "UPSTREAM_REJECTED", "CONFLICT", "RATE_LIMIT_EXCEEDED"):
        process.tell("link.gave_up", link="a", **CORE[code].facts, reason="not_retryable", times=40)
    process.tell("link.rejected", link="a", code="BREAKER_OPEN", reason="breaker_open", times=5)
    process.tell("link.rejected", link="a", code="RATE_LIMIT_EXCEEDED", reason="limit_reached", times=9)
    process.tell("link.gave_up", link="b", **FAILED, times=1)
    assert reading.of("external_service_down") == {"a": 10, "b": 1}


def test_a_surge_is_measured_by_what_is_usual(process: Process, reading: Reader, time: VirtualTime) -> None:
    for _ in range(11):
        process.tell("job.failed", queue="q", code="GW_5XX", times=2)
        process.tell("job.failed", queue="q", code="GW_4XX", times=20)
        time.advance(300)
    time.advance(100)
    process.tell("job.failed", queue="q", code="GW_5XX", times=26)
    process.tell("job.failed", queue="q", code="GW_4XX", times=20)
    process.tell("job.failed", queue="q", code="IO_ERROR", times=10)
    found = reading.of("job_failures_spike")
    assert found["GW_5XX"] == pytest.approx(26 / (48 / 12), rel=0.1)
    assert found["GW_4XX"] == pytest.approx(1, rel=0.1)
    assert "IO_ERROR" not in found  # no more than the least


def test_a_queue_that_is_worked_on_is_not_stuck(process: Process, reading: Reader) -> None:
    process.show(names.QUEUE_OLDEST, "pdf", value=700)
    process.show(names.QUEUE_OLDEST, "mail", value=800)
    process.show(names.JOBS_ACTIVE, "mail", value=1)
    for queue in ("pdf", "mail"):
        process.show(names.QUEUE_WORKERS, queue, value=1)
    assert reading.of("queue_stuck") == {"pdf": 700}
    assert reading(Level(of=names.QUEUE_OLDEST, unless=(names.JOBS_ACTIVE,))) == {"": 700}


def test_quantiles_are_read_for_each_value_of_a_label(process: Process, reading: Reader) -> None:
    process.tell("job.finished", queue="slow", duration_us=20_000_000, times=10)
    process.tell("job.finished", queue="fast", duration_us=20_000, times=10)
    p95 = Quantile(of=Counted(names.JOB_DURATION), share=0.95, over_s=300)
    found = reading(p95, "queue")
    assert 10 < found["slow"] <= 30
    assert found["fast"] <= 0.025
    assert 10 < reading(p95)[""] <= 30


def test_a_rule_that_is_switched_off_reads_nothing(process: Process, reading: Reader) -> None:
    from dataclasses import replace

    process.show(names.WEBHOOK_DEAD, value=120)
    rule = BY_NAME["webhook_dead_letters_critical"]
    assert read_rule(rule, reading.series, reading.series.now_us()) == {"": 120}
    assert read_rule(replace(rule, enabled=False), reading.series, reading.series.now_us()) == {}


@pytest.mark.parametrize(("side", "kept"), [("above", "c0249"), ("below", "c0000")])
def test_of_too_many_causes_those_that_are_worst_off_are_judged(reading: Reader, side: str, kept: str) -> None:
    class Many(StoreSeries):
        def increase_by(self, name, label, **_):
            return {f"c{number:04}": float(number) for number in range(CAUSES_MAX + 50)}

    what = Count(of=(Counted(names.DELIVERIES),), over_s=60)
    rule = Rule(name="r", severity=Severity.WARNING, summary="s", what=what, per="endpoint", **{side: 100})
    found = read_rule(rule, Many(reading.series._store), 1)
    assert len(found) == CAUSES_MAX
    assert kept in found


def test_a_fresh_system_has_no_surge(process: Process, reading: Reader, time: VirtualTime) -> None:
    for code in ("GW_5XX", "IO_ERROR", "JOB_TIMEOUT"):
        process.tell("job.failed", queue="q", code=code, times=40)
    assert reading.of("job_failures_spike") == {}


def test_a_code_that_never_came_before_is_a_surge_where_jobs_went_well(
    process: Process, reading: Reader, time: VirtualTime
) -> None:
    process.tell("job.finished", queue="q", times=int(BASELINE_MIN), duration_us=5)
    time.advance(400)
    process.tell("job.failed", queue="q", code="GW_5XX", times=11)
    assert reading.of("job_failures_spike") == {"GW_5XX": pytest.approx(12)}
