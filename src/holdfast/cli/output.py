"""What the commands print: JSON lines for programs, tables for people, one line for what went wrong.

Always true: standard output holds the answer and nothing else; secrets are masked; text that came
from outside cannot steer the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

import typer

from holdfast.base import encode, redacted, redacted_text, utc_text
from holdfast.base.formatting import clean, cut
from holdfast.catalog import Failure
from holdfast.cli.exit_codes import ExitCode, exit_code

ERROR_CHARS_MAX = 500
MISUSE = "MISUSED"
"""The code of an error in the command line itself."""
_json_wanted: ContextVar[bool] = ContextVar("json_wanted", default=False)

_SPANS = {"duration_us", "timeout_us"}
_TEXTS_OF_JSON = {"payload", "result", "code_counts", "traceback"}


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
    say_error(f"holdfast: {line}", code=MISUSE, message=line, remedy="`--help` shows how the command is used.")
    return typer.Exit(ExitCode.MISUSED)


def explain(failure: Failure) -> typer.Exit:
    """It did not work: one line with the code, what happened and what to do, and the exit to raise."""
    message = redacted_text(" ".join(_ended(part) for part in _happened(failure)))
    remedy = failure.fault.remedy
    told = cut(clean(f"{message} {_ended(remedy)}".rstrip()), ERROR_CHARS_MAX)
    say_error(f"holdfast: {failure.code}: {told}", code=failure.code, message=message, remedy=remedy)
    return typer.Exit(exit_code(failure))


def say_error(line: str, *, code: str, message: str, remedy: str) -> None:
    """What went wrong, beside the answer: a line for people, or a document where the command was asked for JSON."""
    if _json_wanted.get():
        error = {"code": code, "message": clean(message), "remedy": remedy}
        typer.echo(encode({"error": error}), err=True)
    else:
        note(line)


def want_json(wanted: bool) -> bool:
    """Remember whether the command that runs was given --json, so that its errors are JSON too."""
    _json_wanted.set(wanted)
    return wanted


def be_tolerant() -> None:
    """A terminal that cannot write a letter shows a question mark instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _happened(failure: Failure) -> list[str]:
    parts = [failure.message]
    cause = failure.__cause__
    if cause is not None:
        # The first line says it; drivers add advice for programmers below.
        parts.append((str(cause) or type(cause).__name__).strip().splitlines()[0])
    return [part for part in parts if part]


def _ended(sentence: str) -> str:
    return sentence if not sentence or sentence.endswith((".", "!", "?", "…")) else f"{sentence}."
