"""`holdfast commerce audit`: it proves the ledger, and finds whatever somebody has broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from holdfast.store import Store
from holdfast_systems.commerce.control_plane.proof import prove

from .live import Live
from .shop import bought, held, release, settle

TABLE = "holdfast_commerce"


def filled(live: Live) -> dict[str, Any]:
    """A wallet with something of everything."""
    made = bought(live)
    for number, end in enumerate((lambda one: settle(live, one, 3), lambda one: release(live, one), lambda one: None)):
        end(held(live, made["instanceId"], f"r{number}"))
    bought(live, user="u2", order="O2")
    return made


def broken(store: Store, *statements: str) -> None:
    """Change what the constraints and triggers would refuse, as a bad restore or a hand in the database could."""
    with store.database.transaction(write=True) as execute:
        if store.engine == "postgresql":
            execute(f"ALTER TABLE {TABLE}_entry DISABLE TRIGGER USER", {})
            execute(f"ALTER TABLE {TABLE}_wallet DROP CONSTRAINT {TABLE}_wallet_sum", {})
            execute(f"ALTER TABLE {TABLE}_entry DROP CONSTRAINT {TABLE}_entry_sum", {})
        else:
            execute(f"DROP TRIGGER {TABLE}_entry_unchanged", {})
            execute(f"DROP TRIGGER {TABLE}_entry_undeleted", {})
            execute("PRAGMA ignore_check_constraints = ON", {})
        for statement in statements:
            execute(statement, {})
        if store.engine != "postgresql":
            execute("PRAGMA ignore_check_constraints = OFF", {})


def test_a_ledger_that_adds_up_is_proven(live: Live, store: Store) -> None:
    filled(live)
    proof = prove(store)
    assert proof.document() == {
        "holds": True,
        "wallets": 2,
        "entries": 3,
        "available": 192,
        "held": 5,
        "spent": 3,
        "paidIn": 200,
        "findings": [],
    }


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE {t}_wallet SET available = available + 1", "available + held + spent is 101"),
        ("UPDATE {t}_wallet SET available = available + 1, paid_in = paid_in + 1", "but its entries pay in 100"),
        ("UPDATE {t}_wallet SET available = available - 1, held = held + 1", "but its reservations hold"),
        ("UPDATE {t}_entry SET credits = credits + 1 WHERE kind = 'charge'", "charges differ from their reservations"),
        ("DELETE FROM {t}_entry WHERE kind = 'charge'", "settled reservations have no charge"),
        ("DELETE FROM {t}_reservation WHERE state = 'settled'", "charges differ from their reservations"),
        ("UPDATE {t}_entry SET paid_in = paid_in + 1, available = available + 1", "do not follow from the one before"),
        ("DELETE FROM {t}_wallet", "entries belong to no wallet"),
    ],
)
def test_what_does_not_add_up_is_found(live: Live, store: Store, statement: str, told: str) -> None:
    filled(live)
    broken(store, statement.format(t=TABLE))
    proof = prove(store)
    assert not proof.holds
    assert any(told in finding.problem for finding in proof.findings), proof.findings


def test_the_command_says_so_and_its_exit_code_too(live: Live, store: Store, database_url: str) -> None:
    made = filled(live)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    command = [sys.executable, "-m", "holdfast.cli", "commerce", "audit"]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        given = {**environment, "HOLDFAST_DATABASE": database_url}
        return subprocess.run([*command, *words], env=given, capture_output=True, text=True, timeout=100, check=False)

    good = run()
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout == "2 wallets, 3 entries: available 192 + held 5 + spent 3 = paid in 200\n"
    broken(store, f"UPDATE {TABLE}_wallet SET available = available + 1 WHERE id = '{made['walletId']}'")
    bad = run("--json")
    assert bad.returncode == 1
    (finding,) = json.loads(bad.stdout)["findings"]
    assert finding == {
        "walletId": made["walletId"],
        "problem": "available + held + spent is 101, and 100 was paid in",
    }
