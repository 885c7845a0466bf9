"""SQL is source code: named statements in `.sql` files, one text for both engines.

    -- name: claim            begins a statement
    :name                     a parameter
    {now_us}                  the database's clock (the injected clock under test)
    {among: ids}              a test against a list: `id {among: ids}`
    {given: id text, n bigint}  many rows as a table named `given`; such a statement is run with `Tx.many`
    /* postgresql: … */       a clause for that engine alone; likewise /* sqlite: … */

Everything is translated once, when the file is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Engine(StrEnum):
    """Which database stands behind a store."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True)
class ValuesForm:
    """A statement for many rows in two parts, between which the rows stand; its parameters are numbered, not named.

    SQLite looks for a name among all names: with names, a statement for many rows would take quadratic time.
    """

    before: str
    after: str
    names_before: tuple[str, ...]
    names_after: tuple[str, ...]
    columns: str
    """The list that gives the columns of `given` their names."""
    width: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in the dialect of one engine."""

    name: str
    text: str
    clocked: bool
    """Whether the caller has to bring `now_us`."""
    lists: tuple[str, ...] = ()
    """The parameters that are lists of values."""
    columns: tuple[str, ...] = ()
    """The types of the columns of `given`, where the statement is for many rows."""
    values: ValuesForm | None = None
    """The same for rows that are bound value by value, on SQLite."""


class StatementInvalid(ValueError):
    """A SQL file says something that cannot be translated."""


_NAME = re.compile(r"^-- name: *(\S+) *$", re.MULTILINE)
_ENGINE_CLAUSE = re.compile(r"/\*\s*(sqlite|postgresql):(.*?)\*/", re.DOTALL)
# Text in quotes is found first, so that nothing inside it is taken for a comment, a space or the end of a statement.
_COMMENT = re.compile(r"('(?:[^']|'')*')|/\*.*?\*/|--[^\n]*", re.DOTALL)
_SPACE = re.compile(r"('(?:[^']|'')*')|\s+")
# The body of a trigger of SQLite has statements of its own, between BEGIN and END.
_STATEMENT = re.compile(r"(?:'(?:[^']|'')*'|\bBEGIN\b(?:'(?:[^']|'')*'|[^'])*?\bEND\b|[^;'])+")
_LEFT_OVER = re.compile(r"'(?:[^']|'')*'|(\{[^}]*\}?)")
_AMONG = re.compile(r"\{among: *(\w+)\}")
_GIVEN = re.compile(r"\{given: *(\w+ \w+(?:, *\w+ \w+)*)\}")
_PARAMETER = re.compile(r"'(?:[^']|'')*'|::\w+|:([a-z_]\w*)")
_DATABASE_CLOCK = "(SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)"


def parse(
    source: str, engine: Engine, *, prefix: str, database_clock: bool, place: Callable[[str], str] = str
) -> Iterator[Statement]:
    """Every statement of a file, in the engine's own dialect.

    Args:
        place: what puts the tables of a statement into their schema.

    Raises:
        StatementInvalid: text before the first name, or a name that stands twice.
    """
    parts = _NAME.split(source)
    if _without_comments(parts[0]).strip():
        raise StatementInvalid(f"{prefix}: SQL stands before the first `-- name:`")
    seen: set[str] = set()
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        if name in seen:
            raise StatementInvalid(f"{prefix}: {name} stands twice")
        seen.add(name)
        yield translate(f"{prefix}.{name}", text, engine, database_clock=database_clock, place=place)


def translate(
    name: str, text: str, engine: Engine, *, database_clock: bool, place: Callable[[str], str] = str
) -> Statement:
    """One statement in the engine's own dialect.

    Raises:
        StatementInvalid: something in braces is none of the notations.
    """
    text = _ENGINE_CLAUSE.sub(lambda found: found[2] if found[1] == engine else "", text)
    text = place(_without_comments(text).strip().removesuffix(";").rstrip())
    text, clocked = _with_clock(text, engine, database_clock=database_clock)
    lists = tuple(dict.fromkeys(found[1] for found in _AMONG.finditer(text)))
    text = _AMONG.sub(lambda found: _among(found[1], engine), text)
    text = _SPACE.sub(lambda found: found[1] or " ", text)
    given = _GIVEN.search(text)
    columns = [tuple(column.split()) for column in given[1].split(",")] if given else []
    values = _values_form(text, columns) if columns and engine is Engine.SQLITE else None
    if columns:
        text = _GIVEN.sub(lambda _: _table(columns, engine), text)
    _refuse_left_over(name, text)
    if engine is Engine.POSTGRESQL:
        text = _PARAMETER.sub(_psycopg_parameter, text.replace("%", "%%"))
    return Statement(name, text, clocked, lists, tuple(kind for _, kind in columns), values)


def _with_clock(text: str, engine: Engine, *, database_clock: bool) -> tuple[str, bool]:
    if "{now_us}" not in text:
        return text, False
    if engine is Engine.POSTGRESQL and database_clock:
        return text.replace("{now_us}", _DATABASE_CLOCK), False
    return text.replace("{now_us}", ":now_us"), True


def _among(name: str, engine: Engine) -> str:
    if engine is Engine.POSTGRESQL:
        return f"= ANY(:{name})"
    return f"IN (SELECT value FROM json_each(:{name}))"  # noqa: S608 - built from our own files


def _table(columns: list[tuple[str, ...]], engine: Engine) -> str:
    if engine is Engine.POSTGRESQL:
        arrays = ", ".join(f":given_{number}::{kind}[]" for number, (_, kind) in enumerate(columns))
        # The planner assumes ten elements of an array that is a parameter, and plans anew each time there are fewer,
        # which takes longer than to run the statement. Where the limit is a parameter, it assumes one row.
        limit = f"cardinality(:given_0::{columns[0][1]}[])"
        rows = f"SELECT * FROM unnest({arrays}) LIMIT {limit}"  # noqa: S608 - as below
        return f"({rows}) AS given({', '.join(name for name, _ in columns)})"
    parts = ", ".join(f"value ->> {number} AS {name}" for number, (name, _) in enumerate(columns))
    return f"(SELECT {parts} FROM json_each(:given)) AS given"  # noqa: S608 - built from our own files


def _values_form(text: str, columns: list[tuple[str, ...]]) -> ValuesForm | None:
    """The form for rows that are bound value by value; None where their table stands more than once."""
    parts = _GIVEN.split(text)[::2]
    if len(parts) != 2:
        return None
    names = [[found[1] for found in _PARAMETER.finditer(part) if found[1]] for part in parts]
    before, after = (_PARAMETER.sub(lambda found: "?" if found[1] else found[0], part) for part in parts)
    named = ", ".join(f"column{number} AS {name}" for number, (name, _) in enumerate(columns, 1))
    return ValuesForm(before, after, tuple(names[0]), tuple(names[1]), named, len(columns))


def _psycopg_parameter(found: re.Match[str]) -> str:
    return f"%({found[1]})s" if found[1] else found[0]


def scripts(source: str, engine: Engine) -> Iterable[str]:
    """The statements of a migration, which have no names and no parameters."""
    text = _ENGINE_CLAUSE.sub(lambda found: found[2] if found[1] == engine else "", source)
    return [part.strip() for part in _STATEMENT.findall(_without_comments(text)) if part.strip()]


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda found: found[1] or "", text)


def _refuse_left_over(name: str, text: str) -> None:
    for found in _LEFT_OVER.finditer(text):
        if found[1]:
            raise StatementInvalid(f"{name}: {found[1]} is unknown; known: {{now_us}}, {{among: …}}, {{given: …}}")
