"""The engine's tables as functions: each is one statement or a few, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.base import Json, decode, encode, utc_text
from holdfast.store import Store, Tx
from holdfast_systems.credentials.model import Event, Heard, Standing

PACKAGE = "holdfast_systems.credentials"
SYSTEM = "credentials"
PAGE_ROWS = 50
PAGE_ROWS_MAX = 200
STATEMENTS_MAX = 200
REPUTATION_MAX = 1 << 62

Key = tuple[str, str]
"""A platform, and the id of something of it: an event, a contribution or a person."""


def prepare(store: Store) -> None:
    """Bring the schema up to date and read the statements. Safe when many processes start at once."""
    store.migrate(PACKAGE, system=SYSTEM)
    store.load(PACKAGE)


def setting(tx: Tx, name: str) -> str | None:
    """The value that counts for all processes; None when nobody has said one."""
    found = tx.row("credentials.setting", name=name)
    return None if found is None else str(found[0])


def settle(tx: Tx, name: str, value: str) -> str:
    """The value that counts for all processes: this one, unless somebody was first."""
    tx.run("credentials.settle", name=name, value=value)
    found = setting(tx, name)
    assert found is not None
    return found


def unset(tx: Tx, name: str, value: str) -> None:
    """Let nothing count any more, unless another value does by now."""
    tx.run("credentials.unset", name=name, value=value)


def put(tx: Tx, name: str, value: str) -> None:
    """Let this value count for all processes from now on."""
    tx.run("credentials.set", name=name, value=value)


def begin(tx: Tx, events: Iterable[Event]) -> set[Key]:
    """Which of these events this transaction is the one to process; each is given once."""
    rows = sorted((*key(event), event.type.value) for event in events)
    return set(tx.many_rows("credentials.begin", rows))


def finish(tx: Tx, results: Mapping[Key, Json]) -> None:
    """Keep the answers to repeats."""
    if results:
        tx.many("credentials.finish", [(*of, encode(result)) for of, result in sorted(results.items())])


def result_of(tx: Tx, platform: str, event_id: str) -> Json | None:
    """What the event came to; None when it was never processed."""
    found = tx.row("credentials.result", platform=platform, event_id=event_id)
    return None if found is None else decode(found[0])


def arrive(tx: Tx, events: Iterable[Event]) -> dict[Key, Heard]:
    """Write the contributions, each given once; what had been said about those that had not arrived before."""
    rows = sorted(
        (event.platform, event.contribution_id, event.actor_id, event.contribution_type, event.title)
        for event in events
    )
    found = tx.many_rows("credentials.arrive", rows) if rows else []
    return {(platform, contribution_id): _heard(said) for platform, contribution_id, *said in found}


def state(tx: Tx, event: Event, said: Heard) -> tuple[str | None, Heard]:
    """Add what is said about a contribution: whose it is, if it has arrived, and everything said so far."""
    found = tx.row(
        "credentials.state",
        platform=event.platform,
        contribution_id=event.contribution_id,
        evidence=said.evidence,
        verified=said.verified,
        rejected=said.rejected,
    )
    assert found is not None
    tx.run(
        "credentials.keep_statement",
        **_key(event),
        contribution_id=event.contribution_id,
        event_type=event.type.value,
        evidence_type=None if event.evidence_type is None else event.evidence_type.value,
        actor_id=event.actor_id,
        applied=int(found[0] is not None),
    )
    return found[0], _heard(found[1:])


def apply_parked(tx: Tx, event: Event) -> int:
    """Mark what waited for this contribution as applied; how much that was."""
    return tx.run("credentials.apply_parked", platform=event.platform, contribution_id=event.contribution_id)


def keep_vouch(tx: Tx, event: Event) -> None:
    """Write the vouch down."""
    tx.run(
        "credentials.keep_vouch",
        **_key(event),
        voucher_id=event.actor_id,
        vouchee_id=event.vouchee_id,
        skill_id=event.skill_id,
        weight=event.weight,
    )


def add(tx: Tx, more: Mapping[Key, Standing], names: Mapping[Key, str]) -> None:
    """Add to what people have; they need not be known before."""
    if more:
        rows = [(*who, names.get(who), *_counts(gained).values()) for who, gained in sorted(more.items())]
        tx.many("credentials.add", rows)


def change(tx: Tx, platform: str, user_id: str, more: Standing) -> None:
    """Add to what somebody has who is known; it may be less than nothing."""
    changed = tx.run("credentials.change", platform=platform, user_id=user_id, **_counts(more))
    assert changed == 1, "whoever has a contribution is known"


def member(tx: Tx, platform: str, user_id: str) -> dict[str, Any] | None:
    """One person and their latest contributions."""
    found = tx.records("credentials.member", platform=platform, user_id=user_id)
    if not found:
        return None
    rows = tx.records("credentials.contributions_of", platform=platform, user_id=user_id, count=PAGE_ROWS)
    return {**found[0], "contributions": [_shown(row) for row in rows]}


def members(tx: Tx, platform: str, *, count: int, before: tuple[int, str] | None = None) -> Sequence[dict[str, Any]]:
    """A page of people, those with the most reputation first."""
    reputation, user_id = before or (REPUTATION_MAX, "")
    count = max(1, min(count, PAGE_ROWS_MAX))
    return tx.records(
        "credentials.members", platform=platform, before_reputation=reputation, before_id=user_id, count=count
    )


def contribution(tx: Tx, platform: str, contribution_id: str) -> dict[str, Any] | None:
    """One contribution with everything that was said about it; without a user it has not arrived yet."""
    wanted = {"platform": platform, "contribution_id": contribution_id}
    found = tx.records("credentials.contribution", **wanted)
    if not found:
        return None
    said = tx.records("credentials.statements", **wanted, count=STATEMENTS_MAX)
    return {**_shown(found[0]), "statements": [_shown(one) for one in said]}


def processed(tx: Tx, platform: str, event_id: str) -> dict[str, Any] | None:
    """One event that was processed, with its answer."""
    found = tx.records("credentials.processed", platform=platform, event_id=event_id)
    return _event(found[0]) if found else None


def latest(tx: Tx, platform: str, *, count: int) -> Sequence[dict[str, Any]]:
    """The events that were processed last."""
    return [_event(row) for row in tx.records("credentials.latest", platform=platform, count=min(count, PAGE_ROWS_MAX))]


def totals(tx: Tx, platform: str) -> dict[str, int]:
    """How many events, people and contributions there are, and how many statements wait."""
    found = tx.row("credentials.totals", platform=platform)
    assert found is not None
    return dict(zip(("events", "users", "contributions", "parked"), found, strict=True))


def key(event: Event) -> Key:
    """What tells an event from all others."""
    return event.platform, event.id


def _key(event: Event) -> dict[str, Any]:
    return {"platform": event.platform, "event_id": event.id}


def _counts(standing: Standing) -> dict[str, int]:
    return {
        "contributions": standing.contributions,
        "evidence": standing.evidence,
        "verified": standing.verified,
        "rejected": standing.rejected,
        "vouches": standing.vouches,
        "reputation": standing.reputation,
    }


def _heard(row: Sequence[Any]) -> Heard:
    return Heard(evidence=row[0], verified=row[1], rejected=row[2])


def _event(row: dict[str, Any]) -> dict[str, Any]:
    return {**_shown(row), "result": decode(row["result"])}


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Times as people and programs read them."""
    return {
        name.replace("_us", "_at"): utc_text(value) if name.endswith("_us") and value is not None else value
        for name, value in row.items()
    }
