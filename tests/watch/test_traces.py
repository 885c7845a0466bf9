"""Traces: a request, its job, its calls and its webhook are one tree of spans."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from holdfast.base import bus, now_us
from holdfast.catalog import Context, continued, current_context, enriched
from holdfast.testing.instant import instant
from holdfast.watch import trace_events

INCOMING = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


@pytest.fixture
def spans(exporter: InMemorySpanExporter, provider: TracerProvider) -> Iterator[Callable[[], list[ReadableSpan]]]:
    end = trace_events(provider)
    yield lambda: list(exporter.get_finished_spans())
    end()


def ids(span: ReadableSpan) -> tuple[str, str, str | None]:
    """Trace, span and parent, in hex."""
    assert span.context is not None
    parent = None if span.parent is None else format(span.parent.span_id, "016x")
    return format(span.context.trace_id, "032x"), format(span.context.span_id, "016x"), parent


def served(**facts: object) -> None:
    bus.tell("request.served", method="POST", endpoint="/orders", **{"status": 202, "duration_s": 0.2, **facts})


def enqueued() -> Context:
    """A request comes in, calls the bank and enqueues a job; what the job carries along."""
    with enriched(**continued(INCOMING)):
        bus.tell("link.succeeded", link="shop → bank", attempt=1, duration_s=0.1)
        served(parent=INCOMING)
        return current_context()


def test_a_request_a_job_and_a_webhook_are_one_tree(spans: Callable[[], list[ReadableSpan]]) -> None:
    request = enqueued()
    with enriched(**continued(request.traceparent)):
        attempt = current_context()
        bus.tell("delivery.attempted", endpoint="shop", event_type="order.paid", attempt=1, outcome="delivered")
    facts = {"id": "7", "kind": "notify", "queue": "webhooks", "attempt": 1, "duration_us": 50_000}
    bus.tell("job.finished", **facts, trace=request.traceparent, span=attempt.span_id)

    link, served_span, delivery, job = spans()
    assert [one.name for one in spans()] == ["link shop → bank", "POST /orders", "webhook delivery", "job notify"]
    assert {ids(one)[0] for one in spans()} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    assert ids(served_span)[1:] == (request.span_id, "00f067aa0ba902b7")
    assert ids(link)[2] == request.span_id
    assert ids(job)[1:] == (attempt.span_id, request.span_id)
    assert ids(delivery)[2] == attempt.span_id


def test_a_request_that_brought_no_trace_is_the_root_of_its_own(spans: Callable[[], list[ReadableSpan]]) -> None:
    with enriched(**continued(None)):
        here = current_context()
        served()
    assert ids(spans()[0]) == (here.trace_id, here.span_id, None)


def test_a_span_has_the_times_that_the_thing_had(spans: Callable[[], list[ReadableSpan]]) -> None:
    with instant():
        ended_us = now_us()
        bus.tell("link.retried", link="bank", attempt=1, code="NETWORK_TIMEOUT", delay_s=1.0, duration_s=0.25)
    (span,) = spans()
    assert (span.start_time, span.end_time) == (ended_us * 1_000 - 250_000_000, ended_us * 1_000)


@pytest.mark.parametrize(
    ("verb", "facts", "failed"),
    [
        ("link.succeeded", {"link": "bank"}, False),
        ("link.retried", {"link": "bank", "code": "X"}, True),
        ("link.gave_up", {"link": "bank", "code": "X", "reason": "attempts_used"}, True),
        ("link.rejected", {"link": "bank", "code": "X", "reason": "breaker_open"}, True),
        ("job.finished", {"kind": "k", "duration_us": 1}, False),
        ("job.retried", {"kind": "k", "duration_us": 1, "code": "X"}, True),
        ("job.failed", {"kind": "k", "duration_us": 1, "code": "X"}, True),
        ("job.snoozed", {"kind": "k", "duration_us": 1}, False),
        ("delivery.attempted", {"outcome": "delivered", "status": 200}, False),
        ("delivery.attempted", {"outcome": "dead", "code": "X"}, True),
        ("request.served", {"status": 404, "code": "X"}, False),
        ("request.served", {"status": 500, "code": "X"}, True),
    ],
)
def test_a_failure_is_told_by_its_code(
    spans: Callable[[], list[ReadableSpan]], verb: str, facts: dict[str, object], failed: bool
) -> None:
    bus.tell(verb, **facts, message="for people", technical="password=hunter22")
    (span,) = spans()
    assert span.status.status_code is (api.StatusCode.ERROR if failed else api.StatusCode.UNSET)
    assert (span.attributes or {}).get("error.type") == ("X" if failed else None)
    assert "hunter22" not in span.to_json()


@pytest.mark.parametrize("verb", ["job.enqueued", "job.claimed", "job.failed", "breaker.opened", "queue.paused"])
def test_what_took_no_time_is_no_span(spans: Callable[[], list[ReadableSpan]], verb: str) -> None:
    bus.tell(verb, id="7", kind="k", code="X")
    assert spans() == []


def test_a_call_outside_any_trace_of_ours_hangs_on_the_users_own_span(
    spans: Callable[[], list[ReadableSpan]], provider: TracerProvider
) -> None:
    with provider.get_tracer("mine").start_as_current_span("my work") as mine:
        bus.tell("link.succeeded", link="bank", attempt=1)
    link = spans()[0]
    assert ids(link)[2] == format(mine.get_span_context().span_id, "016x")


def test_ids_that_others_make_are_left_alone(spans: Callable[[], list[ReadableSpan]], provider: TracerProvider) -> None:
    enqueued()
    with provider.get_tracer("mine").start_as_current_span("my work"):
        pass
    found = [ids(one) for one in spans()]
    assert len({one[1] for one in found}) == 3
    assert found[-1][0] != found[0][0]


def test_a_trace_that_is_not_sampled_makes_no_span(exporter: InMemorySpanExporter) -> None:
    quiet = TracerProvider(sampler=ParentBased(ALWAYS_OFF))
    quiet.add_span_processor(SimpleSpanProcessor(exporter))
    end = trace_events(quiet)
    with enriched(**continued(INCOMING.removesuffix("01") + "00")):
        bus.tell("link.succeeded", link="bank", attempt=1)
    end()
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize("trace", ["", "garbage", None, "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_a_job_whose_trace_is_no_good_has_one_of_its_own(
    spans: Callable[[], list[ReadableSpan]], trace: str | None
) -> None:
    bus.tell("job.finished", kind="k", duration_us=1, trace=trace, span="a" * 16)
    (span,) = spans()
    assert ids(span)[1:] == ("a" * 16, None)
    assert ids(span)[0] != "0" * 32


ALONE = """
import sys
from holdfast.base import bus
{before}
from holdfast.watch import trace_events

end = trace_events()
bus.tell("link.succeeded", link="bank", attempt=1)
end()
print("fine")
"""


@pytest.mark.parametrize("before", ["", "sys.modules['opentelemetry.trace'] = None"], ids=["no SDK", "not installed"])
def test_nothing_is_required(before: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE.format(before=before)], capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == ("fine\n", "")
