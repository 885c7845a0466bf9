"""Numbered migrations, never edited once released; each system numbers its own and touches only its own tables."""

from __future__ import annotations

import re
from importlib import resources

from holdfast.base import now_us
from holdfast.catalog.durable import TABLE_NAME_TAKEN
from holdfast.store.database import Database, Execute
from holdfast.store.statements import scripts
from holdfast.store.tables import MIGRATIONS

_TAKEN = re.compile(r'relation "(\w+)" already exists|(?:table|view|index) "?(\w+)"? already exists')
"""How the engines say that a name is taken."""
_TABLE = """
CREATE TABLE IF NOT EXISTS holdfast_migration (
  system TEXT NOT NULL,
  name TEXT NOT NULL,
  ran_us BIGINT NOT NULL,
  PRIMARY KEY (system, name)
)
"""


def migrate(database: Database, package: str, system: str, *, schema: str | None = None) -> list[str]:
    """Run what has not run yet, in order, in one transaction under a lock; the names of what ran.

    Args:
        schema: where PostgreSQL creates the tables; the schema is created too where it is missing.
    """
    folder = resources.files(package).joinpath("migrations")
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    if not _pending(database, {file.name.removesuffix(".sql") for file in found}, system, schema):
        return []  # asked without writing: a standby has the tables too
    with database.script([]) as execute:
        if schema is not None:
            _enter(execute, schema)
        execute(_TABLE, {})
        done = {name for (name,) in _done(execute, system)}
        ran = []
        for file in found:
            name = file.name.removesuffix(".sql")
            if name in done:
                continue
            for statement in scripts(file.read_text("utf-8"), database.engine):
                _run(database, execute, statement)
            _note(execute, system, name)
            ran.append(name)
        return ran


def _pending(database: Database, names: set[str], system: str, schema: str | None) -> bool:
    """Whether a migration has to run; True also when there are no tables yet."""
    with database.transaction(write=False) as execute:
        if database.engine == "postgresql":
            place = f"{schema}." if schema else ""
            ((there,),) = execute(f"SELECT to_regclass('{place}{MIGRATIONS}') IS NOT NULL", {}).fetchall()
        else:
            place = ""
            there = execute("SELECT 1 FROM sqlite_master WHERE name = :name", {"name": MIGRATIONS}).fetchall()
        if not there:
            return True
        done = execute(f"SELECT name FROM {place}{MIGRATIONS} WHERE system = '{system}'", {}).fetchall()  # noqa: S608
        return not names <= {name for (name,) in done}


def _run(database: Database, execute: Execute, statement: str) -> None:
    try:
        execute(statement.replace("%", "%%") if database.engine == "postgresql" else statement, {})
    except Exception as error:
        taken = _TAKEN.search(str(error))
        if taken is None:
            raise
        raise TABLE_NAME_TAKEN(table=taken[1] or taken[2]) from error


def _enter(execute: Execute, schema: str) -> None:
    # Looked up first: IF NOT EXISTS asks for the right to create one even where the schema is there.
    if not execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'", {}).fetchall():  # noqa: S608 - checked name
        execute(f"CREATE SCHEMA {schema}", {})
    execute(f"SET LOCAL search_path TO {schema}", {})


def _done(execute: Execute, system: str) -> list[tuple[str]]:
    # Names come from our own package, and both engines differ in how parameters are written.
    return execute(f"SELECT name FROM holdfast_migration WHERE system = '{system}'", {}).fetchall()  # noqa: S608


def _note(execute: Execute, system: str, name: str) -> None:
    execute(f"INSERT INTO holdfast_migration VALUES ('{system}', '{name}', {now_us()})", {})  # noqa: S608
