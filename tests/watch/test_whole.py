"""From a real worker to the page that Prometheus reads, and from a request to the span of its job."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families as parse

from holdfast.catalog import Failure, continued, current_context, enriched
from holdfast.catalog.core import BAD_REQUEST
from holdfast.store import Store
from holdfast.watch import Exposition, start, trace_events
from holdfast.worker import Handlers, Job, Jobs, QueueSettings, Worker

handlers = Handlers()


@handlers.handle("work")
def work(job: Job) -> str:
    if job.payload["bad"]:
        raise BAD_REQUEST("This cannot be done.")
    return "done"


def test_what_a_worker_did_is_on_the_page_and_in_the_trace(store: Store) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    watching, untraced = start(store, flush_s=600), trace_events(provider)
    try:
        with enriched(**continued(None)):
            request = current_context()
            made = [Jobs(store).enqueue("work", {"bad": bad}, queue="pdf") for bad in (False, False, True)]
        worker = Worker(store, handlers, queues=[QueueSettings("pdf")])
        worker.start()
        try:
            for one in made[:2]:
                assert Jobs(store).wait(one.id, timeout_s=30) == "done"
            with pytest.raises(Failure, match="cannot be done"):
                Jobs(store).wait(made[2].id, timeout_s=30)
        finally:
            worker.stop()
            worker.join()
    finally:
        untraced()
        watching.stop()
    page = Exposition(store).page()[1].decode()
    found = {(one.name, *sorted(one.labels.values())): one.value for family in parse(page) for one in family.samples}
    assert found[("jobs_failed_total", "BAD_REQUEST", "pdf")] == 1
    assert found[("job_processing_duration_seconds_count", "pdf")] == 3
    assert found[("job_transitions_total", "finished", "pdf")] == 2
    assert found[("job_transitions_total", "enqueued", "pdf")] == 3
    assert found[("dead_letters", "pdf")] == 1
    assert found[("queue_depth", "pdf")] == 0
    spans = exporter.get_finished_spans()
    assert [one.name for one in spans] == ["job work"] * 3
    assert {format(one.parent.span_id, "016x") for one in spans if one.parent} == {request.span_id}
    assert {format(one.context.trace_id, "032x") for one in spans if one.context} == {request.trace_id}
