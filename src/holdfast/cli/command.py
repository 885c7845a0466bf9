"""The `holdfast` command as Typer sees it: its options and its subcommands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from holdfast.cli import (
    alerts,
    audit,
    breakers,
    catalog,
    dead,
    deliveries,
    endpoints,
    jobs,
    keys,
    migrate,
    prune,
    queues,
    schedules,
    serve,
    systems,
    worker,
    workers,
)
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.output import refuse, want_json

Examples = Iterable[tuple[str, str]]
PROGRAM = "holdfast"
JSON_OPTION = "--json"
MISUSES: Any = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")
"""What Typer raises for a command line that it does not understand; it has no public name for it."""
HELP_NAMES = {"help_option_names": ["-h", "--help"]}


def _epilog(examples: Examples) -> str:
    """Examples below the help. A square bracket would be read as markup, so it is escaped."""
    lines = [f"[cyan]{command.replace('[', chr(92) + '[')}[/cyan]  {what}" for command, what in examples]
    return "\n\n".join(["[bold]Examples[/bold]", *lines])


application = typer.Typer(
    name=PROGRAM,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings=HELP_NAMES,
    epilog=_epilog(
        (
            ("holdfast serve", "start every system on port 8080"),
            ("holdfast worker app.jobs:handlers", "run jobs"),
            ("holdfast serve --help", "everything about one command"),
        )
    ),
)


def run(words: Sequence[str]) -> None:
    """Run the command with these words; with --json among them, what Typer itself refuses is JSON too."""
    _add_commands_of_systems(words)
    if JSON_OPTION not in words:
        application(words, prog_name=PROGRAM)
        return
    try:
        code = application(words, prog_name=PROGRAM, standalone_mode=False)
    except typer.Abort:
        sys.exit(ExitCode.REFUSED)
    except MISUSES as misuse:
        want_json(True)
        sys.exit(refuse(misuse.format_message()).exit_code)
    sys.exit(code if isinstance(code, int) else ExitCode.DONE)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # few ask; it takes longer to load than all of Holdfast

        typer.echo(f"holdfast {version('holdfast')}")
        raise typer.Exit


@application.callback()
def holdfast(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Failure handling for Python services: declare what can go wrong once, derive the rest."""


_commands: list[tuple[str, Callable[..., Any], Examples]] = []


def every_command() -> list[tuple[str, Callable[..., Any], Examples]]:
    """Every command by its words, with the function that runs it and its examples; for the reference."""
    return list(_commands)


def _command(name: str, function: Callable[..., Any], examples: Examples) -> None:
    application.command(name, epilog=_epilog(examples))(function)
    _commands.append((name, function, examples))


def _group(name: str, says: str, commands: Mapping[str, tuple[Callable[..., Any], Examples]]) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", context_settings=HELP_NAMES, help=says)
    for verb, (function, examples) in commands.items():
        group.command(verb, epilog=_epilog(examples))(function)
        _commands.append((f"{name} {verb}", function, examples))
    application.add_typer(group, name=name)


def _add_commands_of_systems(words: Sequence[str]) -> None:
    """Add the groups that systems bring along. Only the one that is asked for is loaded."""
    wanted = words[0] if words else ""
    if wanted in {command.name for command in application.registered_groups}:
        return
    if wanted and not wanted.startswith("-") and wanted not in systems.contributing():
        return
    for name in systems.contributing():
        loaded = systems.commands(name) if name == wanted else {}
        _group(name, systems.says_of_commands(name), loaded)


_command("serve", serve.serve, serve.EXAMPLES)
_command("worker", worker.worker, worker.EXAMPLES)
_command("workers", workers.workers, workers.EXAMPLES)
_command("migrate", migrate.migrate, migrate.EXAMPLES)
_command("audit", audit.audit, audit.EXAMPLES)
_command("prune", prune.prune, prune.EXAMPLES)
_group(
    "jobs",
    "Jobs: list, show, enqueue, cancel, revive, discard.",
    {
        "list": (jobs.list_jobs, jobs.EXAMPLES["list"]),
        "show": (jobs.show, jobs.EXAMPLES["show"]),
        "enqueue": (jobs.enqueue, jobs.EXAMPLES["enqueue"]),
        "cancel": (jobs.cancel, jobs.EXAMPLES["cancel"]),
        "revive": (jobs.revive, jobs.EXAMPLES["revive"]),
        "discard": (jobs.discard, jobs.EXAMPLES["discard"]),
    },
)
_group(
    "dead",
    "Dead letters: what has used its attempts, alone or in groups; revive or discard.",
    {
        "list": (dead.list_dead, dead.EXAMPLES["list"]),
        "groups": (dead.groups, dead.EXAMPLES["groups"]),
        "show": (dead.show, dead.EXAMPLES["show"]),
        "revive": (dead.revive, dead.EXAMPLES["revive"]),
        "discard": (dead.discard, dead.EXAMPLES["discard"]),
        "resume": (dead.resume, dead.EXAMPLES["resume"]),
    },
)
_group(
    "queues",
    "Queues: how they stand; pause and resume.",
    {
        "status": (queues.status, queues.EXAMPLES["status"]),
        "pause": (queues.pause, queues.EXAMPLES["pause"]),
        "resume": (queues.resume, queues.EXAMPLES["resume"]),
        "probe": (queues.probe, queues.EXAMPLES["probe"]),
    },
)
_group(
    "breakers",
    "Breakers that all processes share: how they stand; probe, trip and recover.",
    {
        "list": (breakers.list_breakers, breakers.EXAMPLES["list"]),
        "probe": (breakers.probe, breakers.EXAMPLES["probe"]),
        "trip": (breakers.trip, breakers.EXAMPLES["trip"]),
        "recover": (breakers.recover, breakers.EXAMPLES["recover"]),
    },
)
_group(
    "endpoints",
    "Webhook endpoints: how they stand; enable, disable, remove.",
    {
        "list": (endpoints.list_endpoints, endpoints.EXAMPLES["list"]),
        "show": (endpoints.show, endpoints.EXAMPLES["show"]),
        "enable": (endpoints.enable, endpoints.EXAMPLES["enable"]),
        "disable": (endpoints.disable, endpoints.EXAMPLES["disable"]),
        "remove": (endpoints.remove, endpoints.EXAMPLES["remove"]),
    },
)
_group(
    "deliveries",
    "Webhook deliveries: events and who got them; replay what was given up.",
    {
        "list": (deliveries.list_them, deliveries.EXAMPLES["list"]),
        "show": (deliveries.show, deliveries.EXAMPLES["show"]),
        "replay": (deliveries.replay, deliveries.EXAMPLES["replay"]),
    },
)
_group(
    "keys",
    "API keys: create, list, revoke.",
    {
        "create": (keys.create, keys.EXAMPLES["create"]),
        "list": (keys.list_keys, keys.EXAMPLES["list"]),
        "revoke": (keys.revoke, keys.EXAMPLES["revoke"]),
    },
)
_group(
    "schedules",
    "Periodic jobs: when they fired last, and when they are due.",
    {"list": (schedules.list_them, schedules.EXAMPLES["list"])},
)
_group(
    "alerts",
    "Alerts: the rules and how they stand; files for Prometheus and Grafana.",
    {
        "list": (alerts.list_alerts, alerts.EXAMPLES["list"]),
        "check": (alerts.check, alerts.EXAMPLES["check"]),
        "export": (alerts.export, alerts.EXAMPLES["export"]),
    },
)
_group(
    "catalog",
    "The declared faults: write them down for others; compare two versions.",
    {
        "export": (catalog.export, catalog.EXAMPLES["export"]),
        "diff": (catalog.diff, catalog.EXAMPLES["diff"]),
    },
)
