"""`holdfast breakers`: those that all processes share, how they stand; probe, trip, recover."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.base.formatting import clean
from holdfast.cli.actor import os_actor
from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.output import say, say_json, say_lines
from holdfast.cli.table import Column, say_table, when
from holdfast.operate import breakers as operate_breakers
from holdfast.operate.breakers import OPEN_S_MAX
from holdfast.worker.queues import Queues

EXAMPLES = {
    "list": (("holdfast breakers list", "every breaker that has ever moved"),),
    "probe": (("holdfast breakers probe payments", "let one through, to test"),),
    "trip": (('holdfast breakers trip payments --for 1800 --reason "the bank asked us to"', "let nothing through"),),
    "recover": (('holdfast breakers recover payments --reason "the bank is back"', "close it at once"),),
}
COLUMNS = (Column("breaker", cuttable=True), Column("state"), Column("next look"), Column("why", cuttable=True))
OPEN_S = 300

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the breaker.")]
Reason = Annotated[
    str | None, typer.Option(help="Why; everybody who looks at the breaker reads it.", show_default=False)
]


def list_breakers(database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """List every breaker of queues and endpoints that has ever moved; those that are not closed come first."""
    with opened(database) as store:
        found = sorted(Queues(store).breakers(), key=lambda one: (one.state == "closed", one.name))
        at_us = store.atomic(lambda tx: tx.now_us(), write=False)
    if as_json:
        say_lines(asdict(one) for one in found)
        return
    rows = [(one.name, one.state.replace("_", " "), when(one.until_us, at_us), one.reason) for one in found]
    say_table(COLUMNS, rows, empty="No breaker has ever moved.")


def probe(name: Name, reason: Reason = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Let one through an open breaker, to test whether its target works again."""
    with opened(database) as store:
        moved = operate_breakers.probe(store, name, actor=os_actor(), reason=reason).changed
    _tell(name, "probed", moved, f"One may try {clean(name)}.", f"{clean(name)} is closed.", as_json=as_json)


def trip(
    name: Name,
    seconds: Annotated[
        int, typer.Option("--for", metavar="SECONDS", help="Then it probes by its own rule.", min=1, max=OPEN_S_MAX)
    ] = OPEN_S,
    reason: Reason = None,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Open a breaker: nothing passes for the given number of seconds."""
    with opened(database) as store:
        moved = operate_breakers.trip(store, name, actor=os_actor(), reason=reason, open_s=seconds).changed
    _tell(
        name, "tripped", moved, f"Tripped {clean(name)} for {seconds} s.", f"{clean(name)} is open already.",
        as_json=as_json,
    )  # fmt: skip


def recover(name: Name, reason: Reason = None, database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Close a breaker at once: everything passes."""
    with opened(database) as store:
        moved = operate_breakers.recover(store, name, actor=os_actor(), reason=reason).changed
    _tell(name, "recovered", moved, f"Recovered {clean(name)}.", f"{clean(name)} is closed already.", as_json=as_json)


def _tell(name: str, verb: str, moved: bool, done: str, otherwise: str, *, as_json: bool) -> None:
    if as_json:
        say_json({"breaker": name, verb: moved})
    else:
        say(done if moved else otherwise)
