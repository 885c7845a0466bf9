"""Plans: with a large table behind them, claims and settlements stay look-ups, whatever the planner believes.

The real moves are made on a store that explains each statement before it runs it, and everything is rolled back.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalog.core import CONSTRAINT_VIOLATED, NETWORK_TIMEOUT
from holdfast.store import Engine, Store, Tx
from holdfast.store.database import Cursor, Execute
from holdfast.worker import Jobs, NewJob, joined, ledger, sequences
from holdfast.worker.settlement import failed

LOOK_UPS = {
    "job.claim": {"holdfast_job_pkey", "holdfast_job_ready", "holdfast_queue_pkey"},
    # Where only few wait, the planner may find them through the other index as well.
    "job.promote": {"holdfast_job_pkey", "holdfast_job_waiting", "holdfast_job_ready"},
    "job.next_due": {"holdfast_job_waiting"},
    "job.see": {"holdfast_job_pkey", "holdfast_job_unseen"},
    "job.finishing": {"holdfast_job_pkey"},
    "job.finish": {"holdfast_job_pkey"},
    "job.retry": {"holdfast_job_pkey"},
    "job.fail": {"holdfast_job_pkey"},
    "job.abandoned": {"holdfast_job_held"},
    "job.cancels": {"holdfast_job_held"},
    "job.twin": {"holdfast_job_unique_key"},
    "job.free_unique": {"holdfast_job_unique_key"},
    "job.outcome": {"holdfast_job_pkey"},
    "job.history": {"holdfast_job_pkey", "holdfast_journal_subject"},
    "job.settled_claims": {"holdfast_journal_subject", "holdfast_job_pkey"},
    "worker.leave": {"holdfast_job_held", "holdfast_worker_pkey"},
    "worker.gone": {"holdfast_job_held", "holdfast_worker_pkey"},
    "worker.renew": {"holdfast_worker_pkey", "holdfast_worker_lease"},
    "worker.look": {
        "holdfast_job_held",
        "holdfast_job_waiting",
        "holdfast_job_unseen",
        "holdfast_job_blocked",
        "holdfast_worker_lease",
    },
    "delivery.endpoint": {"holdfast_webhook_endpoint_pkey"},
    "delivery.secrets": {"holdfast_webhook_secret_of"},
    "delivery.breaker": {"holdfast_breaker_pkey"},
    "delivery.published": {"holdfast_webhook_event_pkey"},
    "delivery.body": {"holdfast_webhook_event_pkey"},
    "delivery.deliveries": {"holdfast_webhook_delivery_pkey", "holdfast_job_pkey"},
    "delivery.undelivered": {
        "holdfast_webhook_delivery_job",
        "holdfast_webhook_event_pkey",
        "holdfast_journal_subject",
    },
    "delivery.prune_deliveries": {"holdfast_webhook_delivery_pkey"},
    "delivery.prune_events": {"holdfast_webhook_event_pkey"},
    "sequence.join": {"holdfast_job_pkey"},
    "sequence.next": {"holdfast_job_pkey", "holdfast_job_blocked"},
    "sequence.lock": {"holdfast_job_sequence_pkey"},
    "sequence.start": {
        "holdfast_job_pkey",
        "holdfast_job_blocked",
        "holdfast_job_head",
        "holdfast_job_sequence_pkey",
    },
    "sequence.stalled": {"holdfast_job_blocked", "holdfast_job_head", "holdfast_job_sequence_pkey"},
    "sequence.waiting": {"holdfast_job_blocked"},
    "idempotency.write_keys": {"holdfast_idempotency_pkey"},
}
"""Each statement, and the indexes by which it may find what it needs."""
ROWID = "rowid"
PARTIAL = {"holdfast_job_held", "holdfast_job_waiting", "holdfast_job_unseen"}
"""Indexes that may be read whole: they hold few rows."""
LOOK_UPS_SQLITE = {
    "job.hold": {ROWID},
    "job.journal_finished": {"holdfast_job_pkey"},
    "job.just_finished": {"holdfast_job_pkey", "holdfast_journal_subject"},
}
"""Those that PostgreSQL does not need."""
OF_POSTGRESQL = {"idempotency.write_keys"}

OURS = re.compile(
    r"(SCAN|SEARCH) (job|journal|worker|settled|claimed|queue|behind|head|known|webhook_\w+|breaker"
    r"|holdfast_(?!job_event)\w+)\b"
)
"""A step of a plan of SQLite that reads one of our tables, by its name or its alias."""
LARGE = {
    "holdfast_job",
    "holdfast_journal",
    "holdfast_webhook_event",
    "holdfast_webhook_delivery",
    "holdfast_idempotency",
}
SMALL = {
    "holdfast_worker",
    "holdfast_queue",
    "holdfast_breaker",
    "holdfast_webhook_endpoint",
    "holdfast_webhook_secret",
    "holdfast_job_sequence",
}
WORKER = "w-1"
BATCH = 300
EXPLAINED_MAX = 5
"""A statement that is run again and again is explained so often."""

SERIES = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "
COLUMNS = "id, queue, kind, state, lane, due_us, payload, created_us"
LOAD = [
    SERIES.format(count=20_000) + f"INSERT INTO holdfast_job ({COLUMNS}, started_us, finished_us)"
    " SELECT 'done-' || i, 'default', 'k', 'complete', 'ready', i, '{}', i, i, i FROM n",
    SERIES.format(count=2_000)
    + f"INSERT INTO holdfast_job ({COLUMNS}) SELECT 'ready-' || i, 'default', 'k', 'queued', 'ready',"
    " i, '{}', i FROM n",
    SERIES.format(count=1_000)
    + f"INSERT INTO holdfast_job ({COLUMNS}, unique_key, dedupe_key) SELECT 'later-' || i, 'default',"
    " 'k', 'queued', 'waiting', i, '{}', i, 'key-' || i, 'key-' || i FROM n",
    SERIES.format(count=1_000)
    + f"INSERT INTO holdfast_job ({COLUMNS}, failed_us, error_code) SELECT 'dead-' || i, 'default',"
    " 'k', 'failed', 'ready', i, '{}', i, i, 'UNKNOWN' FROM n",
    SERIES.format(count=200)
    + f"INSERT INTO holdfast_job ({COLUMNS}, started_us, lease_owner, token, attempt_count) SELECT 'held-' || i,"
    " 'default', 'k', 'processing', 'ready', i, '{}', i, i, 'w-2', 1, 1 FROM n",
    SERIES.format(count=20)
    + f"INSERT INTO holdfast_job ({COLUMNS}, token) SELECT 'unseen-' || i, 'other', 'k', 'queued', 'ready',"
    " i, '{}', i, -1 FROM n",
    SERIES.format(count=5_000)
    + "INSERT INTO holdfast_webhook_endpoint (id, url, scheme, event_types, delays_s, headers,"
    " timeout_us, retry_after_max_us, in_flight_max, created_us)"
    " SELECT 'ep-' || i, 'http://a/', 'standard', '[]', '[]', '{}', 1, 1, 1, i FROM n",
    SERIES.format(count=5_000) + "INSERT INTO holdfast_webhook_secret (id, endpoint_id, secret, created_us)"
    " SELECT 's-' || i, 'ep-' || i, 'x', i FROM n",
    SERIES.format(count=5_000) + "INSERT INTO holdfast_breaker (name) SELECT 'webhook:ep-' || i FROM n",
    SERIES.format(count=20_000)
    + "INSERT INTO holdfast_webhook_event (id, type, order_key, body, published_by, created_us)"
    " SELECT 'evt-' || i, 'order.paid', 'k', '{}', 'p', i FROM n",
    SERIES.format(count=20_000) + "INSERT INTO holdfast_webhook_delivery (event_id, endpoint_id, job_id)"
    " SELECT 'evt-' || i, 'ep-' || (i - i / 100 * 100), 'done-' || i FROM n",
    SERIES.format(count=5_000)
    + f"INSERT INTO holdfast_job ({COLUMNS}, sequence, sequence_position) SELECT 'blocked-' || i, 'third', 'k',"
    " 'queued', 'blocked', i, '{}', i, 's-' || (i - i / 10 * 10), i FROM n",
    SERIES.format(count=5_000)
    + "INSERT INTO holdfast_job_sequence (name, position, used_us) SELECT 's-' || (i - 1), 5000, i FROM n",
    SERIES.format(count=20_000)
    + "INSERT INTO holdfast_idempotency (tenant, operation, key, request_hash, state, token,"
    " lease_until_us, first_seen_us, last_seen_us, expires_us)"
    " SELECT '', 'webhook.receive', 'evt-' || i, 'h', 'working', i, i, i, i, i FROM n",
    SERIES.format(count=20_000)
    + "INSERT INTO holdfast_journal (at_us, subject, verb) SELECT i, 'done-' || i, 'enqueued' FROM n",
]


class Undone(Exception):
    """Ends a transaction without a trace."""


class Explained:
    """The plan of every statement that was run, by its name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names = {statement.text: name for name, statement in store._statements.items()}
        self._begins = {one.values.before: name for name, one in store._statements.items() if one.values}
        self._runs: Counter[str] = Counter()
        self.plans: dict[str, list[str]] = {}
        """For each statement the trouble found in its plan; none is good."""

    def run(self, moves: Callable[[Tx], None], *, setting: str = "") -> None:
        try:
            with self._store.database.transaction(write=True) as execute:
                execute(setting or "SELECT 1", {})
                moves(Tx(self._explaining(execute), self._store._statements, self._store.engine))
                raise Undone
        except Undone:
            return

    def _named_by_its_beginning(self, text: str) -> str:
        """A statement whose rows are bound value by value has a text for each number of rows."""
        return max((len(before), name) for before, name in self._begins.items() if text.startswith(before))[1]

    def _explaining(self, execute: Execute) -> Execute:
        sqlite = self._store.engine is Engine.SQLITE
        read = _trouble_in_sqlite if sqlite else _trouble_in_postgresql
        look_ups = {**LOOK_UPS, **LOOK_UPS_SQLITE} if sqlite else LOOK_UPS

        def explained(text: str, parameters: Mapping[str, Any]) -> Cursor:
            name = self._names.get(text) or self._named_by_its_beginning(text)
            if name in look_ups and self._runs[name] < EXPLAINED_MAX:
                self._runs[name] += 1
                self.plans.setdefault(name, []).extend(read(execute, text, parameters, look_ups[name]))
            return execute(text, parameters)

        return explained


def _trouble_in_sqlite(execute: Execute, text: str, parameters: Mapping[str, Any], indexes: set[str]) -> list[str]:
    steps = [row[3] for row in execute(f"EXPLAIN QUERY PLAN {text}", parameters).fetchall()]
    ours = [step for step in steps if OURS.match(step)]
    assert ours, steps
    return [step for step in ours if not _is_lookup(step, indexes)]


def _is_lookup(step: str, indexes: set[str]) -> bool:
    # The primary keys of SQLite have names of their own.
    used = re.search(r"INDEX (\w+)", step)
    index = re.sub(r"sqlite_autoindex_(\w+)_1", r"\1_pkey", used[1]) if used else ""
    index = index or (ROWID if "INTEGER PRIMARY KEY (rowid=?)" in step else "")
    # Whole, but only over those few rows that a partial index holds.
    partial = step.startswith("SCAN") and index in PARTIAL
    return index in indexes and (step.startswith("SEARCH") or partial)


def _trouble_in_postgresql(execute: Execute, text: str, parameters: Mapping[str, Any], indexes: set[str]) -> list[str]:
    from psycopg.sql import Literal

    order: dict[str, int] = {}
    placed = re.sub(r"%\((\w+)\)s", lambda found: f"${order.setdefault(found[1], len(order) + 1)}", text)
    execute(f"PREPARE explained AS {placed}", {})
    values = ", ".join(Literal(parameters[name]).as_string() for name in order).replace("%", "%%")
    call = f"EXECUTE explained({values})" if order else "EXECUTE explained"
    ((plan,),) = execute(f"EXPLAIN (FORMAT JSON) {call}", {}).fetchall()
    execute("DEALLOCATE explained", {})
    nodes = list(_nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
    return [trouble for node in nodes for trouble in _trouble_in_node(node, indexes)]


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)


def _trouble_in_node(node: dict[str, Any], indexes: set[str]) -> Iterator[str]:
    kind, relation, index = node["Node Type"], node.get("Relation Name"), node.get("Index Name")
    if kind in {"Hash Join", "Merge Join"} or (kind == "Seq Scan" and relation in LARGE):
        yield f"{kind} on {relation}"
    if index is not None and index not in indexes:
        yield f"{kind} using {index}"
    # Whole only where it holds few rows: there are few workers, and some indexes are partial.
    if index is not None and "Index Cond" not in node and index not in {*PARTIAL, "holdfast_worker_pkey"}:
        yield f"{kind} using the whole of {index}"


def moves(store: Store) -> Callable[[Tx], None]:
    """Everything a worker and an enqueuer do, in batches."""

    def made(tx: Tx) -> None:
        tx.run("worker.register", id=WORKER, host="h", process=1, queues="default", lease_us=1_000_000)
        tx.rows("worker.renew", id=WORKER, lease_us=1_000_000)
        jobs = ledger.claim(tx, queue="default", worker=WORKER, count=BATCH)
        assert len(jobs) == BATCH
        half = BATCH // 2
        finished = [(job, None if number % 3 else '"r"', 5) for number, job in enumerate(jobs[:half])]
        settlements = [failed(job, NETWORK_TIMEOUT(), None, 5, blamed=True) for job in jobs[half:-5]]
        settlements += [failed(job, CONSTRAINT_VIOLATED(), None, 5, blamed=True) for job in jobs[-5:]]
        ledger.not_yet_settled(tx, WORKER, finished, settlements)
        assert ledger.settle(tx, WORKER, finished, settlements) == ([], [])
        late, _ = ledger.settle(tx, WORKER, finished)
        assert len(late) == half, "a second time changes nothing"
        (stale,) = ledger.claim(tx, queue="default", worker=WORKER, count=1)
        stale.token -= 1
        assert ledger.settle(tx, WORKER, [(stale, None, 5)])[0]
        stale.finishing = True
        rolled_back = joined.judged(tx, [failed(stale, NETWORK_TIMEOUT(), None, 5, blamed=True)]).rest
        assert ledger.settle(tx, WORKER, (), rolled_back)[1]
        assert len(joined.see(tx)) == 20
        ledger.release_strays(tx, WORKER, set())
        assert len(tx.rows("job.promote", count=BATCH)) == BATCH
        tx.row("job.next_due")
        tx.rows("job.cancels", owner=WORKER)
        tx.rows("worker.look", owner=WORKER, left_us=0)
        tx.rows("worker.gone", count=5)
        assert len(ledger.reclaim(tx, "w-2", WORKER, lambda _: None)) == 200
        twin, own = Jobs(store).enqueue_many(
            [NewJob(kind="k", dedupe_key="key-7"), NewJob(kind="k", dedupe_key="new")], tx=tx
        )
        assert (twin.id, twin.created, own.created) == ("later-7", False, True)
        tx.row("job.outcome", id=own.id, tenant=None)
        tx.records("job.history", id=own.id, after=0, count=9)
        deliver(tx)
        in_sequence(tx)

    return made


def in_sequence(tx: Tx) -> None:
    """Everything that is done with sequences."""
    assert sequences.sweep(tx, "") == (True, "")
    heads = ledger.claim(tx, queue="third", worker=WORKER, count=BATCH)
    assert len(heads) == 10
    assert ledger.settle(tx, WORKER, [(job, None, 5) for job in heads]) == ([], [])
    assert len(ledger.claim(tx, queue="third", worker=WORKER, count=BATCH)) == 10
    tx.many("sequence.join", [("ready-1999", "s-11", 5_001)])
    assert sequences.start(tx, ["s-11"])


def deliver(tx: Tx) -> None:
    """Everything that is looked up for deliveries and received events."""
    tx.rows("delivery.endpoint", id="ep-7")
    tx.rows("delivery.secrets", endpoint_id="ep-7")
    tx.rows("delivery.breaker", name="webhook:ep-7")
    tx.rows("delivery.body", tenant="", event_id="evt-7")
    tx.rows("delivery.deliveries", tenant="", event_id="evt-7", most=10)
    events = [f"evt-{number}" for number in range(1, BATCH)]
    assert len(tx.rows("delivery.published", tenant="", ids=events)) == len(events)
    assert len(tx.rows("delivery.undelivered", ids=[f"done-{number}" for number in range(1, 51)])) == 50
    if tx.engine is Engine.POSTGRESQL:
        scopes = [("", "webhook.receive", event) for event in [*events, "evt-new"]]
        claims = [(*scope, -number, "h", 0, "", "", "", "", 0) for number, scope in enumerate(scopes)]
        begun = tx.many_rows("idempotency.write_keys", claims, lease_us=1, expires_us=1)
        assert [row[0] for row in begun] == [-len(events)]
        held = [(*scope, token, "", 200, "[]", "", "", "", 1) for token, scope in enumerate(scopes[:-1], 1)]
        assert len(tx.many_rows("idempotency.write_keys", held, lease_us=1, expires_us=1)) == len(events)
    assert tx.run("delivery.prune_deliveries", tenant="", ids=events) == len(events)
    tx.run("delivery.prune_events", tenant="", ids=events)


def load(store: Store) -> None:
    with store.database.transaction(write=True) as execute:
        for statement in LOAD:
            execute(statement, {})


def analyze(store: Store) -> None:
    with store.database.single() as execute:
        execute("ANALYZE", {})


PLAN_MODES = ["SET LOCAL plan_cache_mode = force_custom_plan", "SET LOCAL plan_cache_mode = force_generic_plan"]


@pytest.fixture
def fresh(postgres_dsn: str) -> Iterator[Store]:
    """A database that no planner has seen yet, and that none will look at by itself."""
    store = Store.open(postgres_dsn)
    with store.database.script(
        [f"ALTER TABLE {table} SET (autovacuum_enabled = off)" for table in sorted(LARGE | SMALL)]
    ):
        pass
    yield store
    store.close()


def good(explained: Explained, look_ups: Iterable[str] = LOOK_UPS) -> None:
    assert set(explained.plans) == set(look_ups)
    assert {name: found for name, found in explained.plans.items() if found} == {}


def test_without_statistics_and_with_fresh_ones_every_move_is_a_look_up(fresh: Store) -> None:
    load(fresh)
    for refresh in (lambda: None, lambda: analyze(fresh)):
        refresh()
        for mode in PLAN_MODES:
            explained = Explained(fresh)
            explained.run(moves(fresh), setting=mode)
            good(explained)


def test_with_statistics_of_an_empty_table_every_move_is_a_look_up(fresh: Store) -> None:
    analyze(fresh)
    load(fresh)
    for mode in PLAN_MODES:
        explained = Explained(fresh)
        explained.run(moves(fresh), setting=mode)
        good(explained)


def test_on_sqlite_every_move_is_a_look_up(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'holdfast.db'}")
    store.migrate()
    analyze(store)
    load(store)
    for refresh in (lambda: None, lambda: analyze(store)):
        refresh()
        explained = Explained(store)
        explained.run(moves(store))
        good(explained, {*LOOK_UPS, *LOOK_UPS_SQLITE} - OF_POSTGRESQL)
    store.close()


def test_a_bad_plan_would_be_seen(fresh: Store) -> None:
    load(fresh)
    with fresh.database.transaction(write=True) as execute:
        execute("SET LOCAL enable_seqscan = on", {})
        assert (
            _trouble_in_postgresql(
                execute, "SELECT id FROM holdfast_job WHERE payload = '{}'", {}, {"holdfast_job_pkey"}
            )
            != []
        )
        assert (
            _trouble_in_postgresql(execute, "SELECT id FROM holdfast_job WHERE id = 'a'", {}, {"holdfast_job_pkey"})
            == []
        )
