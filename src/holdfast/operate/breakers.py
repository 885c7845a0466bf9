"""Breakers that all processes share: open one, close one, let one call through."""

from __future__ import annotations

from holdfast.catalog.core import BAD_REQUEST
from holdfast.operate.actor import Actor
from holdfast.operate.audit import Outcome, new_action, perform
from holdfast.operate.faults import BREAKER_NOT_FOUND
from holdfast.store import Store, Tx
from holdfast.worker.breakers import BY_HAND, allow_one, note_move
from holdfast.worker.queues import wake_workers

OPEN_S_MAX = 86_400
_ALL_US = 10**15
"""Older than this is nothing that a breaker has counted: with its sign turned round, everything is."""


def trip(store: Store, name: str, *, actor: Actor, open_s: float, reason: str | None = None) -> Outcome:
    """Open a breaker for `open_s` seconds; after them it probes by its own rule.

    Raises:
        Failure: BAD_REQUEST names the field; BREAKER_NOT_FOUND.
    """
    if not 1 <= open_s <= OPEN_S_MAX:
        raise BAD_REQUEST("{field} is a number of seconds between 1 and {most}.", field="open_s", most=OPEN_S_MAX)
    action = new_action(actor, "trip", f"breaker:{name}", reason)
    words = _words(reason)

    def change(tx: Tx) -> bool:
        mode = _mode(tx, name)
        opened = tx.row("breaker.trip", name=name, mode=mode, reason=words, open_us=int(open_s * 1_000_000))
        if opened is not None:
            note_move(tx, name, "tripped", words)
        return opened is not None

    return Outcome(action.id, perform(store, action, change))


def recover(store: Store, name: str, *, actor: Actor, reason: str | None = None) -> Outcome:
    """Close a breaker at once.

    Raises:
        Failure: BREAKER_NOT_FOUND.
    """
    action = new_action(actor, "recover", f"breaker:{name}", reason)

    def change(tx: Tx) -> bool:
        _mode(tx, name)
        if tx.row("breaker.recover_by_hand", name=name) is None:
            return False
        # What was counted before would open it again at the next failure.
        tx.run("breaker.forget", name=name, older_us=-_ALL_US)
        note_move(tx, name, "recovered", _words(reason))
        tx.after_commit.append(lambda: wake_workers(store, [name]))
        return True

    return Outcome(action.id, perform(store, action, change))


def probe(store: Store, name: str, *, actor: Actor, reason: str | None = None) -> Outcome:
    """Let one call through an open breaker, to test.

    Raises:
        Failure: BREAKER_NOT_FOUND.
    """
    action = new_action(actor, "probe", f"breaker:{name}", reason)

    def change(tx: Tx) -> bool:
        _mode(tx, name)
        probed = allow_one(tx, name)
        if probed:
            tx.after_commit.append(lambda: wake_workers(store, [name]))
        return probed

    return Outcome(action.id, perform(store, action, change))


def _words(reason: str | None) -> str:
    return f"{BY_HAND}: {reason}" if reason else BY_HAND


def _mode(tx: Tx, name: str) -> str:
    found = tx.row("breaker.mode", name=name)
    if found is None:
        raise BREAKER_NOT_FOUND(name=name)
    return str(found[1])
