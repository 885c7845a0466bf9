"""People: created, changed, found and removed. Each only within its own account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.catalog import Failure
from holdfast.store import Tx
from holdfast_systems.records import companies
from holdfast_systems.records.faults import BUSINESS_RULE_VIOLATION, PERSON_NOT_FOUND
from holdfast_systems.records.tables import shown


def create(tx: Tx, account_id: str, uid: str, values: Mapping[str, str | None]) -> dict[str, Any]:
    """A new person of a company.

    Raises:
        Failure: COMPANY_NOT_FOUND.
    """
    if tx.row("records.company_kept", uid=values["company_uid"], account_id=account_id) is None:
        raise companies.missing(values["company_uid"])
    made = tx.row("records.add_person", uid=uid, account_id=account_id, **values)
    assert made is not None
    return {
        "person_uid": uid,
        "company_uid": values["company_uid"],
        "status": "created",
        **shown({"created_us": made[0]}),
    }


def show(tx: Tx, account_id: str, uid: str) -> dict[str, Any]:
    """One person.

    Raises:
        Failure: PERSON_NOT_FOUND.
    """
    found = tx.records("records.person", uid=uid, account_id=account_id)
    if not found:
        raise missing(uid)
    return _person(found[0])


def page(
    tx: Tx, account_id: str, *, after: str, count: int, q: str | None, company_uid: str | None
) -> Sequence[dict[str, Any]]:
    """People in the order of their ids, of one company or of all."""
    wanted = {"account_id": account_id, "after": after, "count": count, "q": companies.pattern(q)}
    if company_uid is None:
        return [_person(row) for row in tx.records("records.people", **wanted)]
    return [_person(row) for row in tx.records("records.people_of", **wanted, company_uid=company_uid)]


def change(tx: Tx, account_id: str, uid: str, changes: Mapping[str, str | None]) -> dict[str, Any]:
    """The person with other values.

    Raises:
        Failure: PERSON_NOT_FOUND, COMPANY_NOT_FOUND; BUSINESS_RULE_VIOLATION when a person in a slot changes company.
    """
    known = tx.records("records.person_held", uid=uid, account_id=account_id)
    if not known:
        raise missing(uid)
    values = {name: changes.get(name, known[0][name]) for name in ("company_uid", "full_name", "email", "role")}
    if values["company_uid"] != known[0]["company_uid"]:
        _check_move(tx, account_id, uid, known[0]["company_uid"], values["company_uid"])
    tx.row("records.change_person", uid=uid, account_id=account_id, **values)
    return show(tx, account_id, uid)


def remove(tx: Tx, account_id: str, uid: str) -> Sequence[str]:
    """Remove a person; the roles of the slots that are free now.

    Raises:
        Failure: PERSON_NOT_FOUND.
    """
    known = tx.records("records.person_held", uid=uid, account_id=account_id)
    if not known:
        raise missing(uid)
    place = {"company_uid": known[0]["company_uid"], "person_uid": uid}
    freed = [role for (role,) in tx.rows("records.vacate", **place)]
    tx.run("records.drop_reviews_of", **place)
    tx.rows("records.remove_person", uid=uid, account_id=account_id)
    return freed


def missing(uid: object) -> Failure:
    """PERSON_NOT_FOUND for this id."""
    return PERSON_NOT_FOUND(person_uid=uid, suggestion="Verify person_uid or create person first")


def _check_move(tx: Tx, account_id: str, uid: str, old: str, new: str | None) -> None:
    if tx.row("records.company_kept", uid=new, account_id=account_id) is None:
        raise companies.missing(new)
    if any(person_uid == uid for _, _, person_uid, _, _ in tx.rows("records.slots", account_id=account_id, uids=[old])):
        raise BUSINESS_RULE_VIOLATION(
            rule="person_in_slot",
            explanation="A person who sits in a slot cannot change to another company.",
            person_uid=uid,
            company_uid=old,
        )


def _person(row: dict[str, Any]) -> dict[str, Any]:
    return shown(row, uid="person_uid")
