"""The `holdfast` command as Typer sees it: its options and its subcommands."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from holdfast.cli.serve import serve

application = typer.Typer(
    name="holdfast",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="[bold]Examples[/bold]\n\n[cyan]holdfast serve[/cyan]  start on port 8080\n\n"
    "[cyan]holdfast serve --help[/cyan]  everything about one command",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holdfast {version('holdfast')}")
        raise typer.Exit


@application.callback()
def holdfast(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Failure handling for Python services: declare what can go wrong once, derive the rest."""


application.command(
    epilog="[bold]Examples[/bold]\n\n[cyan]holdfast serve[/cyan]  on port 8080 of this machine only\n\n"
    "[cyan]holdfast serve --port 0[/cyan]  on any free port; the address is printed\n\n"
    "[cyan]HOLDFAST_PORT=9000 holdfast serve[/cyan]  the port from the environment",
)(serve)
