"""Counting in memory: exact across threads, bounded whatever comes in."""

from __future__ import annotations

import threading

import pytest

from holdfast.catalog import CORE
from holdfast.watch import names
from holdfast.watch.counting import JOB_VERBS, RULES
from holdfast.watch.meter import FOLD_AT, LABEL_CHARS_MAX, Meter
from holdfast.watch.names import METRICS, OTHER


def taken(meter: Meter) -> dict[tuple[str, ...], float]:
    """What was counted, by name and label values; histograms by how many observations they have."""
    return {
        (one.metric.name, *one.values): float(sum(one.buckets)) if one.buckets else one.amount for one in meter.take()
    }


def heard(verb: str, **facts: object) -> dict[tuple[str, ...], float]:
    meter = Meter()
    meter.hear(verb, facts)
    return taken(meter)


@pytest.mark.parametrize("verb", JOB_VERBS)
def test_every_transition_of_a_job_is_counted(verb: str) -> None:
    assert heard(f"job.{verb}", queue="pdf", id="7")[("job_transitions_total", "pdf", verb)] == 1


@pytest.mark.parametrize(
    ("verb", "facts", "expected"),
    [
        (
            "job.failed",
            {"queue": "pdf", "code": "GW_5XX", "duration_us": 5},
            {
                ("job_transitions_total", "pdf", "failed"): 1,
                ("job_processing_duration_seconds", "pdf"): 1,
                ("job_retry_count", "pdf"): 1,
                ("jobs_failed_total", "pdf", "GW_5XX"): 1,
                ("errors_total", "job", "GW_5XX", "none"): 1,
            },
        ),
        (
            "job.retried",
            {"queue": "pdf", "code": "GW_TIMEOUT", "attempt": 1, "duration_us": 5},
            {
                ("job_transitions_total", "pdf", "retried"): 1,
                ("job_processing_duration_seconds", "pdf"): 1,
                ("errors_total", "job", "GW_TIMEOUT", "none"): 1,
                ("retries_total", "job"): 1,
                ("retry_success_total", "job"): 0,
            },
        ),
        (
            "job.finished",
            {"queue": "pdf", "attempt": 2, "duration_us": 5},
            {
                ("job_transitions_total", "pdf", "finished"): 1,
                ("job_processing_duration_seconds", "pdf"): 1,
                ("job_retry_count", "pdf"): 1,
                ("retry_success_total", "job"): 1,
            },
        ),
        (
            "job.revived",
            {"queue": "pdf", "id": "7"},
            {("job_transitions_total", "pdf", "revived"): 1, ("manual_retry_total", "pdf"): 1},
        ),
        (
            "delivery.attempted",
            {"endpoint": "shop", "attempt": 1, "status": 200, "outcome": "delivered", "duration_s": 0.1},
            {
                ("webhook_delivery_total", "shop"): 1,
                ("webhook_delivery_success_total", "shop"): 1,
                ("webhook_delivery_duration_seconds", "shop"): 1,
                ("webhook_retry_count", "shop"): 1,
            },
        ),
        (
            "delivery.attempted",
            {"endpoint": "shop", "attempt": 1, "status": 503, "code": "UNAVAILABLE", "outcome": "retried"},
            {
                ("webhook_delivery_total", "shop"): 1,
                ("webhook_delivery_success_total", "shop"): 0,
                ("webhook_delivery_failure_total", "shop", "503"): 1,
                ("errors_total", "delivery", "UNAVAILABLE", "none"): 1,
                ("retries_total", "delivery"): 1,
                ("retry_success_total", "delivery"): 0,
            },
        ),
        (
            "delivery.attempted",
            {"endpoint": "shop", "attempt": 6, "status": None, "code": "NETWORK_TIMEOUT", "outcome": "dead"},
            {
                ("webhook_delivery_total", "shop"): 1,
                ("webhook_delivery_success_total", "shop"): 0,
                ("webhook_delivery_failure_total", "shop", "none"): 1,
                ("webhook_retry_count", "shop"): 1,
                ("errors_total", "delivery", "NETWORK_TIMEOUT", "none"): 1,
            },
        ),
        (
            "webhook.received",
            {"source": "shop", "code": "INVALID_SIGNATURE"},
            {
                ("webhook_received_total", "shop"): 1,
                ("webhook_rejected_total", "shop", "INVALID_SIGNATURE"): 1,
                ("errors_total", "webhook", "INVALID_SIGNATURE", "none"): 1,
            },
        ),
        ("webhook.received", {"source": "shop", "code": None}, {("webhook_received_total", "shop"): 1}),
        (
            "request.served",
            {"endpoint": "/orders/{id}", "method": "GET", "status": 200, "code": None, "duration_s": 0.1},
            {
                ("http_requests_total", "/orders/{id}", "GET", "200"): 1,
                ("http_request_duration_seconds", "/orders/{id}", "good"): 1,
            },
        ),
        (
            "request.served",
            {"endpoint": "/orders", "method": "BREW", "status": 500, "code": "INTERNAL_ERROR", "duration_s": 0.1},
            {
                ("http_requests_total", "/orders", "other", "500"): 1,
                ("http_request_duration_seconds", "/orders", "failed"): 1,
                ("http_errors_total", "/orders", "INTERNAL_ERROR", "server"): 1,
                ("errors_total", "request", "INTERNAL_ERROR", "none"): 1,
            },
        ),
        (
            "link.succeeded",
            {"link": "shop → bank", "attempt": 2, "duration_s": 0.1},
            {
                ("link_attempts_total", "shop → bank", "succeeded"): 1,
                ("link_duration_seconds", "shop → bank"): 1,
                ("retry_success_total", "link"): 1,
            },
        ),
        (
            "link.retried",
            {"link": "bank", "attempt": 1, **CORE["NETWORK_TIMEOUT"].facts, "delay_s": 1.0},
            {
                ("link_attempts_total", "bank", "failed"): 1,
                ("link_failures_total", "bank", "NETWORK_TIMEOUT", "upstream"): 1,
                ("link_decisions_total", "bank", "retried", ""): 1,
                ("errors_total", "link", "NETWORK_TIMEOUT", "none"): 1,
                ("retries_total", "link"): 1,
                ("retry_success_total", "link"): 0,
            },
        ),
        (
            "link.gave_up",
            {"link": "bank", "attempt": 3, **CORE["NETWORK_TIMEOUT"].facts, "reason": "attempts_used"},
            {
                ("link_attempts_total", "bank", "failed"): 1,
                ("link_failures_total", "bank", "NETWORK_TIMEOUT", "upstream"): 1,
                ("link_decisions_total", "bank", "gave_up", "attempts_used"): 1,
                ("errors_total", "link", "NETWORK_TIMEOUT", "none"): 1,
            },
        ),
        (
            "link.gave_up",
            {"link": "bank", "attempt": 1, "code": "NETWORK_TIMEOUT", "reason": "breaker_open"},
            {("link_decisions_total", "bank", "gave_up", "breaker_open"): 1},
        ),
        (
            "link.rejected",
            {"link": "bank", "attempt": 0, "code": "BREAKER_OPEN", "reason": "breaker_open"},
            {
                ("link_decisions_total", "bank", "rejected", "breaker_open"): 1,
                ("errors_total", "link", "BREAKER_OPEN", "none"): 1,
            },
        ),
        (
            "step.failed",
            {"system": "reports", **CORE["STORAGE_FULL"].facts},
            {("errors_total", "step", "STORAGE_FULL", "critical"): 1},
        ),
        (
            "worker.trouble",
            CORE["STORAGE_FULL"].facts,
            {
                ("worker_trouble_total", "STORAGE_FULL"): 1,
                ("errors_total", "worker", "STORAGE_FULL", "critical"): 1,
            },
        ),
    ],
)
def test_an_event_counts_as_its_rule_says(
    verb: str, facts: dict[str, object], expected: dict[tuple[str, ...], float]
) -> None:
    assert heard(verb, **facts) == expected


@pytest.mark.parametrize(("attempt", "retries"), [(None, 0), (0, 0), (1, 0), (4, 3)])
@pytest.mark.parametrize("verb", ["job.finished", "job.failed"])
def test_a_job_that_ends_tells_how_often_it_was_retried(verb: str, attempt: int | None, retries: int) -> None:
    meter = Meter()
    meter.hear(verb, {"queue": "pdf", "attempt": attempt})
    [found] = [one for one in meter.take() if one.metric.name == "job_retry_count"]
    assert (found.values, found.amount, found.buckets[retries]) == (("pdf",), retries, 1)


@pytest.mark.parametrize("verb", sorted(RULES))
def test_an_event_that_tells_nothing_disturbs_nobody(verb: str) -> None:
    heard(verb)


def test_a_verb_that_nobody_knows_counts_as_nothing() -> None:
    assert heard("tea.brewed", queue="kitchen") == {}


def test_every_counted_metric_has_a_rule_that_feeds_it() -> None:
    meter = Meter()
    outcomes = {"status": 503, "outcome": "dead", "code": "X", "attempt": 2, "duration_us": 1, "duration_s": 0.1}
    for verb in RULES:
        meter.hear(verb, {"queue": "q", "link": "l", "endpoint": "e", "source": "s", "method": "GET", **outcomes})
    fed = {one.metric.name for one in meter.take()}
    assert {one.name for one in METRICS if one.kind is not names.Kind.GAUGE} - fed == set()


def test_threads_lose_no_count() -> None:
    meter, threads, each = Meter(), 8, 2_000

    def tell() -> None:
        for _ in range(each):
            meter.hear("job.revived", {"queue": "pdf"})

    running = [threading.Thread(target=tell) for _ in range(threads)]
    for one in running:
        one.start()
    total = 0.0
    while any(one.is_alive() for one in running):
        total += taken(meter).get(("manual_retry_total", "pdf"), 0)
    total += taken(meter).get(("manual_retry_total", "pdf"), 0)
    assert total == threads * each


def test_what_waits_to_be_counted_is_bounded() -> None:
    meter = Meter()
    for _ in range(10 * FOLD_AT):
        meter.hear("job.revived", {"queue": "pdf"})
        assert len(meter._heard) < FOLD_AT


def test_what_was_taken_is_not_taken_again() -> None:
    meter = Meter()
    meter.hear("job.revived", {"queue": "pdf"})
    assert taken(meter)
    assert taken(meter) == {}


def test_a_label_with_too_many_values_ends_in_other() -> None:
    meter, most = Meter(), names.MANUAL_RETRIES.series_max
    for number in range(3 * most):
        meter.hear("job.revived", {"queue": f"q{number}"})
    found = {key: value for key, value in taken(meter).items() if key[0] == "manual_retry_total"}
    assert len(found) == most + 1
    assert found[("manual_retry_total", OTHER)] == 2 * most
    assert sum(found.values()) == 3 * most


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("x" * 1_000, "x" * LABEL_CHARS_MAX),
        ("a\0b", "ab"),
        ("half \ud800", "half ?"),
        (None, "unknown"),
        (7, "7"),
    ],
)
def test_a_label_is_text_that_every_database_takes(value: object, label: str) -> None:
    assert ("manual_retry_total", label) in heard("job.revived", queue=value)


def test_breakers_show_their_state() -> None:
    meter = Meter()
    for verb, level in (("opened", 2.0), ("half_opened", 1.0), ("closed", 0.0)):
        meter.hear(f"breaker.{verb}", {"name": "bank"})
        assert meter.gauges() == {("link_breaker_state", ("bank",)): level}


def test_gauges_are_bounded_too() -> None:
    meter = Meter()
    for number in range(names.LINK_BREAKER.series_max + 50):
        meter.hear("breaker.opened", {"name": f"b{number}"})
    assert len(meter.gauges()) == names.LINK_BREAKER.series_max
