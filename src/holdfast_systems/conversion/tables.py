"""The uploads in the store: each function is one phase of a transaction."""

from __future__ import annotations

from typing import Any

from holdfast.catalog import CORE, Failure
from holdfast.store import Store, Tx
from holdfast.worker import Jobs
from holdfast_systems.conversion.model import CONVERT, QUEUE, Gate, Received, gate_of, twin_key
from holdfast_systems.conversion.quota import Sender

PACKAGE = "holdfast_systems.conversion"
SYSTEM = "conversion"
TWIN_TRIES = 5
RESERVED_S = 30.0
"""How long a failed upload that is about to be revived keeps its key."""


def prepare(store: Store) -> None:
    """Load the statements and bring the tables up to date."""
    store.load(PACKAGE)
    store.migrate(PACKAGE, system=SYSTEM)


def find(tx: Tx, upload_id: str) -> dict[str, Any] | None:
    """An upload with its job, or None."""
    found = tx.records("conversion.show", id=upload_id)
    return found[0] if found else None


def listed(tx: Tx, owner: str, *, before: str | None, count: int) -> list[dict[str, Any]]:
    """An owner's uploads with their jobs, newest first."""
    return tx.records("conversion.list", owner=owner, before=before, count=count)


def counts(tx: Tx, owner: str) -> dict[str, int]:
    """How an owner's uploads stand, all of them."""
    found = tx.row("conversion.counts", owner=owner)
    assert found is not None
    active, ready, failed, retryable, every = map(int, found)
    return {"active": active, "ready": ready, "failed": failed, "retryable": retryable, "ended": every - active}


def gate(tx: Tx) -> Gate:
    """Whether the gateway gets jobs."""
    found = tx.row("conversion.gate", queue=QUEUE)
    assert found is not None
    return gate_of(*found)


def twin_of(tx: Tx, owner: str, key: str) -> str | None:
    """The owner's upload that is being or has been converted just so; a key whose holder has failed is set free."""
    found = tx.row("conversion.twin", owner=owner, twin_key=key)
    if found is None:
        return None
    upload_id, alive = found
    if alive:
        return str(upload_id)
    tx.run("conversion.free_twin", id=upload_id)
    return None


def accept(tx: Tx, jobs: Jobs, upload_id: str, sender: Sender, received: Received) -> str:
    """The upload and its job, together; or the twin that was there first. The id of whichever counts.

    Raises:
        Failure: CONFLICT, because twins come and go too fast.
    """
    for _ in range(TWIN_TRIES):
        twin = twin_of(tx, sender.owner, received.twin_key)
        if twin is not None:
            return twin
        # The row goes first: while another transaction holds the key, this one waits here and makes no job. Until
        # there is one, its own id stands in the job's place.
        inserted = tx.run(
            "conversion.insert",
            id=upload_id,
            owner=sender.owner,
            address=sender.address,
            file_name=received.file_name,
            mapping=received.mapping,
            bytes=received.bytes,
            sha256=received.sha256,
            job_id=upload_id,
            twin_key=received.twin_key,
        )
        if inserted:
            made = jobs.enqueue(
                CONVERT,
                {"upload": upload_id, "mapping": received.mapping, "sha256": received.sha256},
                queue=QUEUE,
                tx=tx,
            )
            tx.run("conversion.link", id=upload_id, job_id=made.id)
            return upload_id
    raise CORE["CONFLICT"]("Too many uploads of this file at once.")


def refuse(tx: Tx, upload_id: str, sender: Sender, facts: dict[str, Any], failure: Failure) -> None:
    """Remember an upload that was refused, so that its owner sees why."""
    said = {"code": failure.code, "message": failure.message}
    tx.run("conversion.refuse", id=upload_id, owner=sender.owner, address=sender.address, **said, **facts)


def reserve(tx: Tx, record: dict[str, Any]) -> bool:
    """Take the key of a failed upload again, because its job is about to be revived; False when a newer one has it."""
    key = twin_key(sha256=record["sha256"], mapping=record["mapping"], size=record["bytes"])
    twin = twin_of(tx, record["owner"], key)
    if twin not in (None, record["id"]):
        return False
    hold_us = int(RESERVED_S * 1_000_000)
    return tx.row("conversion.reserve", id=record["id"], twin_key=key, hold_us=hold_us) is not None
