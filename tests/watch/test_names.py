"""Every metric is declared once, as the documentation says."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.watch.names import BY_NAME, METRICS, Kind, Metric

UNBOUNDED = {"id", "job", "job_id", "event_id", "message", "technical", "tenant", "worker", "url", "path", "trace"}

ASKED_FOR = {
    "jobs_failed_total": {"error_code"},
    "job_processing_duration_seconds": set(),
    "queue_depth": set(),
    "jobs_active": set(),
    "manual_retry_total": set(),
    "webhook_delivery_total": set(),
    "webhook_delivery_success_total": set(),
    "webhook_delivery_failure_total": {"status_code"},
    "webhook_retry_count": set(),
    "link_attempts_total": {"link"},
    "link_decisions_total": {"link", "decision"},
    "link_breaker_state": {"link"},
    "link_budget_left": {"link"},
}


@pytest.mark.parametrize("name", ASKED_FOR)
def test_the_names_that_dashboards_know_are_there(name: str) -> None:
    assert set(BY_NAME[name].labels) >= ASKED_FOR[name]


def test_no_name_is_declared_twice() -> None:
    assert len(BY_NAME) == len(METRICS)


def test_no_message_and_no_id_is_a_label() -> None:
    assert {label for one in METRICS for label in one.labels} & UNBOUNDED == set()


def test_both_sides_of_the_success_rate_have_the_same_labels() -> None:
    assert BY_NAME["webhook_delivery_success_total"].labels == BY_NAME["webhook_delivery_total"].labels


@pytest.mark.parametrize("one", METRICS, ids=lambda one: one.name)
def test_a_metric_is_well_formed(one: Metric) -> None:
    assert one.help.endswith(".")
    assert one.series_max > 0
    assert list(one.buckets) == sorted(set(one.buckets))
    assert (one.kind is Kind.COUNTER) == one.name.endswith("_total")


@pytest.mark.parametrize(
    ("name", "kind", "buckets"),
    [("x_total", Kind.GAUGE, ()), ("x", Kind.COUNTER, ()), ("x", Kind.HISTOGRAM, ()), ("x", Kind.GAUGE, (1.0,))],
)
def test_a_metric_that_contradicts_itself_is_refused(name: str, kind: Kind, buckets: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="x"):
        Metric(name=name, kind=kind, help="No.", buckets=buckets)


def test_the_reference_page_says_what_the_code_says(root: Path) -> None:
    page = (root / "docs" / "reference" / "metrics.md").read_text()
    listed = [line for line in page.splitlines() if line.startswith("| `")]
    assert listed == [row(one) for one in METRICS]


def test_the_reference_page_lists_the_buckets(root: Path) -> None:
    page = (root / "docs" / "reference" / "metrics.md").read_text()
    for buckets in {one.buckets for one in METRICS if one.buckets}:
        assert f"| {', '.join(format(bound, 'g') for bound in buckets)} |" in page


def row(one: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in one.labels)
    return f"| `{one.name}` | {one.kind} | {labels} | {one.series_max if one.labels else 1} | {one.help} |"
