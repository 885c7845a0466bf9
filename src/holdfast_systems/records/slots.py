"""Slots: assigned, freed, and where two people claim one, decided by a person.

Always true: a slot changes hands only as it was seen; of many who come at once, one gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.base import new_id
from holdfast.catalog import Failure
from holdfast.store import Tx
from holdfast_systems.records import people
from holdfast_systems.records.faults import (
    BUSINESS_RULE_VIOLATION,
    REVIEW_NOT_FOUND,
    SLOT_CONFLICT,
    SLOT_NOT_FOUND,
)
from holdfast_systems.records.model import RESOLUTION_OPTIONS, Decision, OnConflict, Role, Slot, slot_of
from holdfast_systems.records.tables import shown


@dataclass(frozen=True, slots=True)
class Assigned:
    """What became of an assignment, and whether a person has to decide."""

    body: dict[str, Any]
    waits: bool = False


def assign(tx: Tx, account_id: str, slot_uid: str, person_uid: str, on_conflict: OnConflict) -> Assigned:
    """Put the person into the slot.

    Raises:
        Failure: SLOT_NOT_FOUND, PERSON_NOT_FOUND; BUSINESS_RULE_VIOLATION for a person of another company;
            SLOT_CONFLICT when somebody else sits there and nothing else was asked for.
    """
    # The person before the slot, the order in which removing a person locks them: crosswise they would wait for ever.
    person = tx.records("records.person_held", uid=person_uid, account_id=account_id)
    slot, occupant = _held(tx, account_id, slot_uid)
    if not person:
        raise people.missing(person_uid)
    if person[0]["company_uid"] != slot.company_uid:
        raise _foreign(slot, person_uid)
    if occupant is None or occupant == person_uid or on_conflict is OnConflict.FORCE:
        return Assigned(_put(tx, slot, person_uid, occupant))
    if on_conflict is OnConflict.FAIL:
        raise conflict(slot, occupant)
    return Assigned(_review(tx, account_id, slot, person_uid, occupant), waits=True)


def free(tx: Tx, account_id: str, slot_uid: str) -> dict[str, Any]:
    """Remove the current occupant from the slot; a free slot stays free.

    Raises:
        Failure: SLOT_NOT_FOUND.
    """
    slot, occupant = _held(tx, account_id, slot_uid)
    if occupant is not None:
        tx.rows("records.free", company_uid=slot.company_uid, role=slot.role.value, seen=occupant)
    return {"slot_uid": slot.uid, "status": "free", "person_uid": None, "previous_occupant": occupant}


def reviews(tx: Tx, account_id: str, *, after: str, count: int, status: str | None) -> Sequence[dict[str, Any]]:
    """Reviews in the order in which they were asked for."""
    rows = tx.records("records.reviews", account_id=account_id, after=after, count=count, status=status)
    return [_shown_review(row) for row in rows]


def decide(tx: Tx, account_id: str, review_id: str, decision: Decision, *, by: str) -> dict[str, Any]:
    """Close a review; approved, the person gets the slot, even when another person sits there now.

    Raises:
        Failure: REVIEW_NOT_FOUND; BUSINESS_RULE_VIOLATION when it is decided already or the person has gone.
    """
    found = tx.records("records.review", id=review_id, account_id=account_id)
    if not found:
        raise REVIEW_NOT_FOUND(review_id=review_id)
    review = found[0]
    if review["status"] != "open":
        raise BUSINESS_RULE_VIOLATION(
            rule="review_decided",
            explanation="The review is decided already.",
            review_id=review_id,
            status=review["status"],
        )
    slot = Slot(review["company_uid"], Role(review["role"]))
    if decision is Decision.APPROVE:
        assign(tx, account_id, slot.uid, review["person_uid"], OnConflict.FORCE)
    status = "approved" if decision is Decision.APPROVE else "rejected"
    tx.rows("records.decide", id=review_id, account_id=account_id, status=status, by=by)
    return _shown_review(tx.records("records.review", id=review_id, account_id=account_id)[0])


def conflict(slot: Slot, occupant: str) -> Failure:
    """SLOT_CONFLICT with who sits there and the ways out."""
    return SLOT_CONFLICT(slot_uid=slot.uid, current_occupant=occupant, resolution_options=list(RESOLUTION_OPTIONS))


def _held(tx: Tx, account_id: str, slot_uid: str) -> tuple[Slot, str | None]:
    """The slot and who sits there; nobody else changes it until the end of the transaction."""
    slot = slot_of(slot_uid)
    found = None
    if slot is not None:
        found = tx.row("records.slot", company_uid=slot.company_uid, role=slot.role.value, account_id=account_id)
    if slot is None or found is None:
        raise SLOT_NOT_FOUND(slot_uid=slot_uid)
    return slot, found[0]


def _put(tx: Tx, slot: Slot, person_uid: str, occupant: str | None) -> dict[str, Any]:
    assigned = {"status": "unchanged", "assigned_at": None}
    if occupant != person_uid:
        place = {"company_uid": slot.company_uid, "role": slot.role.value}
        done = tx.row("records.assign", **place, person_uid=person_uid, seen=occupant)
        if done is None:
            raise conflict(slot, occupant or "")
        assigned = {"status": "assigned" if occupant is None else "reassigned", **shown({"assigned_us": done[0]})}
    previous = occupant if occupant != person_uid else None
    return {"slot_uid": slot.uid, "person_uid": person_uid, "previous_occupant": previous, **assigned}


def _review(tx: Tx, account_id: str, slot: Slot, person_uid: str, occupant: str) -> dict[str, Any]:
    review_id = new_id()
    made = tx.row(
        "records.add_review",
        id=review_id,
        account_id=account_id,
        company_uid=slot.company_uid,
        role=slot.role.value,
        person_uid=person_uid,
        occupant_uid=occupant,
    )
    assert made is not None
    return {
        "review_id": review_id,
        "slot_uid": slot.uid,
        "person_uid": person_uid,
        "current_occupant": occupant,
        "status": "pending_review",
        **shown({"created_us": made[0]}),
    }


def _shown_review(row: dict[str, Any]) -> dict[str, Any]:
    told = shown(row, id="review_id", occupant_uid="current_occupant")
    role = told.pop("role")
    return {**told, "slot_uid": Slot(row["company_uid"], Role(role)).uid}


def _foreign(slot: Slot, person_uid: str) -> Failure:
    return BUSINESS_RULE_VIOLATION(
        rule="person_of_another_company",
        explanation="The person belongs to another company than the slot.",
        slot_uid=slot.uid,
        person_uid=person_uid,
    )
