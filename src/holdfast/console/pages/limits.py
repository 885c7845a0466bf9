"""Limits: who has used up a rate limit just now, and every named bound of this process."""

from __future__ import annotations

from dataclasses import asdict

from holdfast.base import limits as bounds
from holdfast.base import redacted_text
from holdfast.base.formatting import SECOND_US, span
from holdfast.console.page import Desk, Live, Page, Part
from holdfast.console.parts import Column, panel, table
from holdfast.console.visit import Visit
from holdfast.http.markup import element
from holdfast.store import Row, Tx

ROWS_MAX = 100
USED = (Column("rule"), Column("who", "wide"), Column("whole again in", "number"))
BOUNDS = (Column("limit", "wide"), Column("value", "number"), Column("setting", "short"))


def page(desk: Desk, visit: Visit) -> Page:  # noqa: ARG001 - as every page
    """Both kinds of limits."""

    def read(tx: Tx) -> tuple[int, list[Row]]:
        return tx.now_us(), tx.rows("console.limits", count=ROWS_MAX)

    now_us, used = desk.store.atomic(read, write=False)
    rows = [[rule, redacted_text(subject, 120), span((tat_us - now_us) / SECOND_US)] for rule, subject, tat_us in used]
    named = [
        [element("code", name), f"{value:,.12g}", element("code", f"HOLDFAST_LIMIT_{name.upper()}")]
        for name, value in asdict(bounds()).items()
    ]
    in_use = table(USED, rows, caption="Rate limits in use", empty="Nobody has used up any of a rate limit.")
    parts: list[Part] = [
        element("h1", "Limits"),
        Live("limits", panel("Rate limits in use", in_use, note="Shared by all processes; the fullest first.")),
        panel(
            "Bounds",
            table(BOUNDS, named, caption="Bounds of this process", empty=""),
            note="As this process has them; units stand in the names.",
        ),
    ]
    return Page("Limits", parts, "limits")
