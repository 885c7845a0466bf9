"""The Python error class for clients: one module that needs the standard library alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.analysis.export import Entry
from holdfast.analysis.export_client import Tables, filled, tables, template

MARKS = ("# -- tables --\n", "# -- end of tables --\n")


def to_python(recorded: Sequence[Entry]) -> str:
    """The module's source, the same for the same catalogs."""
    return filled(template("errors.py.txt"), MARKS, "\n".join(_lines(tables(recorded))) + "\n")


def _lines(given: Tables) -> Iterator[str]:
    yield "CODES: Final[Mapping[str, tuple[int, bool]]] = {"
    yield from (f"    {_text(code)}: {contract}," for code, contract in given.faults.items())
    yield "}"
    yield '"""Every code that is declared: its status, and whether it is retried."""'
    yield ""
    yield "_DIFFERING: Final[Mapping[str, Mapping[str, tuple[int, bool]]]] = {"
    for code, contracts in given.differing.items():
        inner = ", ".join(f"{_text(name)}: {contract}" for name, contract in contracts.items())
        yield f"    {_text(code)}: {{{inner}}},"
    yield "}"
    yield f"_CODES_RETRIED: Final = frozenset({given.codes_retried!r})"
    yield f"_STATUSES_RETRIED: Final = frozenset({given.statuses_retried!r})"
    yield f"_UNNAMED: Final[Mapping[int, str]] = {given.unnamed!r}"
    yield f"_UNNAMED_RETRIED: Final[Sequence[tuple[int, int]]] = {given.unnamed_retried!r}"
    yield f"_RETRY_AFTER_S_MAX: Final = {given.retry_after_s_max!r}"


def _text(value: str) -> str:
    return repr(value) if "'" in value or '"' in value or not value.isprintable() else f'"{value}"'
