"""Events published: each on disk with the job that brings it to an endpoint."""

from __future__ import annotations

import json

from bench.delivery_process import backends_s, party
from bench.jobs_rows import progress
from bench.table import Row
from holdfast.testing.postgres import PostgresServer

WAYS = {"1,000 in a call": "many", "one at a time": "one", "one at a time, 100 callers": "together"}
MILLISECONDS, MILLISECONDS_QUICK = 4_000, 1_000


def publish_rows(server: PostgresServer, quick: bool) -> list[Row]:
    rows = []
    for name, way in WAYS.items():
        database = f"publish_{way}"
        address = server.create_database(database)
        try:
            with party("publish", way, address, str(MILLISECONDS_QUICK if quick else MILLISECONDS)) as publisher:
                publisher.says()
                before_s = backends_s(server, database)
                publisher.go()
                told = json.loads(publisher.says())
                server_us = (backends_s(server, database) - before_s) / told["events"] * 1e6
        finally:
            server.drop_database(database)
        costs = {"sender µs": told["cpu_us"], "server µs": server_us}
        progress(f"publish, {name}: {told['rate']:,.0f} events/s, {costs}")
        rows.append(
            Row(group="publish: 1 KB, one endpoint", name=name, figure=told["rate"], unit="events/s", ratios=costs)
        )
    return rows
