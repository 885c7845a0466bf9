"""Spans over OTLP/HTTP: what the environment names gets them as protobuf, and a collector that is away harms nobody."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from holdfast.catalog import Failure, continued, current_context, enriched
from holdfast.cli.telemetry import traced
from holdfast.store import Store
from holdfast.worker import Handlers, Job, Jobs, Worker

from ..delivery.loopback import Loopback

handlers = Handlers()


@handlers.handle("work")
def work(job: Job) -> str:
    if job.payload["bad"]:
        raise ValueError("password=hunter22")
    return "done"


@pytest.fixture
def collector() -> Iterator[Loopback]:
    """Speaks OTLP as far as an exporter can tell: it takes everything and answers 200 with an empty message."""
    receiver = Loopback()
    yield receiver
    receiver.close()


def run(store: Store) -> tuple[str, str]:
    """A worker does one job and fails another, both enqueued by one request; the request's trace and span."""
    jobs = Jobs(store)
    with enriched(**continued(None)):
        request = current_context()
        good, bad = (jobs.enqueue("work", {"bad": bad}, attempts=1).id for bad in (False, True))
    worker = Worker(store, handlers)
    worker.start()
    try:
        assert jobs.wait(good, timeout_s=60) == "done"
        with pytest.raises(Failure):
            jobs.wait(bad, timeout_s=60)
    finally:
        worker.stop()
        worker.join()
        jobs.close()
    return request.trace_id, request.span_id


def arrived(collector: Loopback) -> list[tuple[str, Span]]:
    """Every span that came in, with the name of the service that sent it."""
    found = []
    for got in collector.got:
        assert (got.path, got.headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
        for resource in ExportTraceServiceRequest.FromString(got.body).resource_spans:
            service = next(one.value.string_value for one in resource.resource.attributes if one.key == "service.name")
            found += [(service, span) for scope in resource.scope_spans for span in scope.spans]
    return found


def test_the_spans_of_jobs_arrive_at_a_collector(
    store: Store, collector: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    with traced(environment):
        trace_id, parent_id = run(store)
    spans = arrived(collector)
    assert [(service, span.name) for service, span in spans] == [("holdfast", "job work")] * 2
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for _, span in spans} == {(trace_id, parent_id)}
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for _, span in spans)
    told = {span.status.code: {one.key: one.value.string_value for one in span.attributes} for _, span in spans}
    assert told[Status.STATUS_CODE_UNSET]["holdfast.outcome"] == "finished"
    assert told[Status.STATUS_CODE_ERROR]["error.type"] == "UNKNOWN"
    assert b"hunter22" not in b"".join(got.body for got in collector.got)


def test_jobs_are_done_while_no_collector_listens(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and nobody listens
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.05")
        with traced({"OTEL_EXPORTER_OTLP_ENDPOINT": address}):
            run(store)
