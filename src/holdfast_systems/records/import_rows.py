"""The rows of an import: cut into parts at row boundaries, read, and checked as the routes check their bodies. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.catalog import Failure
from holdfast_systems.records import fields
from holdfast_systems.records.faults import MALFORMED_JSON, VALIDATION_ERROR
from holdfast_systems.records.model import website_key

PART_BYTES = 4 * 1_048_576
"""Approximate size of a part: at most one part is done again after a crash."""
ROW_BYTES_MAX = 262_144
TYPES = {"company": fields.COMPANY, "person": fields.PERSON}
TYPE = fields.Field(name="type", title="Type", required=True, choices=tuple(TYPES))
COLUMNS = ("type", *dict.fromkeys(field.name for known in TYPES.values() for field in known))

csv.field_size_limit(ROW_BYTES_MAX)


class Format(StrEnum):
    """What the file of an import is."""

    NDJSON = "ndjson"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class Good:
    """A row that can be stored."""

    kind: str
    values: Mapping[str, str | None]
    website_key: str | None = None


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that cannot, with the API's own code."""

    code: str
    message: str
    details: Mapping[str, Any]


Row = Good | Bad


def cut(buffer: bytearray, format: Format, *, last: bool) -> bytes | None:
    """The next part of what has arrived, up to the end of a row; None while there is not enough of it.

    Raises:
        Failure: VALIDATION_ERROR when a single row is too long.
    """
    if len(buffer) <= PART_BYTES:
        end = len(buffer) if last else 0
    else:
        end = _boundary(buffer, format, PART_BYTES)
        if end == 0 and len(buffer) > PART_BYTES + ROW_BYTES_MAX:
            # The row that stands here is longer than a part.
            raise fields.refused([_too_long()])
        if end == 0:
            end = len(buffer) if last else 0
    part = bytes(buffer[:end])
    del buffer[:end]
    return part or None


def _boundary(buffer: bytearray, format: Format, within: int) -> int:
    """Where the last whole row ends in `within` bytes; 0 is nowhere. In CSV a break between quotes ends nothing."""
    end = buffer.rfind(b"\n", 0, within)
    quotes = buffer.count(b'"', 0, end) if format is Format.CSV and end >= 0 else 0
    while end >= 0 and quotes % 2:
        before = buffer.rfind(b"\n", 0, end)
        quotes -= buffer.count(b'"', max(before, 0), end)
        end = before
    return end + 1


def _too_long() -> fields.Problem:
    return fields.problem("row", None, "max_length", f"A row has at most {ROW_BYTES_MAX} bytes")


def read_header(part: bytes) -> list[str]:
    """The columns of a CSV file, from its first part.

    Raises:
        Failure: VALIDATION_ERROR names every column that there is not, and `type` where it is missing.
    """
    first = next(_csv_rows(part), [])
    columns = [name.strip() for name in first]
    wrong = [fields.unknown(name, None) for name in columns if name not in COLUMNS]
    if "type" not in columns:
        wrong.append(fields.problem("type", None, "required", "The file needs a column named type"))
    if len(set(columns)) != len(columns):
        wrong.append(fields.problem("header", None, "unique", "A column stands twice"))
    if wrong:
        raise fields.refused(wrong)
    return columns


def count_rows(part: bytes, format: Format, *, headed: bool) -> int:
    """How many rows a part has; `headed` leaves out the line of columns."""
    if format is Format.NDJSON:
        return sum(1 for line in part.split(b"\n") if line.strip())
    return sum(1 for row in _csv_rows(part) if row) - (1 if headed else 0)


def rows(part: bytes, format: Format, columns: Sequence[str], *, headed: bool) -> Iterator[Row]:
    """The rows of a part, each checked; one bad row spoils nothing."""
    if format is Format.NDJSON:
        for line in part.split(b"\n"):
            if line.strip():
                yield _of_line(line)
        return
    found = (row for row in _csv_rows(part) if row)
    if headed:
        next(found, None)
    for cells in found:
        yield _of_cells(cells, columns)


def read_row(document: object) -> Row:
    """One row, checked by the fields of its type."""
    kind = document.get("type") if isinstance(document, dict) else None
    known = TYPES.get(kind) if isinstance(kind, str) else None
    if known is None or not isinstance(document, dict):
        return _bad(_problems_of_type(document))
    wrong = fields.problems({name: value for name, value in document.items() if name != "type"}, known)
    if wrong:
        return _bad(wrong)
    values = {field.name: fields.kept(document.get(field.name)) for field in known}
    website = values.get("website")
    return Good(str(kind), values, None if website is None else website_key(website))


def _of_line(line: bytes) -> Row:
    if len(line) > ROW_BYTES_MAX:
        return _bad([_too_long()])
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        failure = MALFORMED_JSON(reason="syntax")
        return Bad(failure.code, failure.message, {"reason": "syntax"})
    return read_row(document)


def _of_cells(cells: Sequence[str], columns: Sequence[str]) -> Row:
    if len(cells) > len(columns):
        return _bad([fields.problem("row", len(cells), "max_length", f"The row has more cells than {len(columns)}")])
    # An empty cell is not a value: rows of both types share the columns.
    return read_row({name: cell for name, cell in zip(columns, cells, strict=False) if cell.strip()})


def _csv_rows(part: bytes) -> Iterator[list[str]]:
    text = io.StringIO(part.decode("utf-8-sig", "replace").replace("\0", "\ufffd"), newline="")
    return csv.reader(text)


def _problems_of_type(document: object) -> list[fields.Problem]:
    if not isinstance(document, dict):
        return [fields.problem("row", None, "type", "A row must be a JSON object")]
    wrong = TYPE.problem(document.get("type"))
    return [fields.problem("type", document.get("type"), *(wrong or ("enum", "Type must be text")))]


def _bad(wrong: Sequence[fields.Problem]) -> Bad:
    failure: Failure = fields.refused(wrong)
    return Bad(VALIDATION_ERROR.code, failure.message, failure.details)
