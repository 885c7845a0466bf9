"""Numbered migrations, never edited once released; each system numbers its own and touches only its own tables."""

from __future__ import annotations

from importlib import resources

from holdfast.base import now_us
from holdfast.store.database import Database, Execute
from holdfast.store.statements import scripts

_TABLE = """
CREATE TABLE IF NOT EXISTS holdfast_migration (
  system TEXT NOT NULL,
  name TEXT NOT NULL,
  ran_us BIGINT NOT NULL,
  PRIMARY KEY (system, name)
)
"""


def migrate(database: Database, package: str, system: str) -> list[str]:
    """Run what has not run yet, in order, in one transaction under a lock; the names of what ran."""
    folder = resources.files(package).joinpath("migrations")
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    with database.script([_TABLE]) as execute:
        done = {name for (name,) in _done(execute, system)}
        ran = []
        for file in found:
            name = file.name.removesuffix(".sql")
            if name in done:
                continue
            for statement in scripts(file.read_text("utf-8"), database.engine):
                execute(statement.replace("%", "%%") if database.engine == "postgresql" else statement, {})
            _note(execute, system, name)
            ran.append(name)
        return ran


def _done(execute: Execute, system: str) -> list[tuple[str]]:
    # Names come from our own package, and both engines differ in how parameters are written.
    return execute(f"SELECT name FROM holdfast_migration WHERE system = '{system}'", {}).fetchall()  # noqa: S608


def _note(execute: Execute, system: str, name: str) -> None:
    execute(f"INSERT INTO holdfast_migration VALUES ('{system}', '{name}', {now_us()})", {})  # noqa: S608
