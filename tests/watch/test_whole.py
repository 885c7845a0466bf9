"""From a real worker to the page that Prometheus reads, and from a request to the spans of its job and its webhook."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families as parse

from holdfast.catalog import Failure, continued, current_context, enriched
from holdfast.catalog.core import BAD_REQUEST
from holdfast.delivery import Deliveries
from holdfast.guard import Link
from holdfast.http import Edge
from holdfast.policy import Backoff, Retry
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.watch import Exposition, metrics_app, start, trace_events
from holdfast.worker import Handlers, Job, Jobs, QueueSettings, Worker

from ..delivery.loopback import Loopback, Say, post

BANK = "test_whole → bank"
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

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
                assert Jobs(store).wait(one.id, timeout_s=60) == "done"
            with pytest.raises(Failure, match="cannot be done"):
                Jobs(store).wait(made[2].id, timeout_s=60)
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


def shop(deliveries: Deliveries) -> Edge:
    """Takes orders: the bank is asked, which refuses once, and whoever wants to know is told."""
    api = FastAPI()
    bank = Link(BANK, retry=Retry(attempts=2, backoff=Backoff.listed(0.0)))
    refusals = [ConnectionRefusedError()]

    def charge() -> None:
        if refusals:
            raise refusals.pop()

    @api.post("/orders")
    def order() -> dict[str, str]:
        bank.call(charge)
        return {"event": deliveries.publish("order.paid", {"order": 7}).id}

    return Edge(api)


def asked(app: Any, method: str, path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask())


def test_one_request_is_counted_at_every_layer_and_is_one_trace_as_far_as_the_receiver(store: Store) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    receiver = Loopback()
    receiver.answers["/"].append(Say(500))
    jobs = Jobs(store)
    deliveries = Deliveries(store, jobs)
    endpoint = deliveries.endpoints.add(receiver.url, delays_s=[0.01])
    worker = Worker(store, deliveries.handlers(post), queues=[deliveries.queue()])
    # Nothing is flushed by the clock: who is scraped brings its own numbers.
    watching, untraced = start(store, flush_s=600), trace_events(provider)
    try:
        worker.start()
        event = asked(shop(deliveries), "POST", "/orders", traceparent=CALLER).json()["event"]
        done = lambda: deliveries.history(event).deliveries[0].state == "complete"  # noqa: E731
        wait_until(done, within_s=60, what="the event is delivered")
        worker.stop()
        worker.join()
        page = asked(metrics_app(store), "GET", "/metrics").text
    finally:
        worker.stop()
        untraced()
        watching.stop()
        jobs.close()
        receiver.close()
    found = {(one.name, *sorted(one.labels.values())): one.value for family in parse(page) for one in family.samples}
    to = endpoint.id
    wanted = {
        ("http_requests_total", "/orders", "200", "POST"): 1,
        ("link_attempts_total", "failed", BANK): 1,
        ("link_attempts_total", "succeeded", BANK): 1,
        ("link_failures_total", "CONNECTION_REFUSED", BANK, "upstream"): 1,
        ("link_decisions_total", "", "retried", BANK): 1,
        ("link_duration_seconds_count", BANK): 2,
        ("job_transitions_total", "enqueued", "webhooks"): 1,
        ("job_transitions_total", "retried", "webhooks"): 1,
        ("job_transitions_total", "finished", "webhooks"): 1,
        ("webhook_delivery_total", to): 2,
        ("webhook_delivery_success_total", to): 1,
        ("webhook_delivery_failure_total", "500", to): 1,
        ("webhook_retry_count_count", to): 1,
        ("webhook_retry_count_sum", to): 1,
        ("webhook_delivery_duration_seconds_count", to): 2,
    }
    assert {key: found.get(key) for key in wanted} == wanted

    spans = exporter.get_finished_spans()
    trace_id, caller = CALLER.split("-")[1:3]
    assert sorted(one.name for one in spans) == [
        "POST /orders", "job webhook.deliver", "job webhook.deliver", f"link {BANK}", f"link {BANK}",
        "webhook delivery", "webhook delivery",
    ]  # fmt: skip
    assert {format(one.context.trace_id, "032x") for one in spans if one.context} == {trace_id}
    ids = {one.name: set() for one in spans}
    parents = {one.name: set() for one in spans}
    for one in spans:
        assert one.context
        assert one.parent
        ids[one.name].add(format(one.context.span_id, "016x"))
        parents[one.name].add(format(one.parent.span_id, "016x"))
    assert parents["POST /orders"] == {caller}
    assert parents[f"link {BANK}"] == parents["job webhook.deliver"] == ids["POST /orders"]
    assert parents["webhook delivery"] == ids["job webhook.deliver"]
    # The receiver is told by which attempt it was called.
    sent = [got.headers["traceparent"].split("-") for got in receiver.got]
    assert {one[1] for one in sent} == {trace_id}
    assert {one[2] for one in sent} == ids["job webhook.deliver"]
