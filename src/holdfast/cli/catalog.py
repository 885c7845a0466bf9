"""`holdfast catalog`: the declared faults written down for others, and two versions of them compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.base.formatting import clean
from holdfast.cli.catalogs import chosen_catalogs
from holdfast.cli.database import AsJson, explained
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.output import note, refuse, say, say_json
from holdfast.cli.system_faults import EXPORT_UNREADABLE

EXAMPLES = {
    "export": (
        ("holdfast catalog export", "every code as a Markdown page"),
        ("holdfast catalog export --format typescript --output errors.ts", "an error class for clients"),
        ("holdfast catalog export --format json --catalog app.errors:errors", "one catalog of your own, for programs"),
    ),
    "diff": (
        ("holdfast catalog diff released.json", "the released version against the code that runs here"),
        ("holdfast catalog diff old.json new.json --json", "two versions, for a program"),
    ),
}
RUNNING = "-"


class Format(StrEnum):
    """What an export is for."""

    MARKDOWN = "markdown"
    JSON = "json"
    OPENAPI = "openapi"
    TYPESCRIPT = "typescript"
    PYTHON = "python"


Wheres = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog",
        metavar="MODULE:NAME",
        help="A catalog, such as app.errors:errors; may be given again. Without it, the core's and every system's.",
        show_default=False,
    ),
]


def export(
    form: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.MARKDOWN,
    catalog: Wheres = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write there, whole or not at all; without it, print.", show_default=False),
    ] = None,
) -> None:
    """Write the declared faults down: a page, a registry, OpenAPI components, or an error class for clients."""
    from holdfast.analysis import entries

    with explained():
        text = _writer(form)(entries(chosen_catalogs(catalog or [])))
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        _write(output, text)
    except OSError as refused:
        raise refuse(f"--output {output}: {refused.strerror or refused}") from None
    note(f"Wrote {output}.")


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A JSON export.")],
    new: Annotated[
        str,
        typer.Argument(
            metavar="NEW", help="Another one; without it, or as -, the code that runs here.", show_default=False
        ),
    ] = RUNNING,
    catalog: Wheres = None,
    as_json: AsJson = False,
) -> None:
    """Compare two versions; ends with code 1 when clients break: a code is gone, its status or retryability is another.

    New codes and new words are listed and are fine.
    """
    from holdfast.analysis import changes, entries

    if catalog and new != RUNNING:
        raise refuse(
            f"--catalog chooses from the code that runs here, and NEW is the file {new}: leave one of them out"
        )
    with explained():
        before = _read(old)
        after = entries(chosen_catalogs(catalog or [])) if new == RUNNING else _read(Path(new))
        found = changes(before, after)
    breaking = [change for change in found if change.what.breaks]
    fine = [change for change in found if not change.what.breaks]
    if as_json:
        say_json({"breaking": [_document(one) for one in breaking], "fine": [_document(one) for one in fine]})
    else:
        for title, changed in (("Breaks clients:", breaking), ("Fine:", fine)):
            if changed:
                say(title)
                for change in changed:
                    say(f"  {clean(str(change))}")
        say(f"{len(breaking)} of {len(found)} changes break clients." if found else "Nothing has changed.")
    if breaking:
        raise typer.Exit(ExitCode.FOUND)


def _writer(form: Format) -> Callable[[Sequence[Any]], str]:
    from holdfast import analysis

    return {
        Format.MARKDOWN: analysis.to_markdown,
        Format.JSON: analysis.to_json,
        Format.OPENAPI: analysis.to_openapi,
        Format.TYPESCRIPT: analysis.to_typescript,
        Format.PYTHON: analysis.to_python,
    }[form]


def _write(output: Path, text: str) -> None:
    """Whole or not at all: a reader never sees half of a file."""
    if output.exists() and not output.is_file():
        output.write_text(text, "utf-8")  # a pipe or a device cannot be replaced
        return
    draft = output.with_name(f"{output.name}.{os.getpid()}.draft")
    try:
        draft.write_text(text, "utf-8")
        draft.replace(output)
    finally:
        draft.unlink(missing_ok=True)


def _read(file: Path) -> list[Any]:
    from holdfast.analysis import ExportUnreadable, from_json
    from holdfast.analysis.export_json import EXPORT_BYTES_MAX

    try:
        with file.open("rb") as opened:
            return from_json(opened.read(EXPORT_BYTES_MAX + 1))
    except OSError as refused:
        raise EXPORT_UNREADABLE(file=file, problem=refused.strerror or str(refused)) from None
    except ExportUnreadable as broken:
        raise EXPORT_UNREADABLE(file=file, problem=str(broken)) from None


def _document(change: Any) -> dict[str, Any]:
    values = {"before": change.before, "after": change.after} if change.before is not None else {}
    return {"catalog": change.catalog, "code": change.code, "change": change.what.value, **values}
