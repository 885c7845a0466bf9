"""Commerce: prove that the ledger adds up."""

from __future__ import annotations

import typer

from holdfast.cli.database import AsJson, DatabaseUrl, opened
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.output import note, say, say_json
from holdfast_systems.commerce import tables
from holdfast_systems.commerce.control_plane.proof import prove

FINDINGS_SHOWN = 50

EXAMPLES = {
    "audit": (
        ("holdfast commerce audit", "every wallet beside its entries and reservations; fails when one does not add up"),
        ("holdfast commerce audit --json", "the same for a program"),
    ),
}


def audit(database: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Prove that available + held + spent is what was paid in, for every wallet, from its entries and reservations.

    It changes nothing and may run while credits move; the exit code is 1 when something does not add up.
    """
    with opened(database) as store:
        tables.prepare(store)
        proof = prove(store)
    if as_json:
        say_json(proof.document())
    else:
        for finding in proof.findings[:FINDINGS_SHOWN]:
            note(f"{finding.wallet_id or 'ledger'}: {finding.problem}")
        if len(proof.findings) > FINDINGS_SHOWN:
            note(f"and {len(proof.findings) - FINDINGS_SHOWN} more")
        say(
            f"{proof.wallets} wallets, {proof.entries} entries: available {proof.available} + held {proof.held} "
            f"+ spent {proof.spent} {'=' if proof.holds else '≠'} paid in {proof.paid_in}"
        )
    if not proof.holds:
        raise typer.Exit(ExitCode.FAILED)


COMMANDS = {"audit": (audit, EXAMPLES["audit"])}
