"""Plain SQL in psycopg: what this server and this driver can do at most, without a queue around it.

One table, no journal, no lease, no fencing; a batch is claimed in one statement and completed in the next. An idle
worker listens, and the benchmark that measures how soon it begins notifies it after the insert.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from bench.jobs_peers.contender import WARM_PAYLOAD, Client, Handled, Send, SyncContender

BATCH = 500
IDLE_S = 1.0
CONNECTIONS = 10

# The order starts with a column that the primary key does not have: else the planner walks the primary key past all
# that is finished, and every claim is slower than the one before.
TABLE = """
CREATE TABLE raw_job (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'queued',
  priority SMALLINT NOT NULL DEFAULT 0,
  payload TEXT NOT NULL,
  claimed_at TIMESTAMPTZ,
  finished_at TIMESTAMPTZ
) WITH (fillfactor = 70);
CREATE INDEX raw_job_ready ON raw_job (queue, priority, id) WHERE state = 'queued';
"""
CLAIM = """
UPDATE raw_job SET state = 'processing', claimed_at = now()
 WHERE id = ANY(ARRAY(SELECT id FROM raw_job WHERE state = 'queued' AND queue = 'default'
                       ORDER BY priority, id LIMIT %s FOR UPDATE SKIP LOCKED))
RETURNING id, payload
"""
COMPLETE = "UPDATE raw_job SET state = 'complete', finished_at = now() WHERE id = ANY(%s)"
INSERT = "INSERT INTO raw_job (queue, payload) VALUES ('default', %s)"
LISTEN, NOTIFY = "LISTEN raw_job", "NOTIFY raw_job"
INSERT_MANY = "INSERT INTO raw_job (queue, payload) SELECT 'default', unnest(%s::text[])"


class RawClient:
    """A connection for each thread, every statement a transaction of its own."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._local = threading.local()
        self._opened: list[psycopg.Connection[tuple[object, ...]]] = []

    def one(self, payload: str) -> None:
        self._connection().execute(INSERT, (payload,), prepare=True)

    def one_told(self, payload: str) -> None:
        self.one(payload)
        self._connection().execute(NOTIFY)

    def many(self, payloads: Sequence[str]) -> None:
        self._connection().execute(INSERT_MANY, (list(payloads),), prepare=True)

    def close(self) -> None:
        for connection in self._opened:
            connection.close()

    def _connection(self) -> psycopg.Connection[tuple[object, ...]]:
        found: psycopg.Connection[tuple[object, ...]] | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = psycopg.connect(self._address, autocommit=True)
            self._opened.append(found)
        return found


class Raw(SyncContender):
    unfinished = "SELECT count(*) FROM raw_job WHERE state <> 'complete'"

    def prepare(self, address: str) -> None:
        with psycopg.connect(address) as connection:
            connection.execute(TABLE)

    @contextmanager
    def client(self, address: str) -> Iterator[Client]:
        client = RawClient(address)
        try:
            yield client
        finally:
            client.close()

    def together(self, address: str, seconds: float, callers: int) -> float:
        """Ten connections, each with a thread: a connection for each of a hundred callers would not be a fair use."""
        return super().together(address, seconds, min(callers, CONNECTIONS))

    @contextmanager
    def waker(self, address: str) -> Iterator[Send]:
        with self.client(address) as client:
            assert isinstance(client, RawClient)
            client.one_told(WARM_PAYLOAD)
            yield client.one_told

    def work(self, address: str, handled: Handled, ready: Callable[[], None]) -> None:
        with (
            psycopg.connect(address, autocommit=True) as listening,
            psycopg.connect(address, autocommit=True) as connection,
        ):
            listening.execute(LISTEN)
            ready()
            while True:
                rows = connection.execute(CLAIM, (BATCH,), prepare=True).fetchall()
                if not rows:
                    for _ in listening.notifies(timeout=IDLE_S, stop_after=1):
                        pass
                    continue
                for _, payload in rows:
                    handled(payload)
                connection.execute(COMPLETE, ([row[0] for row in rows],), prepare=True)


CONTENDER = Raw()
