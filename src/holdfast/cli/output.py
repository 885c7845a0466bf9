"""What the commands print: JSON lines for programs, tables for people, one line for what went wrong.

Always true: standard output holds the answer and nothing else; secrets are masked; text that came
from outside cannot steer the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import typer

from holdfast.base import encode, redacted, redacted_text, utc_text
from holdfast.base.formatting import clean, cut
from holdfast.catalog import Failure

FAILED = 1
MISUSED = 2
ERROR_CHARS_MAX = 500

_SPANS = {"duration_us", "timeout_us"}
_TEXTS_OF_JSON = {"payload", "result", "code_counts"}


def document(record: Mapping[str, Any]) -> dict[str, Any]:
    """A row as JSON shows it: moments as `…_at` in UTC, spans as `…_s`, stored JSON as what it says, secrets masked."""
    shown: dict[str, Any] = {}
    for name, value in record.items():
        stem = name.removesuffix("_us")
        if name in _SPANS:
            shown[f"{stem}_s"] = None if value is None else value / 1_000_000
        elif stem != name:
            shown["at" if stem == "at" else f"{stem}_at"] = None if value is None else utc_text(value)
        elif name in _TEXTS_OF_JSON and isinstance(value, str):
            shown[name] = redacted(json.loads(value))
        elif isinstance(value, dict):
            shown[name] = document(value)
        else:
            shown[name] = redacted_text(value) if isinstance(value, str) else value
    return shown


def say_json(value: Mapping[str, Any]) -> None:
    """One JSON document on one line."""
    typer.echo(encode(value))


def say_lines(records: Iterable[Mapping[str, Any]]) -> None:
    """JSON lines: a document for each record."""
    for record in records:
        say_json(document(record))


def say(line: str) -> None:
    """A line of the answer."""
    typer.echo(line)


def note(line: str) -> None:
    """A line beside the answer: it does not get into a pipe."""
    typer.echo(clean(line), err=True)


def refuse(line: str) -> typer.Exit:
    """The command was used wrongly: one line that says how, and the exit to raise."""
    note(f"holdfast: {line}")
    return typer.Exit(MISUSED)


def explain(failure: Failure) -> typer.Exit:
    """It did not work: one line with the code, what happened and what to do, and the exit to raise."""
    note(f"holdfast: {_sentence(failure)}")
    return typer.Exit(FAILED)


def be_tolerant() -> None:
    """A terminal that cannot write a letter shows a question mark instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _sentence(failure: Failure) -> str:
    parts = [failure.message]
    cause = failure.__cause__
    if cause is not None:
        # The first line says it; drivers add advice for programmers below.
        parts.append((str(cause) or type(cause).__name__).strip().splitlines()[0])
    parts.append(failure.fault.remedy)
    return f"{failure.code}: " + cut(
        clean(redacted_text(" ".join(_ended(part) for part in parts if part))), ERROR_CHARS_MAX
    )


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?", "…")) else f"{sentence}."
