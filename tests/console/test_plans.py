"""Plans: with a large table behind it, every question of the console follows an index, whatever the planner believes.

The pages' own reading functions run on a transaction that explains each statement before it runs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.filters import Filter
from holdfast.console.listing import listed
from holdfast.console.pages import deliveries
from holdfast.console.visit import Visit
from holdfast.operate.audit_log import AuditFilter, entries, entry
from holdfast.operate.dead_groups import count_blocked, latest_groups, most_frequent, summary_of
from holdfast.store import Engine, Store, Tx
from holdfast.store.database import Cursor, Execute
from holdfast.worker.dead_filter import LATEST_US, DeadFilter

INDEXES = {
    "console.newest": {"holdfast_job_pkey"},
    "console.newest_end": {"holdfast_job_pkey"},
    "console.failed": {"holdfast_job_dead", "holdfast_webhook_delivery_job"},
    "dead.walk_end": {"holdfast_job_dead"},
    "dead.walk": {"holdfast_job_dead", "holdfast_webhook_delivery_job"},
    "dead.walk_deliveries": {"holdfast_job_dead", "holdfast_webhook_delivery_job"},
    "dead.bounded_summary": {"holdfast_job_dead", "holdfast_webhook_delivery_job"},
    "dead.blocked_count": {
        "holdfast_job_dead",
        "holdfast_webhook_delivery_job",
        "holdfast_webhook_endpoint_pkey",
    },
    "delivery.blocked": {"holdfast_webhook_delivery_job", "holdfast_webhook_endpoint_pkey"},
    "console.alike": {"holdfast_job_fingerprints"},
    "dead.alike_summary": {"holdfast_job_fingerprints"},
    "dead.first_seen": {"holdfast_job_fingerprints"},
    "dead.examples": {"holdfast_job_pkey"},
    "console.queued": {"holdfast_job_ready"},
    "console.queued_end": {"holdfast_job_ready"},
    "console.processing": {"holdfast_job_held"},
    "console.events_end": {"holdfast_webhook_event_created"},
    "console.deliveries": {"holdfast_webhook_event_created", "holdfast_webhook_delivery_pkey", "holdfast_job_pkey"},
    "delivery.of_job": {
        "holdfast_webhook_delivery_job",
        "holdfast_webhook_event_pkey",
        "holdfast_webhook_endpoint_pkey",
    },
    "job.last_events": {"holdfast_journal_subject", "holdfast_job_pkey"},
    "audit.show": {"holdfast_audit_pkey"},
    "audit.list": {"holdfast_audit_pkey"},
}
"""Each question, and the indexes by which it may find what it needs."""
LARGE = {"holdfast_job", "holdfast_journal", "holdfast_webhook_event", "holdfast_webhook_delivery", "holdfast_audit"}
MODES = ["SET LOCAL plan_cache_mode = force_custom_plan", "SET LOCAL plan_cache_mode = force_generic_plan"]

SERIES = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) INSERT INTO "
JOB = "holdfast_job (id, queue, kind, state, lane, due_us, payload, created_us"
DONE, QUEUED = f"{JOB}, started_us, finished_us)", f"{JOB})"
DEAD, HELD = f"{JOB}, failed_us, error_code, error_message, fingerprint)", f"{JOB}, started_us, lease_owner)"
LOAD = [
    (20_000, f"{DONE} SELECT 'a-' || i, 'q' || (i - i / 9 * 9), 'k', 'complete', 'ready', i, '[]', i, i, i FROM n"),
    (3_000, f"{QUEUED} SELECT 'b-' || i, 'q' || (i - i / 9 * 9), 'k', 'queued', 'ready', i, '[]', i FROM n"),
    (6_000, f"{DEAD} SELECT 'c-' || i, 'q' || (i - i / 9 * 9), 'k', 'failed', 'ready', i, '[]', i, i, 'UNKNOWN', 'm',"
            " 'f' || (i - i / 40 * 40) FROM n"),
    (200, f"{HELD} SELECT 'd-' || i, 'q' || (i - i / 9 * 9), 'k', 'processing', 'ready', i, '[]', i, i,"
          " 'w-\' || (i - i / 5 * 5) FROM n"),
    (20_000, "holdfast_journal (at_us, subject, verb) SELECT i, 'a-' || (i - i / 4000 * 4000), 'claimed' FROM n"),
    (8_000, "holdfast_webhook_event (id, type, body, published_by, created_us)"
            " SELECT 'e-' || i, 't', '[]', 'p', i FROM n"),
    (8_000, "holdfast_webhook_delivery (event_id, endpoint_id, job_id) SELECT 'e-' || i, 'ep', 'a-' || i FROM n"),
    (1, "holdfast_webhook_endpoint (id, url, scheme, event_types, delays_s, headers, timeout_us, retry_after_max_us,"
        " in_flight_max, created_us, disabled_us, disabled_reason)"
        " SELECT 'ep', 'u', 's', '[]', '[]', '[]', 1, 1, 1, 1, 1, 'r' FROM n"),
    (4_000, "holdfast_audit (id, at_us, actor_kind, actor, verb, subject, state, touched_us)"
            " SELECT 'x-' || i, i, 'api', 'ann', 'revive', 's', 'done', i FROM n"),
]  # fmt: skip


def look(tx: Tx) -> None:
    """Everything that the pages ask."""
    for wanted in (
        Filter(), Filter(kind="rare"), Filter(state="complete", queue="q1", tenant="t", text="x"),
        Filter(since_us=1, until_us=9), Filter(state="failed"), Filter(state="failed", queue="q1", text="x"),
        Filter(code="UNKNOWN", since_us=5), Filter(fingerprint="f7"), Filter(fingerprint="f7", queue="q1"),
        Filter(state="queued"), Filter(state="queued", queue="q3", kind="rare"), Filter(state="processing"),
        Filter(state="processing", queue="q2", text="x"),
    ):  # fmt: skip
        one = listed(tx, wanted)
        if one.next is not None:
            listed(tx, wanted, before=one.next)
    for chosen in (Filter(), Filter(queue="q1", text="m"), Filter(since_us=9, code="UNKNOWN")):
        wanted = chosen.dead()
        found = latest_groups(tx, wanted, (LATEST_US, ""))
        latest_groups(tx, wanted, (4_000, "c-4000"))
        assert found.groups, wanted
        most_frequent(tx, wanted, 10)
        most_frequent(tx, wanted, 10, deliveries=True)
        summary_of(tx, wanted)
        count_blocked(tx, wanted)
    assert summary_of(tx, DeadFilter(fingerprint="f7")).count == 150
    for query in ({}, {"state": "failed", "text": "x"}, {"before": '[4000,"e-4000"]'}):
        deliveries._read(tx, Visit(path="/deliveries", query=query), tx.now_us())
    tx.rows("delivery.of_job", job_id="a-7")
    tx.rows("delivery.blocked", ids=[f"a-{number}" for number in range(1_000)])
    tx.rows("job.last_events", subject="a-7", count=200)
    entry(tx, "x-7")
    entries(tx)
    entries(tx, AuditFilter(who="ben", verb="x", subject="job:"), before="x-7")


def explained(store: Store, setting: str = "") -> dict[str, set[str]]:
    """For each question the trouble found in its plans; none is good."""
    names = {statement.text: name for name, statement in store._statements.items()}
    trouble: dict[str, set[str]] = {}
    read = _sqlite if store.engine is Engine.SQLITE else _postgresql
    with store.database.transaction(write=True) as execute:
        if setting:
            execute(setting, {})

        def explaining(text: str, parameters: Mapping[str, Any]) -> Cursor:
            name = names[text]
            if name in INDEXES:
                trouble.setdefault(name, set()).update(read(execute, text, parameters, INDEXES[name]))
            return execute(text, parameters)

        look(Tx(explaining, store._statements, store.engine))
    return trouble


def _sqlite(execute: Execute, text: str, parameters: Mapping[str, Any], allowed: set[str]) -> Iterator[str]:
    for row in execute(f"EXPLAIN QUERY PLAN {text}", parameters).fetchall():
        step = re.match(r"(SCAN|SEARCH) (\w+)(?:.*INDEX (\w+))?", row[3])
        if step is None or f"holdfast_{step[2].removeprefix('holdfast_')}" not in LARGE:
            continue
        index = re.sub(r"sqlite_autoindex_(\w+)_1", r"\1_pkey", step[3] or "")
        # Whole, but in its order and with an end: the walk stops after so many rows.
        walked = step[1] == "SCAN" and index in {
            "holdfast_job_held",
            "holdfast_job_ready",
            "holdfast_job_pkey",
            "holdfast_webhook_event_created",
            "holdfast_audit_pkey",
        }
        if index not in allowed or not (step[1] == "SEARCH" or walked):
            yield row[3]


def _postgresql(execute: Execute, text: str, parameters: Mapping[str, Any], allowed: set[str]) -> Iterator[str]:
    from psycopg.sql import Literal

    order: dict[str, int] = {}
    placed = re.sub(r"%\((\w+)\)s", lambda found: f"${order.setdefault(found[1], len(order) + 1)}", text)
    execute(f"PREPARE explained AS {placed}", {})
    values = ", ".join(Literal(parameters[name]).as_string() for name in order).replace("%", "%%")
    ((plan,),) = execute(f"EXPLAIN (FORMAT JSON) EXECUTE explained{f'({values})' if order else ''}", {}).fetchall()
    execute("DEALLOCATE explained", {})
    yield from _trouble((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"], allowed)


def _trouble(node: dict[str, Any], allowed: set[str]) -> Iterator[str]:
    kind, relation, index = node["Node Type"], node.get("Relation Name"), node.get("Index Name")
    if kind == "Seq Scan" and relation in LARGE:
        yield f"{kind} on {relation}"
    if index is not None and index not in allowed:
        yield f"{kind} using {index}"
    for child in node.get("Plans", []):
        yield from _trouble(child, allowed)


def load(store: Store) -> None:
    with store.database.transaction(write=True) as execute:
        for count, statement in LOAD:
            execute(SERIES.format(count=count) + statement, {})


def analyze(store: Store) -> None:
    with store.database.single() as execute:
        execute("ANALYZE", {})


def good(trouble: Mapping[str, set[str]]) -> None:
    assert set(trouble) == set(INDEXES)
    assert {name: found for name, found in trouble.items() if found} == {}


@pytest.mark.parametrize("refresh", [analyze, lambda store: None], ids=["fresh statistics", "none"])
def test_on_postgresql_every_question_follows_an_index(postgres_dsn: str, refresh: Callable[[Store], None]) -> None:
    store = Store.open(postgres_dsn)
    with store.database.script([f"ALTER TABLE {name} SET (autovacuum_enabled = off)" for name in sorted(LARGE)]):
        pass
    load(store)
    refresh(store)
    try:
        for mode in MODES:
            good(explained(store, mode))
    finally:
        store.close()


def test_on_sqlite_every_question_follows_an_index(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'plans.db'}")
    store.migrate()
    load(store)
    good(explained(store))
    analyze(store)
    good(explained(store))
    store.close()
