"""The tables and views that Holdfast creates, so that other tools can leave them alone.

All of them begin with `holdfast_`. A PostgreSQL schema, where one is chosen, is written in front of their names when
the statements are loaded. It is not set on the connection: a connection of the user's own has its own search path, and
a pooled one keeps no settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import resources

MIGRATIONS = "holdfast_migration"
"""Which migrations of which package have run."""

_CREATED = re.compile(r"CREATE (?:TABLE|VIEW) (?:IF NOT EXISTS )?(\w+)")


def tables(*packages: str) -> frozenset[str]:
    """The names of the tables and views of the core, and of these packages that have migrations of their own.

    A migration tool that compares a database with its own models must ignore them: `name in tables()`.
    """
    found = {MIGRATIONS}
    for package in ("holdfast.store", *packages):
        found |= created_by(package)
    return frozenset(found)


def created_by(package: str) -> set[str]:
    """What the migrations of one package create."""
    folder = resources.files(package).joinpath("migrations")
    if not folder.is_dir():
        return set()
    files = (file for file in folder.iterdir() if file.name.endswith(".sql"))
    return {name for file in files for name in _CREATED.findall(file.read_text("utf-8"))}


def placing(schema: str | None, names: Iterable[str]) -> Callable[[str], str]:
    """A function that writes the schema in front of these tables in a statement; None changes nothing."""
    if schema is None:
        return str
    # Text in quotes comes first, so that a value is never taken for a table.
    ours = re.compile(r"'(?:[^']|'')*'|(?<![\w.:])(" + "|".join(map(re.escape, sorted(names))) + r")\b")
    return lambda text: ours.sub(lambda found: f"{schema}.{found[1]}" if found[1] else found[0], text)
