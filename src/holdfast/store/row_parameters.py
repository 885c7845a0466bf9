"""The rows of a statement for many rows, as each engine takes them.

PostgreSQL takes one array for each column. SQLite takes the values themselves, row after row, and JSON where there are
too many of them or where another driver binds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from holdfast.base import encode, now_us
from holdfast.store.database import Parameters
from holdfast.store.statements import Engine, Statement, ValuesForm

Row = tuple[Any, ...]

VALUES_ROWS_MAX = 256
"""Maximum number of rows that are bound value by value: to prepare a statement for more takes milliseconds."""
TEXTS_MAX = 500
BETWEEN = "\x1f"
"""Unit separator: stands between texts while all of them are escaped at once; texts that hold it are escaped singly."""


def bound(statement: Statement, engine: Engine, rows: Sequence[Row], shared: dict[str, Any]) -> tuple[str, Parameters]:
    """The text to run for these rows in a transaction of our own, and its parameters."""
    form = statement.values
    if form is None or not 0 < len(rows) <= VALUES_ROWS_MAX:
        return statement.text, {**given(statement, engine, rows), **shared}
    if statement.clocked and "now_us" not in shared:
        shared["now_us"] = now_us()
    # Few sizes are prepared, so that few texts are: what is left of a size is never read. A number is bound faster
    # than NULL, which the driver would first ask to adapt.
    size = 1 << (len(rows) - 1).bit_length()
    values = [shared[name] for name in form.names_before]
    values += chain.from_iterable(rows)
    values += [0] * (form.width * (size - len(rows)))
    values.append(len(rows))
    values += [shared[name] for name in form.names_after]
    return _text(form, size), values


def given(statement: Statement, engine: Engine, rows: Sequence[Row]) -> dict[str, Any]:
    """The parameters that a statement for many rows takes besides those they share, each by its name."""
    found: dict[str, Any] = {"now_us": now_us()} if statement.clocked else {}
    if engine is Engine.SQLITE:
        return {**found, "given": encode(rows)}
    columns = map(array_text, zip(*rows, strict=True), statement.columns)
    found.update(zip(_names(len(statement.columns)), columns, strict=True))
    return found


@cache
def _names(count: int) -> list[str]:
    return [f"given_{number}" for number in range(count)]


def array_text(values: Sequence[Any], kind: str) -> str:
    """A column as PostgreSQL reads arrays; the driver's own way takes ten times as long."""
    count = len(values)
    if count > 1 and values.count(values[0]) == count:
        # Most columns of a batch say the same in every row.
        return "{" + ",".join([_element(values[0], kind)] * count) + "}"
    if kind != "text":
        return "{" + ",".join(map(str, values)).replace("None", "NULL") + "}"
    if not values:
        return "{}"
    try:
        joined = '","'.join(values)
    except TypeError:  # some are NULL
        return "{" + ",".join([_element(value, kind) for value in values]) + "}"
    if "\\" in joined or joined.count('"') > 2 * (count - 1):
        return _all_escaped(values)
    return '{"' + joined + '"}'


@lru_cache(maxsize=TEXTS_MAX)
def _text(form: ValuesForm, size: int) -> str:
    row = f"({','.join('?' * form.width)})"
    rows = ",".join([row] * size)
    # Built from our own files.
    return f"{form.before}(SELECT {form.columns} FROM (VALUES {rows}) LIMIT ?) AS given{form.after}"  # noqa: S608


def _element(value: Any, kind: str) -> str:
    if value is None:
        return "NULL"
    return _quoted(value) if kind == "text" else str(value)


def _all_escaped(texts: Sequence[str]) -> str:
    joined = BETWEEN.join(texts)
    if joined.count(BETWEEN) >= len(texts):
        return "{" + ",".join(map(_quoted, texts)) + "}"
    return '{"' + _escaped(joined).replace(BETWEEN, '","') + '"}'


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
