"""Companies: created with their slots, changed, found and removed. Each only within its own account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.base import decode
from holdfast.catalog import Failure
from holdfast.store import Engine, Store, Tx
from holdfast_systems.records.faults import BUSINESS_RULE_VIOLATION, COMPANY_NOT_FOUND, DUPLICATE_RECORD
from holdfast_systems.records.model import Role, Slot, website_key
from holdfast_systems.records.tables import shown

SUGGESTION = "Verify company_uid or create company first"

_COLUMNS = (
    "uid", "name", "website", "industry", "created_us", "changed_us", "title", "description", "contact_emails",
    "social_links", "enriched_us",
)  # fmt: skip


def create(tx: Tx, account_id: str, uid: str, values: Mapping[str, str | None]) -> dict[str, Any]:
    """A new company with its slots.

    Raises:
        Failure: DUPLICATE_RECORD when the account has a company with this website.
    """
    key = _key(values["website"])
    made = tx.row("records.add_company", uid=uid, account_id=account_id, website_key=key, **values)
    if made is None:
        raise _duplicate(tx, account_id, values["website"])
    if tx.engine is Engine.SQLITE:
        tx.run("records.add_slots", uid=uid)
    return {
        "company_uid": uid,
        "status": "created",
        "slots_created": len(Role),
        **shown({"created_us": made[0]}),
    }


def show(tx: Tx, account_id: str, uid: str) -> dict[str, Any]:
    """One company with its slots.

    Raises:
        Failure: COMPANY_NOT_FOUND.
    """
    found = tx.records("records.company", uid=uid, account_id=account_id)
    if not found:
        raise missing(uid)
    return _with_slots(tx, account_id, found)[0]


def look(store: Store, account_id: str, uid: str) -> dict[str, Any]:
    """The same by one statement, which needs no transaction of its own.

    Raises:
        Failure: COMPANY_NOT_FOUND.
    """
    rows = store.look("records.company_shown", account_id=account_id, uid=uid)
    if not rows:
        raise missing(uid)
    company = _company(dict(zip(_COLUMNS, rows[0], strict=False)))
    return {**company, "slots": [_slot(uid, *row[len(_COLUMNS) :]) for row in rows if row[len(_COLUMNS)] is not None]}


def page(tx: Tx, account_id: str, *, after: str, count: int, q: str | None) -> Sequence[dict[str, Any]]:
    """Companies in the order of their ids, each with its slots."""
    return _with_slots(
        tx, account_id, tx.records("records.companies", account_id=account_id, after=after, count=count, q=pattern(q))
    )


def change(tx: Tx, account_id: str, uid: str, changes: Mapping[str, str | None]) -> dict[str, Any]:
    """The company with other values.

    Raises:
        Failure: COMPANY_NOT_FOUND; DUPLICATE_RECORD when another company has this website.
    """
    # Held first, so that two changes at once do not undo each other.
    if tx.row("records.company_held", uid=uid, account_id=account_id) is None:
        raise missing(uid)
    known = tx.records("records.company", uid=uid, account_id=account_id)[0]
    values = {name: changes.get(name, known[name]) for name in ("name", "website", "industry")}
    key = _key(values["website"])
    twin = None if key is None else tx.row("records.twin", account_id=account_id, website_key=key)
    if twin is not None and twin[0] != uid:
        raise _duplicate(tx, account_id, values["website"])
    tx.row("records.change_company", uid=uid, account_id=account_id, website_key=key, **values)
    return show(tx, account_id, uid)


def remove(tx: Tx, account_id: str, uid: str) -> None:
    """Remove a company that has no people, with its slots and the reviews about them.

    Raises:
        Failure: COMPANY_NOT_FOUND, BUSINESS_RULE_VIOLATION.
    """
    if tx.row("records.company_held", uid=uid, account_id=account_id) is None:
        raise missing(uid)
    counted = tx.row("records.count_people", uid=uid)
    if counted is not None and counted[0]:
        raise BUSINESS_RULE_VIOLATION(
            rule="company_has_people",
            explanation="A company that has people cannot be removed.",
            company_uid=uid,
            people=counted[0],
        )
    tx.run("records.remove_reviews", uid=uid, account_id=account_id)
    tx.run("records.remove_slots", uid=uid)
    tx.rows("records.remove_company", uid=uid, account_id=account_id)


def missing(uid: object) -> Failure:
    """COMPANY_NOT_FOUND for this id."""
    return COMPANY_NOT_FOUND(company_uid=uid, suggestion=SUGGESTION)


def pattern(q: str | None) -> str | None:
    """What a search means to LIKE; nothing in it has a meaning of its own."""
    if not q or not q.strip():
        return None
    literal = q.strip().lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{literal}%"


def _key(website: str | None) -> str | None:
    return None if website is None else website_key(website)


def _duplicate(tx: Tx, account_id: str, website: str | None) -> Failure:
    twin = tx.row("records.twin", account_id=account_id, website_key=_key(website))
    existing = {} if twin is None else {"existing": twin[0]}
    return DUPLICATE_RECORD(field="website", value=website, **existing)


def _with_slots(tx: Tx, account_id: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    uids = [row["uid"] for row in rows]
    slots: dict[str, list[dict[str, Any]]] = {uid: [] for uid in uids}
    found = tx.rows("records.slots", account_id=account_id, uids=uids) if uids else []
    for company_uid, role, person_uid, assigned_us, full_name in found:
        slots[company_uid].append(_slot(company_uid, role, person_uid, assigned_us, full_name))
    return [{**_company(row), "slots": slots[row["uid"]]} for row in rows]


def _slot(
    company_uid: str, role: str, person_uid: str | None, assigned_us: int | None, full_name: str | None
) -> dict[str, Any]:
    return {
        "slot_uid": Slot(company_uid, Role(role)).uid,
        "role": role,
        "person_uid": person_uid,
        "full_name": full_name,
        **shown({"assigned_us": assigned_us}),
    }


def _company(row: dict[str, Any]) -> dict[str, Any]:
    told = shown(row, uid="company_uid")
    for name in ("contact_emails", "social_links"):
        told[name] = [] if row[name] is None else decode(row[name])
    return told
