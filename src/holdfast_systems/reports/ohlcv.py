"""Market data: rows of time, open, high, low, close and volume, read from CSV or JSON and checked."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from io import StringIO
from math import isfinite
from typing import Any, NamedTuple

from holdfast.catalog import Failure
from holdfast_systems.reports.faults import INVALID_STEP_INPUTS

HEADER = ("time", "open", "high", "low", "close", "volume")
ROWS_MAX = 10_000
CSV_CHARS_MAX = 1_000_000
FIELD_CHARS_MAX = 64
DIGITS = "0123456789"


class Candle(NamedTuple):
    """One period of trading."""

    time: str
    """UTC, ISO 8601."""
    open: float
    high: float
    low: float
    close: float
    volume: float


def read_candles(step_id: str, inputs: Mapping[str, Any]) -> list[Candle]:
    """The rows of `inputs.csv` or `inputs.rows`, in the order of time.

    Raises:
        Failure: INVALID_STEP_INPUTS, which names the row.
    """
    table, rows = inputs.get("csv"), inputs.get("rows")
    if (table is None) == (rows is None):
        raise _unusable(step_id, "give either inputs.csv or inputs.rows")
    found = list(_checked(step_id, _from_csv(step_id, table) if rows is None else _from_rows(step_id, rows)))
    if not found:
        raise _unusable(step_id, "there are no rows")
    return found


def candles_of(rows: Sequence[Mapping[str, Any]]) -> list[Candle]:
    """The rows of an artifact of our own."""
    return [Candle(*(row[name] for name in HEADER)) for row in rows]


def _from_csv(step_id: str, table: object) -> Iterator[Sequence[Any]]:
    if not isinstance(table, str):
        raise _unusable(step_id, "inputs.csv is not text")
    if len(table) > CSV_CHARS_MAX:
        raise _unusable(step_id, f"inputs.csv has more than {CSV_CHARS_MAX} characters")
    lines = csv.reader(StringIO(table.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        header = [name.strip().lower() for name in next(lines, [])]
        if header != list(HEADER):
            raise _unusable(step_id, f"the header is not {','.join(HEADER)}")
        yield from (line for line in lines if line)
    except csv.Error as broken:
        raise _unusable(step_id, f"line {lines.line_num} is not CSV: {broken}") from None


def _from_rows(step_id: str, rows: object) -> Iterator[Sequence[Any]]:
    if not isinstance(rows, list):
        raise _unusable(step_id, "inputs.rows is not a list")
    for number, row in enumerate(rows, 1):
        if isinstance(row, dict):
            if set(row) != set(HEADER):
                raise _unusable(step_id, f"row {number} does not have the fields {', '.join(HEADER)}")
            yield [row[name] for name in HEADER]
        elif isinstance(row, list):
            yield row
        else:
            raise _unusable(step_id, f"row {number} is neither an object nor a list")


def _checked(step_id: str, rows: Iterator[Sequence[Any]]) -> Iterator[Candle]:
    before = ""
    for number, row in enumerate(rows, 1):
        if number > ROWS_MAX:
            raise _unusable(step_id, f"there are more than {ROWS_MAX} rows")
        if len(row) != len(HEADER):
            raise _unusable(step_id, f"row {number} has {len(row)} fields, not {len(HEADER)}")
        try:
            candle = Candle(_time(row[0]), *(_price(value) for value in row[1:]))
        except ValueError as wrong:
            raise _unusable(step_id, f"row {number}: {wrong}") from None
        reason = _contradiction(candle, before)
        if reason:
            raise _unusable(step_id, f"row {number}: {reason}")
        before = candle.time
        yield candle


def _contradiction(candle: Candle, before: str) -> str:
    if candle.time <= before:
        return "the times do not ascend"
    if candle.low <= 0:
        return "a price is not positive"
    if not candle.low <= min(candle.open, candle.close) <= max(candle.open, candle.close) <= candle.high:
        return "low and high do not enclose open and close"
    return "the volume is negative" if candle.volume < 0 else ""


def _time(value: object) -> str:
    """A moment as UTC text: ISO 8601, or a number of seconds since 1970."""
    if type(value) in (int, float) or (isinstance(value, str) and value.strip() and set(value.strip()) <= set(DIGITS)):
        seconds = float(value)  # type: ignore[arg-type]  # a number, or digits
        if not 0 <= seconds < 32_503_680_000:
            raise ValueError("the time is not between 1970 and 3000")
        moment = datetime.fromtimestamp(seconds, UTC)
    elif isinstance(value, str) and len(value) <= FIELD_CHARS_MAX:
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError("the time is not ISO 8601") from None
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    else:
        raise ValueError("the time is not ISO 8601")
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _price(value: object) -> float:
    if type(value) not in (int, float) and not (isinstance(value, str) and len(value) <= FIELD_CHARS_MAX):
        raise ValueError("a value is not a number")
    try:
        number = float(value)  # type: ignore[arg-type]  # a number, or text
    except (ValueError, OverflowError):
        raise ValueError("a value is not a number") from None
    if not isfinite(number):
        raise ValueError("a value is not a finite number")
    return number


def _unusable(step_id: str, reason: str) -> Failure:
    return INVALID_STEP_INPUTS(step_id=step_id, reason=reason)
