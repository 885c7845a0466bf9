"""One SQL text, two engines: what the notation becomes, and that every statement we ship can be prepared."""

from __future__ import annotations

from importlib import resources

import pytest

from holdfast.store import Engine, Store
from holdfast.store.row_parameters import bound
from holdfast.store.statements import Statement, StatementInvalid, parse, scripts, translate

SQLITE, POSTGRESQL = Engine.SQLITE, Engine.POSTGRESQL


def translated(text: str, engine: Engine, *, database_clock: bool = True) -> Statement:
    return translate("job.test", text, engine, database_clock=database_clock)


@pytest.mark.parametrize(
    ("source", "engine", "expected"),
    [
        ("SELECT :id", SQLITE, "SELECT :id"),
        ("SELECT :id", POSTGRESQL, "SELECT %(id)s"),
        ("SELECT :id::bigint", POSTGRESQL, "SELECT %(id)s::bigint"),
        ("SELECT ':id'", POSTGRESQL, "SELECT ':id'"),
        ("SELECT 'it''s :id'", POSTGRESQL, "SELECT 'it''s :id'"),
        ("SELECT 5 % 3", POSTGRESQL, "SELECT 5 %% 3"),
        ("SELECT 5 % 3", SQLITE, "SELECT 5 % 3"),
        ("SELECT 1 /* postgresql: FOR UPDATE */", POSTGRESQL, "SELECT 1 FOR UPDATE"),
        ("SELECT 1 /* postgresql: FOR UPDATE */;", SQLITE, "SELECT 1"),
        ("SELECT 1 -- why\n  + 1;", SQLITE, "SELECT 1 + 1"),
        ("SELECT 1 -- it's why\n  + 1;", SQLITE, "SELECT 1 + 1"),
        ("SELECT '-- no comment'", SQLITE, "SELECT '-- no comment'"),
        ("SELECT '/* no comment */'", SQLITE, "SELECT '/* no comment */'"),
        ("SELECT   'two  spaces'", SQLITE, "SELECT 'two  spaces'"),
        ("SELECT '{}'", POSTGRESQL, "SELECT '{}'"),
        ("id {among: ids}", SQLITE, "id IN (SELECT value FROM json_each(:ids))"),
        ("id {among: ids}", POSTGRESQL, "id = ANY(%(ids)s)"),
        ("SELECT {now_us}", SQLITE, "SELECT :now_us"),
    ],
)
def test_the_notation_becomes_the_dialect_of_the_engine(source: str, engine: Engine, expected: str) -> None:
    assert translated(source, engine).text == expected


def test_many_rows_are_a_table_named_given() -> None:
    source = "SELECT given.id FROM {given: id text, n bigint}"
    here = translated(source, SQLITE)
    assert here.text == (
        "SELECT given.id FROM (SELECT value ->> 0 AS id, value ->> 1 AS n FROM json_each(:given)) AS given"
    )
    there = translated(source, POSTGRESQL)
    assert there.text == (
        "SELECT given.id FROM (SELECT * FROM unnest(%(given_0)s::text[], %(given_1)s::bigint[])"
        " LIMIT cardinality(%(given_0)s::text[])) AS given(id, n)"
    )
    assert here.columns == there.columns == ("text", "bigint")


def test_sqlite_is_given_few_rows_value_by_value() -> None:
    statement = translated(
        "SELECT :first, given.n, ':no', :second FROM {given: id text, n bigint} LIMIT :first", SQLITE
    )
    text, parameters = bound(statement, SQLITE, [("a", 1), ("b", 2), ("c", 3)], {"first": 7, "second": 8})
    rows = ",".join(["(?,?)"] * 4)
    assert text == (
        "SELECT ?, given.n, ':no', ? FROM"
        f" (SELECT column1 AS id, column2 AS n FROM (VALUES {rows}) LIMIT ?) AS given LIMIT ?"
    )
    assert parameters == [7, 8, "a", 1, "b", 2, "c", 3, 0, 0, 3, 7]


@pytest.mark.parametrize("count", [1, 2, 3, 255, 256, 257, 1_000])
def test_every_number_of_rows_arrives_whole(store: Store, count: int) -> None:
    rows = [(f"name-{number}", 'it\'s {"labels"}', number + 0.5) for number in range(count)]
    store.atomic(lambda tx: tx.many("metric.add_totals", rows))
    found = store.atomic(
        lambda tx: tx._execute("SELECT name, labels, value FROM holdfast_metric_total", {}).fetchall(), write=False
    )
    assert sorted(found) == sorted(rows)


@pytest.mark.parametrize(
    ("engine", "database_clock", "clocked"),
    [(SQLITE, True, True), (SQLITE, False, True), (POSTGRESQL, True, False), (POSTGRESQL, False, True)],
)
def test_only_postgresql_has_a_clock_of_its_own(engine: Engine, database_clock: bool, clocked: bool) -> None:
    statement = translated("SELECT {now_us}", engine, database_clock=database_clock)
    assert statement.clocked is clocked
    assert ("clock_timestamp" in statement.text) is not clocked


@pytest.mark.parametrize("source", ["SELECT {now}", "SELECT {among ids}", "SELECT {given: id}", "SELECT {"])
def test_an_unknown_notation_is_refused_with_its_name(source: str) -> None:
    with pytest.raises(StatementInvalid, match=r"job\.test: \{"):
        translated(source, SQLITE)


def test_text_before_the_first_name_is_refused() -> None:
    with pytest.raises(StatementInvalid, match="before the first"):
        list(parse("SELECT 1;\n-- name: one\nSELECT 1;", SQLITE, prefix="job", database_clock=True))


def test_a_name_that_stands_twice_is_refused() -> None:
    with pytest.raises(StatementInvalid, match="one stands twice"):
        list(parse("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;", SQLITE, prefix="job", database_clock=True))


def test_comments_before_the_first_name_are_welcome() -> None:
    (only,) = parse("-- What it's for; see below.\n-- name: one\nSELECT 1;", SQLITE, prefix="job", database_clock=True)
    assert only == Statement("job.one", "SELECT 1", clocked=False)


def test_a_migration_is_cut_into_its_statements() -> None:
    source = "-- it's; first\nCREATE TABLE a (b TEXT DEFAULT ';' /* sqlite: , c INT */);\n;INSERT INTO a VALUES ('--');"
    assert scripts(source, SQLITE) == ["CREATE TABLE a (b TEXT DEFAULT ';'  , c INT )", "INSERT INTO a VALUES ('--')"]
    assert scripts(source, POSTGRESQL) == ["CREATE TABLE a (b TEXT DEFAULT ';' )", "INSERT INTO a VALUES ('--')"]


def test_every_statement_we_ship_is_understood_by_its_engine(store: Store) -> None:
    """Each is prepared without being run: a misspelt column or type shows here."""
    names = _shipped(store)
    assert {"job.claim", "job.finish", "worker.renew", "idempotency.begin"} <= set(names)
    broken = {}
    for name in names:
        if name == "job.stream" and store.engine is Engine.POSTGRESQL:
            continue  # COPY cannot be prepared; the batches of tests/worker/test_enqueue.py run it
        try:
            _prepare(store, name)
        except Exception as error:
            broken[name] = str(error)
    assert broken == {}


def _shipped(store: Store) -> list[str]:
    folder = resources.files("holdfast.store").joinpath("sql")
    return [
        statement.name
        for file in folder.iterdir()
        for statement in parse(
            file.read_text("utf-8"), store.engine, prefix=file.name.removesuffix(".sql"), database_clock=True
        )
    ]


def _prepare(store: Store, name: str) -> None:
    import re

    text = store._statements[name].text

    with store.database.transaction(write=True) as execute:
        if store.engine is Engine.SQLITE:
            execute(f"EXPLAIN {text}", dict.fromkeys(re.findall(r":([a-z_]\w*)", text)))
            return
        numbers: dict[str, int] = {}
        placed = re.sub(r"%\((\w+)\)s", lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", text)
        execute(f"PREPARE tried AS {placed}", {})
        execute("DEALLOCATE tried", {})


def test_the_body_of_a_trigger_is_part_of_its_statement() -> None:
    trigger = "CREATE TRIGGER t BEFORE UPDATE ON a BEGIN SELECT RAISE(ABORT, 'no; END'); SELECT 1; END"
    assert scripts(f"{trigger};\nCREATE TABLE b (c INT);", SQLITE) == [trigger, "CREATE TABLE b (c INT)"]
