"""Events sent to a receiver on loopback: signed, 1 KB, 100 connections, every state change on disk."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from bench.delivery_process import Count, Party, backends_s, party, shared_count, until
from bench.jobs_rows import at_least, progress
from bench.steal import rounds
from bench.table import Asked, Row
from holdfast.testing.postgres import PostgresServer

OURS, BARE = "holdfast", "bare aiohttp"
OURS_UV, BARE_UV = "holdfast on uvloop", "bare aiohttp on uvloop"
RATE_MIN = 3_000
OF_BARE_MIN = 0.6
EVENTS, EVENTS_QUICK = 15_000, 6_000
ROUNDS, ROUNDS_MAX = 3, 8
WITHIN_S = 120.0
UNFINISHED = b"SELECT count(*) FROM holdfast_job WHERE state <> 'complete'"
TEMPLATE = "template_delivery"


@dataclass(frozen=True, slots=True)
class Sent:
    """Events per second from the first one received to all of them settled, and what one costs whom."""

    rate: float
    sender_us: float
    server_us: float
    receiver_us: float

    def __str__(self) -> str:
        costs = f"{self.sender_us:.0f} µs here, {self.server_us:.0f} µs in the server, {self.receiver_us:.0f} µs there"
        return f"{self.rate:,.0f} events/s, CPU {costs}"


def send_rows(server: PostgresServer, quick: bool) -> list[Row]:
    events = EVENTS_QUICK if quick else EVENTS
    best: dict[str, Sent] = {}
    with shared_count() as count, party("sink", count.path) as sink:
        port = sink.says()
        address = server.create_database(TEMPLATE)
        with party("fill", address, port, str(events)) as filling:
            filling.says()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE)")
        for number in range(1) if quick else rounds(ROUNDS, ROUNDS_MAX):
            for name in (BARE, OURS, BARE_UV, OURS_UV):
                loop = "uvloop" if name in (OURS_UV, BARE_UV) else "asyncio"
                if name in (OURS, OURS_UV):
                    sent = _ours(server, count, sink, events, loop, f"delivery_{number}_{loop}")
                else:
                    sent = _bare(count, sink, port, events, loop)
                progress(f"send, {name}: {sent}")
                if name not in best or sent.rate > best[name].rate:
                    best[name] = sent
        server.drop_database(TEMPLATE)
    return _rows(best)


def _ours(server: PostgresServer, count: Count, sink: Party, events: int, loop: str, database: str) -> Sent:
    address = server.create_database(database, template=TEMPLATE)
    server.execute("CHECKPOINT")
    try:
        with party("work", address, loop) as worker, psycopg.connect(address, autocommit=True) as asking:
            worker.says()
            count.value = 0
            worker.go()
            begun_s = until(lambda: count.value > 0, within_s=WITHIN_S)
            before = worker.cpu_s, backends_s(server, database), sink.cpu_s
            until(lambda: count.value >= events, within_s=WITHIN_S)
            ended_s = until(lambda: _left(asking) == 0, within_s=WITHIN_S)
            after = worker.cpu_s, backends_s(server, database), sink.cpu_s
            if count.value != events:
                raise RuntimeError(f"{events} events were published, {count.value} arrived")
    finally:
        server.drop_database(database)
    sender_us, server_us, receiver_us = (
        (late - early) / events * 1e6 for early, late in zip(before, after, strict=True)
    )
    return Sent(events / (ended_s - begun_s), sender_us, server_us, receiver_us)


def _bare(count: Count, sink: Party, port: str, events: int, loop: str) -> Sent:
    with party("bare", port, str(events), loop) as client:
        client.says()
        count.value = 0
        client.go()
        begun_s = until(lambda: count.value > 0, within_s=WITHIN_S)
        before = client.cpu_s, sink.cpu_s
        ended_s = until(lambda: count.value >= events, within_s=WITHIN_S)
        after = client.cpu_s, sink.cpu_s
    sender_us, receiver_us = ((late - early) / events * 1e6 for early, late in zip(before, after, strict=True))
    return Sent(events / (ended_s - begun_s), sender_us, 0.0, receiver_us)


def _left(asking: psycopg.Connection[tuple[int]]) -> int:
    row = asking.execute(UNFINISHED).fetchone()
    assert row is not None
    return int(row[0])


def _rows(best: dict[str, Sent]) -> list[Row]:
    group = "send: 100 connections, 1 KB, signed, one sending process"
    rows = []
    for name, sent in best.items():
        bare = BARE_UV if name in (OURS_UV, BARE_UV) else BARE
        ratios = {
            "× bare": sent.rate / best[bare].rate,
            "sender µs": sent.sender_us,
            "server µs": sent.server_us,
            "receiver µs": sent.receiver_us,
        }
        asked = at_least(RATE_MIN, sent.rate, "events/s") if name in (OURS, OURS_UV) else None
        rows.append(Row(group=group, name=name, figure=sent.rate, unit="events/s", ratios=ratios, asked=asked))
    for ours, bare in ((OURS, BARE), (OURS_UV, BARE_UV)):
        ratio = best[ours].rate / best[bare].rate
        of_bare = Asked(bound=OF_BARE_MIN, reached=ratio, unit="× bare", at_most=False)
        rows.append(Row(group=group, name=f"{ours}, of {bare}", figure=ratio, unit="× bare", asked=of_bare))
    return rows
