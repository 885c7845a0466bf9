"""Events sent in order: one after the other for each key, with few and with many waiting behind them."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from bench.delivery_process import Count, party, shared_count, until
from bench.jobs_rows import at_least, progress
from bench.table import Asked, Row
from holdfast.testing.postgres import PostgresServer

KEYS = 50
ONE_KEY_MIN = 100
OF_UNORDERED_MIN = 0.5
FLAT_MIN = 0.8
"""With the large backlog the rate is at least this part of the rate with the small one."""
ROUNDS = 3
WITHIN_S = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """Number of waiting events and of their keys; the rate is measured over the first `measured` events."""

    name: str
    keys: int
    backlog: int
    measured: int


def cases(quick: bool) -> list[Case]:
    few, many, all_ = (400, 2_000, 10_000) if quick else (1_000, 10_000, 100_000)
    return [
        Case("unordered", 0, many, many),
        Case(f"{KEYS} keys", KEYS, many, many),
        Case(f"{KEYS} keys, backlog of {all_:,}", KEYS, all_, many),
        Case("one key", 1, few, few),
        Case(f"one key, backlog of {all_:,}", 1, all_, few),
    ]


def ordered_rows(server: PostgresServer, quick: bool) -> list[Row]:
    best: dict[str, float] = {}
    made = cases(quick)
    with shared_count() as count, party("sink", count.path) as sink:
        port = sink.says()
        for number, case in enumerate(made):
            template = f"template_ordered_{number}"
            address = server.create_database(template)
            with party("fill", address, port, str(case.backlog), str(case.keys)) as filling:
                filling.says()
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute("VACUUM (ANALYZE)")
        for turn in range(1 if quick else ROUNDS):
            for number, case in enumerate(made):
                rate = _rate(server, count, case, f"template_ordered_{number}", f"ordered_{turn}_{number}")
                progress(f"ordered, {case.name}: {rate:,.0f} events/s")
                best[case.name] = max(rate, best.get(case.name, 0.0))
        for number in range(len(made)):
            server.drop_database(f"template_ordered_{number}")
    return _rows(made, best)


def _rate(server: PostgresServer, count: Count, case: Case, template: str, database: str) -> float:
    address = server.create_database(database, template=template)
    server.execute("CHECKPOINT")
    try:
        with party("work", address, "asyncio") as worker:
            worker.says()
            count.value = 0
            worker.go()
            begun_s = until(lambda: count.value > 0, within_s=WITHIN_S)
            ended_s = until(lambda: count.value >= case.measured, within_s=WITHIN_S)
    finally:
        server.drop_database(database)
    return case.measured / (ended_s - begun_s)


def _rows(made: list[Case], best: dict[str, float]) -> list[Row]:
    group = "send in order: 1 KB, signed, one sending process"
    unordered, some, some_deep, one, one_deep = (best[case.name] for case in made)
    asked: list[Asked | None] = [
        None,
        Asked(bound=OF_UNORDERED_MIN, reached=some / unordered, unit="× unordered", at_most=False),
        Asked(bound=FLAT_MIN, reached=some_deep / some, unit="× few waiting", at_most=False),
        at_least(ONE_KEY_MIN, one, "events/s"),
        Asked(bound=FLAT_MIN, reached=one_deep / one, unit="× few waiting", at_most=False),
    ]
    return [
        Row(group=group, name=case.name, figure=best[case.name], unit="events/s", asked=bound)
        for case, bound in zip(made, asked, strict=True)
    ]
