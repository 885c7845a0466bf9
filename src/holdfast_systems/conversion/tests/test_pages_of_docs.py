"""What the documentation says about this system is what the code does."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount

from holdfast.base import Secret
from holdfast.console import console
from holdfast.store import Store
from holdfast_systems.conversion import CONVERSION_FAULTS, Settings

from .system import client, served

HOW = Path(__file__).parents[4] / "docs" / "how"
RUNBOOK = HOW / "conversion-runbook.md"
README = Path(__file__).parents[1] / "README.md"


def cells(page: Path) -> list[list[str]]:
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_setting_is_listed_with_its_default() -> None:
    told = {row[0].strip("`"): row[1] for row in cells(HOW / "run-conversion.md") if len(row) == 3}
    for field in fields(Settings):
        name, default = field.name.upper(), field.default
        if default == "":
            assert name in told
        elif isinstance(default, tuple):
            assert told[name] == ",".join(f"{value:g}" for value in default)
        else:
            assert told[name] == (f"{default:.12g}" if isinstance(default, int | float) else str(default))


def test_every_code_is_listed_with_its_status() -> None:
    told = {row[0].strip("`"): row[1] for row in cells(README) if len(row) == 4 and row[0].startswith("`")}
    assert told == {fault.code: str(fault.status) for fault in CONVERSION_FAULTS}


def test_every_symptom_leads_to_a_view_of_the_console(sqlite_store: Store) -> None:
    links = sorted(set(re.findall(r"\]\((/console[^)]*)\)", RUNBOOK.read_text())))
    assert len(links) > 8
    desk = console(sqlite_store, Secret("token"), [CONVERSION_FAULTS], address="http://127.0.0.1/console")
    with served(Starlette(routes=[Mount("/console", desk.app)])) as address, client(address) as http:
        asked = {link: http.get(link, headers={"authorization": "Bearer token"}) for link in links}
    desk.close()
    assert {link: reply.status_code for link, reply in asked.items()} == dict.fromkeys(links, 200)
    for link, reply in asked.items():
        assert all(value in reply.text for value in re.findall(r"code=(\w+)", link)), "the view is filtered"


def test_every_code_of_the_worker_has_a_place_in_the_runbook() -> None:
    assert {"GW_4XX", "GW_5XX", "GW_TIMEOUT", "IO_ERROR"} <= set(re.findall(r"code=(\w+)", RUNBOOK.read_text()))
