"""Asking before something that cannot be taken back."""

from __future__ import annotations

import sys

import typer

from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.output import note, refuse


def agree(question: str, does: str) -> None:
    """Ask, and go on only after a yes.

    Raises:
        typer.Exit: the answer was no, or nobody is there to answer.
    """
    if not sys.stdin.isatty():
        raise refuse(f"this would {does}; give --yes, since nobody is here to be asked")
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        note("Nothing was done.")
        raise typer.Exit(ExitCode.REFUSED)
