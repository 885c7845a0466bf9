"""`holdfast alerts`: the rules and how they stand, a look at this moment, and the files for Prometheus and Grafana."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.database import AsJson, DatabaseUrl, explained, opened
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.output import note, refuse, say, say_lines
from holdfast.cli.table import Column, Given, say_table, when
from holdfast.policy.overlay import OverlayInvalid
from holdfast.store import Store

if TYPE_CHECKING:  # loaded by the command that needs it: every other one would wait for it
    from holdfast.watch.alerts import Alerts, Standing
    from holdfast.watch.rules_file import AlertPolicy

EXAMPLES = {
    "list": (
        ("holdfast alerts list", "every rule, and which of them fire"),
        ("holdfast alerts list --policy alerts.toml", "with the thresholds of a policy file"),
    ),
    "check": (("holdfast alerts check", "read every rule now; exit code 6 when one is over its threshold"),),
    "export": (
        ("holdfast alerts export --format prometheus > holdfast.rules.yml", "the same rules for Prometheus"),
        ("holdfast alerts export --format grafana > holdfast.json", "a dashboard for Grafana"),
    ),
}
LIST = (
    Column("rule", cuttable=True),
    Column("cause", cuttable=True),
    Column("severity"),
    Column("state"),
    Column("since"),
    Column("when", cuttable=True),
)
CHECK = (
    Column("rule", cuttable=True),
    Column("cause", cuttable=True),
    Column("severity"),
    Column("now", right=True),
    Column("when", cuttable=True),
    Column("over"),
    Column("state"),
)
OFF = "off"

PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        envvar="HOLDFAST_ALERTS",
        help="A policy file in TOML: other thresholds, and who is told.",
        show_default=False,
    ),
]


class Format(StrEnum):
    PROMETHEUS = "prometheus"
    GRAFANA = "grafana"


def list_alerts(database: DatabaseUrl = None, policy: PolicyFile = None, as_json: AsJson = False) -> None:
    """List every rule with what it watches for and how it stands."""
    chosen = _policy(policy)
    with opened(database) as store:
        found = _alerts(store, chosen).standings()
        at_us = store.atomic(lambda tx: tx.now_us(), write=False)
    if as_json:
        say_lines(_record(one) for one in found)
        return
    say_table(LIST, [_list_row(one, at_us) for one in found], empty="There is no rule.")


def check(database: DatabaseUrl = None, policy: PolicyFile = None, as_json: AsJson = False) -> None:
    """Read every rule once, now, and print the numbers. Nobody is told and nothing is changed.

    The exit code is 6 when a rule is over its threshold, however short a time that may last.
    """
    chosen = _policy(policy)
    with opened(database) as store:
        found = _alerts(store, chosen).standings(read=True)
    over = [one for one in found if one.exceeded]
    if as_json:
        say_lines({**_record(one), "value": one.reading, "exceeded": one.exceeded} for one in found)
    else:
        say_table(CHECK, [_check_row(one) for one in found], empty="There is no rule.")
        note(f"{len(over)} over the threshold." if over else "None is over its threshold.")
    if over:
        raise typer.Exit(ExitCode.FOUND)


def export(
    file_format: Annotated[Format, typer.Option("--format", help="What the file is for.", show_default=False)],
    policy: PolicyFile = None,
) -> None:
    """Write the same rules for Prometheus, or the same panels for Grafana."""
    rules = _policy(policy).rules
    with explained():
        if file_format is Format.PROMETHEUS:
            from holdfast.watch.promql_rules import rule_file

            say(rule_file(rules).rstrip("\n"))
        else:
            from holdfast.watch.grafana import dashboard_file

            say(dashboard_file(rules=rules).rstrip("\n"))


def _policy(path: Path | None) -> AlertPolicy:
    from holdfast.watch.rules_builtin import RULES
    from holdfast.watch.rules_file import AlertPolicy, load_alerts

    if path is None:
        return AlertPolicy(RULES)
    try:
        return load_alerts(path, RULES)
    except OverlayInvalid as invalid:
        raise refuse(str(invalid)) from None


def _alerts(store: Store, policy: AlertPolicy) -> Alerts:
    from holdfast.watch.alerts import Alerts
    from holdfast.watch.series import StoreSeries

    return Alerts(store, StoreSeries(store), rules=policy.rules, sinks=policy.sinks)


def _state(one: Standing) -> str:
    return one.state.phase.value if one.rule.enabled else OFF


def _since_us(one: Standing) -> int | None:
    return one.state.resolved_us or one.state.began_us


def _list_row(one: Standing, at_us: int) -> list[Given]:
    from holdfast.watch.rules_wording import condition_of

    since = when(_since_us(one), at_us)
    return [one.rule.name, one.cause, one.rule.severity.value, _state(one), since, condition_of(one.rule)]


def _check_row(one: Standing) -> list[Given]:
    from holdfast.watch.rules_wording import condition_of, value_text

    reading = value_text(one.rule.what, one.reading) if one.reading is not None else ""
    over = "yes" if one.exceeded else ""
    return [one.rule.name, one.cause, one.rule.severity.value, reading, condition_of(one.rule), over, _state(one)]


def _record(one: Standing) -> dict[str, Any]:
    from holdfast.watch.rules_wording import condition_of, summary_of

    rule, state = one.rule, one.state
    return {
        "rule": rule.name,
        "cause": one.cause,
        "label": rule.per,
        "severity": rule.severity.value,
        "summary": summary_of(rule),
        "condition": condition_of(rule),
        "threshold": rule.threshold,
        "action": None if rule.action is None else rule.action.value,
        "enabled": rule.enabled,
        "state": _state(one),
        "began_us": state.began_us,
        "fired_us": state.fired_us,
        "resolved_us": state.resolved_us,
        "value": state.value,
    }
