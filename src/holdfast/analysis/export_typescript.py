"""The TypeScript error class for clients: one file without imports, for Node and browsers alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from holdfast.analysis.export import Entry
from holdfast.analysis.export_client import Tables, filled, tables, template

MARKS = ("// -- tables --\n", "// -- end of tables --\n")


def to_typescript(recorded: Sequence[Entry]) -> str:
    """The file's source, the same for the same catalogs."""
    return filled(template("errors.ts"), MARKS, "\n".join(_lines(tables(recorded))) + "\n")


def _lines(given: Tables) -> Iterator[str]:
    yield "/** Every code that is declared. */"
    yield "export type Code =" + ("" if given.faults else " never;")
    codes = list(given.faults)
    yield from (f"  | {_json(code)}{';' if code == codes[-1] else ''}" for code in codes)
    yield ""
    yield "const CODES: Readonly<Record<string, Contract>> = {"
    yield from (f"  {_json(code)}: {_json(contract)}," for code, contract in given.faults.items())
    yield "};"
    yield f"const DIFFERING: Readonly<Record<string, Readonly<Record<string, Contract>>>> = {_json(given.differing)};"
    yield f"const CODES_RETRIED: ReadonlySet<string> = new Set({_json(given.codes_retried)});"
    yield f"const STATUSES_RETRIED: ReadonlySet<number> = new Set({_json(given.statuses_retried)});"
    yield f"const UNNAMED: Readonly<Record<number, string>> = {_json(given.unnamed)};"
    yield f"const UNNAMED_RETRIED: readonly (readonly [number, number])[] = {_json(given.unnamed_retried)};"
    yield f"const RETRY_AFTER_S_MAX = {_json(given.retry_after_s_max)};"


def _json(value: object) -> str:
    return json.dumps(value)
