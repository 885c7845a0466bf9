"""What a scrape gets, read back by Prometheus' own parser."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse

from holdfast.store import Store
from holdfast.watch import METRICS, Exposition, metrics_app
from holdfast.watch.flush import Flusher
from holdfast.watch.meter import Meter
from holdfast.worker import Jobs


def counted(store: Store, *events: tuple[str, dict[str, Any]]) -> None:
    meter = Meter()
    for verb, facts in events:
        meter.hear(verb, facts)
    assert Flusher(store, meter).flush()


def samples(text: bytes) -> dict[str, float]:
    """Every sample as it is written, such as `queue_depth{queue="pdf"}`."""
    found = {}
    for family in parse(text.decode()):
        for one in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(one.labels.items()))
            found[f"{one.name}{{{labels}}}" if labels else one.name] = one.value
    return found


async def asked(store: Store, method: str = "GET", accept: str = "*/*") -> tuple[int, dict[str, str], bytes]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": "/", "headers": [(b"accept", accept.encode("latin-1"))]}
    await metrics_app(store)(scope, None, send)  # type: ignore[arg-type]
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"]


def test_every_metric_has_its_type_and_its_help(store: Store) -> None:
    families = {one.name: one for one in parse(Exposition(store).page()[1].decode())}
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)


def test_totals_and_gauges_stand_side_by_side(store: Store) -> None:
    counted(
        store,
        ("job.failed", {"queue": "pdf", "code": "GW_5XX", "duration_us": 300_000}),
        ("job.failed", {"queue": "pdf", "code": "GW_5XX", "duration_us": 3_000_000}),
        ("job.revived", {"queue": "pdf"}),
    )
    Jobs(store).enqueue("convert", {}, queue="pdf")
    found = samples(Exposition(store).page()[1])
    assert found['jobs_failed_total{error_code="GW_5XX",queue="pdf"}'] == 2
    assert found['manual_retry_total{queue="pdf"}'] == 1
    assert found['queue_depth{queue="pdf"}'] == 1
    assert found['jobs_active{queue="pdf"}'] == 0
    assert found["webhook_dead_letters"] == 0
    name = "job_processing_duration_seconds"
    buckets = [
        found[f'{name}_bucket{{le="{le}",queue="pdf"}}'] for le in ("0.25", "0.5", "2.5", "5.0", "300.0", "+Inf")
    ]
    assert buckets == [0, 1, 1, 2, 2, 2]
    assert found[f'{name}_count{{queue="pdf"}}'] == 2
    assert found[f'{name}_sum{{queue="pdf"}}'] == pytest.approx(3.3)


def test_the_success_rate_has_a_value_also_when_nothing_succeeds(store: Store) -> None:
    counted(store, ("delivery.attempted", {"endpoint": "shop", "attempt": 1, "status": 500, "outcome": "retried"}))
    found = samples(Exposition(store).page()[1])
    # The two sides of the quotient must have the same labels, or PromQL finds no pair.
    assert found['webhook_delivery_total{endpoint="shop"}'] == 1
    assert found['webhook_delivery_success_total{endpoint="shop"}'] == 0
    assert found['webhook_delivery_failure_total{endpoint="shop",status_code="500"}'] == 1


def test_what_users_write_cannot_break_the_page(store: Store) -> None:
    hostile = 'a"b\\c\nd} 7\n# TYPE x counter'
    counted(store, ("job.revived", {"queue": hostile}))
    families = [one for one in parse(Exposition(store).page()[1].decode()) if one.name == "manual_retry"]
    assert [one.labels for one in families[0].samples] == [{"queue": hostile}]


async def test_the_reader_chooses_the_format(store: Store) -> None:
    counted(store, ("job.revived", {"queue": "pdf"}))
    status, headers, body = await asked(store, accept="application/openmetrics-text; version=1.0.0")
    assert status == 200
    assert headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")
    assert {one.name for one in parse_open(body.decode())} >= {"manual_retry", "queue_depth"}
    _, headers, body = await asked(store)
    assert headers["content-type"].startswith("text/plain; version=")
    assert samples(body)['manual_retry_total{queue="pdf"}'] == 1


@pytest.mark.parametrize(
    "accept", ["", "text/plain; version=abc", "application/openmetrics-text; version=", "\x00;;,="]
)
async def test_an_odd_accept_header_gets_an_answer(store: Store, accept: str) -> None:
    status, _, body = await asked(store, accept=accept)
    assert (status, b"queue_depth" in body) == (200, True)


async def test_head_tells_the_size_and_sends_nothing(store: Store) -> None:
    status, headers, body = await asked(store, "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 1_000


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "OPTIONS"])
async def test_other_methods_are_refused(store: Store, method: str) -> None:
    status, headers, body = await asked(store, method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert b"METHOD_NOT_ALLOWED" in body


async def test_a_store_that_is_away_is_a_503_without_its_text(store: Store) -> None:
    application = metrics_app(store)
    store.close()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await application({"type": "http", "method": "GET", "path": "/", "headers": []}, None, send)  # type: ignore[arg-type]
    assert sent[0]["status"] >= 500
    assert b"Traceback" not in sent[1]["body"]


def test_a_second_scrape_within_the_moment_reads_nothing(store: Store) -> None:
    exposition = Exposition(store, remembered_s=600)
    before = exposition.page()[1]
    counted(store, ("job.revived", {"queue": "pdf"}))
    assert exposition.page()[1] == before
    assert Exposition(store).page()[1] != before
