"""A store as it is after a busy day: a million jobs in every state, and the numbers of the day beside them.

Written by a few statements of the database itself: what the console reads does not depend on who wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from holdfast.store import Engine, Store
from holdfast.watch import names
from holdfast.watch.flush import bound_text
from holdfast.watch.labels import label_text
from holdfast.watch.names import Kind, Metric
from holdfast.watch.slices import REACH_S, WIDTHS_S
from holdfast.worker import Jobs

DAY_S = 86_400
QUEUES = ("imports", "mail", "payments", "reports", "webhooks")
KINDS = {queue: f"{queue}.run" for queue in QUEUES}
ENDPOINTS = tuple(f"ep_{number}" for number in range(1, 6))
LINKS = ("shop → bank", "shop → mail provider")
CODES = ("NETWORK_TIMEOUT", "BAD_GATEWAY", "RATE_LIMIT_EXCEEDED", "UNKNOWN", "VALIDATION_ERROR", "CONNECTION_REFUSED")
STATUS_CODES = ("429", "500", "503", "none")
VERBS = ("enqueued", "claimed", "finished", "retried", "failed")
BUCKETS_HIT = 6
"""Number of buckets of a histogram that an ordinary slice touches."""
FAILED_OF_1000 = 30
QUEUED_SHARE = 0.01
PROCESSING = 64
REASONS = 4
"""Number of different messages that each code has in each queue."""

_JOBS = """
WITH RECURSIVE numbers(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < {count}),
     days(i, at_us, state) AS (
       SELECT i, {since_us} + i * {apart_us},
              CASE WHEN i > {count} - {processing} THEN 'processing' WHEN i > {count} - {queued} THEN 'queued'
                   WHEN i * 7919 % 1000 < {failed} THEN 'failed' ELSE 'complete' END FROM numbers),
     named(i, at_us, state, queue, code, reason) AS (
       SELECT i, at_us, state, CASE i % {queues} {queue_cases} END, CASE i / 7 % {codes} {code_cases} END,
              i / 11 % {reasons} FROM days)
INSERT INTO holdfast_job (id, tenant, queue, kind, state, lane, due_us, payload, attempt_count, token, created_us,
                 started_us, last_attempt_us, finished_us, failed_us, lease_owner, error_code, error_message,
                 error_technical, fingerprint)
SELECT {id}, 'tenant-' || i % 50, queue, queue || '.run', state,
       CASE WHEN state = 'queued' AND i % 10 = 0 THEN 'waiting' ELSE 'ready' END,
       at_us + CASE WHEN state = 'queued' AND i % 10 = 0 THEN 3600000000 ELSE 0 END,
       '{{"order": ' || i || ', "amount": 1990, "currency": "EUR", "note": "as agreed"}}',
       CASE state WHEN 'queued' THEN 0 WHEN 'failed' THEN 3 ELSE 1 END, 1, at_us,
       CASE WHEN state <> 'queued' THEN at_us + 20000 END, CASE WHEN state <> 'queued' THEN at_us + 20000 END,
       CASE WHEN state = 'complete' THEN at_us + 90000 END, CASE WHEN state = 'failed' THEN at_us + 2000000 END,
       CASE WHEN state = 'processing' THEN 'worker-' || i % 4 END,
       CASE WHEN state = 'failed' THEN code END,
       CASE WHEN state = 'failed' THEN 'The upstream of ' || queue || ' said no, for reason ' || reason || '.' END,
       CASE WHEN state = 'failed' THEN 'ConnectionError: [Errno 111] after ' || i || ' ms' END,
       CASE WHEN state = 'failed' THEN 'f' || queue || code || reason END
  FROM named
"""
_ID = {
    Engine.SQLITE: "printf('%08x-%04x-7000-8000-%012d', at_us / 1000 >> 16, at_us / 1000 & 65535, i)",
    Engine.POSTGRESQL: "lpad(to_hex(at_us / 1000 >> 16), 8, '0') || '-' || lpad(to_hex(at_us / 1000 & 65535), 4, '0')"
    " || '-7000-8000-' || lpad(i::text, 12, '0')",
}
_SLICES = """
WITH RECURSIVE numbers(i) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM numbers WHERE i < {slices} - 1),
     series(n, name, labels, every_s) AS (VALUES {series})
INSERT INTO holdfast_metric_slice (width_s, name, slice_us, labels, value)
SELECT {width_s}, name, {now_us} / {width_us} * {width_us} - i * {width_us}, labels,
       1 + (i * 31 + n * 17) % 23 FROM numbers, series
 WHERE i * {width_s} % every_s < {width_s}
"""
_TOTALS = """
INSERT INTO holdfast_metric_total (name, labels, value, seen_us)
SELECT name, labels, sum(value), {now_us} FROM holdfast_metric_slice WHERE width_s = {width_s} GROUP BY name, labels
"""


def fill(store: Store, jobs: int) -> None:
    """Bring a new store to the evening of its first day."""
    now_us = store.atomic(lambda tx: tx.now_us(), write=False)
    client = Jobs(store)
    for queue in QUEUES:
        client._register(queue)
    client.close()
    with _connection(store) as connection:
        connection.execute(_job_statement(store.engine, jobs, now_us))
        for width_s in WIDTHS_S:
            connection.execute(_slice_statement(width_s, now_us))
        connection.execute(_TOTALS.format(now_us=now_us, width_s=max(WIDTHS_S)))
        connection.commit()
    with _connection(store, autocommit=True) as connection:
        connection.execute("ANALYZE" if store.engine is Engine.SQLITE else "VACUUM (ANALYZE)")


def _connection(store: Store, *, autocommit: bool = False) -> Any:
    from contextlib import closing

    if store.engine is Engine.SQLITE:
        import sqlite3

        return closing(sqlite3.connect(store.address.target, isolation_level=None if autocommit else "DEFERRED"))
    import psycopg

    return psycopg.connect(store.address.target, autocommit=autocommit)


def _job_statement(engine: Engine, count: int, now_us: int) -> str:
    day_us = DAY_S * 1_000_000
    return _JOBS.format(
        count=count,
        since_us=now_us - day_us,
        apart_us=day_us // count,
        processing=PROCESSING,
        queued=int(count * QUEUED_SHARE),
        failed=FAILED_OF_1000,
        queues=len(QUEUES),
        queue_cases=_cases(QUEUES),
        codes=len(CODES),
        code_cases=_cases(CODES),
        reasons=REASONS,
        id=_ID[engine],
    )


def _slice_statement(width_s: int, now_us: int) -> str:
    width_us = width_s * 1_000_000
    slices = min(REACH_S[width_s], DAY_S) // width_s
    series = ", ".join(
        f"({number}, '{name}', '{labels}', {every_s})" for number, (name, labels, every_s) in enumerate(_series())
    )
    return _SLICES.format(slices=slices, width_s=width_s, width_us=width_us, now_us=now_us, series=series)


def _series() -> Iterator[tuple[str, str, int]]:
    """Every series of the day: its name, its labels, and how often it moves."""
    counters: Sequence[tuple[Metric, Sequence[Sequence[str]], int]] = [
        (names.JOB_TRANSITIONS, (QUEUES, VERBS), 1),
        (names.JOBS_FAILED, (QUEUES, CODES), 60),
        (names.JOB_DURATION, (QUEUES,), 1),
        (names.JOB_RETRIES, (QUEUES,), 1),
        (names.DELIVERIES, (ENDPOINTS,), 1),
        (names.DELIVERIES_GOOD, (ENDPOINTS,), 1),
        (names.DELIVERIES_BAD, (ENDPOINTS, STATUS_CODES), 60),
        (names.DELIVERY_DURATION, (ENDPOINTS,), 1),
        (names.DELIVERY_RETRIES, (ENDPOINTS,), 1),
        (names.LINK_ATTEMPTS, (LINKS, ("succeeded", "failed")), 1),
        (names.LINK_DURATION, (LINKS,), 1),
        (names.ERRORS, (("job", "delivery", "link"), CODES), 60),
    ]
    gauges = (names.QUEUE_DEPTH, names.JOBS_ACTIVE, names.QUEUE_OLDEST, names.QUEUE_PAUSED, names.DEAD_LETTERS)
    for metric, values, every_s in [*counters, *((gauge, (QUEUES,), 30) for gauge in gauges)]:
        for labels in _labels(metric, values):
            yield from _rows(metric, labels, every_s)
    for alone in (names.WEBHOOK_DEAD, names.WEBHOOK_DEAD_LATELY):
        yield alone.name, label_text({}), 30


def _labels(metric: Metric, values: Sequence[Sequence[str]]) -> Iterator[dict[str, str]]:
    from itertools import product

    for chosen in product(*values):
        yield dict(zip(metric.labels, chosen, strict=True))


def _rows(metric: Metric, labels: dict[str, str], every_s: int) -> Iterator[tuple[str, str, int]]:
    if metric.kind is not Kind.HISTOGRAM:
        yield metric.name, label_text(labels), every_s
        return
    yield f"{metric.name}_sum", label_text(labels), every_s
    yield f"{metric.name}_count", label_text(labels), every_s
    for bound in metric.buckets[:BUCKETS_HIT]:
        yield f"{metric.name}_bucket", label_text({**labels, "le": bound_text(bound)}), every_s


def _cases(values: Sequence[str]) -> str:
    return " ".join(f"WHEN {place} THEN '{value}'" for place, value in enumerate(values))
