"""Events received: signature checked, repeats recognised, beside an endpoint that does neither."""

from __future__ import annotations

from dataclasses import dataclass

from bench.delivery_process import backends_s, party, shared_count, until
from bench.jobs_rows import progress
from bench.steal import rounds
from bench.table import Asked, Row
from holdfast.testing.postgres import PostgresServer

BARE, CHECKED, ONCE = "bare endpoint", "holdfast: signature", "holdfast: signature, each once"
KINDS = {BARE: "bare", CHECKED: "checked", ONCE: "once"}
EVENTS, EVENTS_QUICK = 8_000, 3_000
ROUNDS, ROUNDS_MAX = 5, 15
OF_BARE_MIN = 0.3
WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Received:
    """Events per second from the first answer to the last, and what one costs whom."""

    rate: float
    receiver_us: float
    server_us: float

    def __str__(self) -> str:
        return f"{self.rate:,.0f} events/s, CPU {self.receiver_us:.0f} µs here, {self.server_us:.0f} µs in the server"


def receive_rows(server: PostgresServer, quick: bool) -> list[Row]:
    events = EVENTS_QUICK if quick else EVENTS
    best: dict[str, Received] = {}
    for number in range(1) if quick else rounds(ROUNDS, ROUNDS_MAX):
        for name, kind in KINDS.items():
            received = _received(server, kind, events, f"receive_{number}_{kind}")
            progress(f"receive, {name}: {received}")
            if name not in best or received.rate > best[name].rate:
                best[name] = received
    group = "receive: 100 connections, 1 KB, signed, one receiving process"
    return [
        Row(
            group=group,
            name=name,
            figure=received.rate,
            unit="events/s",
            ratios={
                "× bare": received.rate / best[BARE].rate,
                "receiver µs": received.receiver_us,
                "server µs": received.server_us,
            },
            asked=_asked(received.rate / best[BARE].rate) if name == ONCE else None,
        )
        for name, received in best.items()
    ]


def _asked(of_bare: float) -> Asked:
    return Asked(bound=OF_BARE_MIN, reached=of_bare, unit="× bare", at_most=False)


def _received(server: PostgresServer, kind: str, events: int, database: str) -> Received:
    address = server.create_database(database)
    try:
        with shared_count() as count, party("serve", kind, address) as receiver:
            port = receiver.says()
            with party("post", count.path, port, str(events)) as client:
                client.says()
                client.go()
                begun_s = until(lambda: count.value > 0, within_s=WITHIN_S)
                before = receiver.cpu_s, backends_s(server, database)
                ended_s = until(lambda: count.value >= events, within_s=WITHIN_S)
                after = receiver.cpu_s, backends_s(server, database)
    finally:
        server.drop_database(database)
    receiver_us, server_us = ((late - early) / events * 1e6 for early, late in zip(before, after, strict=True))
    return Received(events / (ended_s - begun_s), receiver_us, server_us)
