"""Breakers by hand: open one, close one, for the page and the command. Probing is the queues' own verb."""

from __future__ import annotations

from holdfast.base import bus
from holdfast.catalog.core import BAD_REQUEST, NOT_FOUND
from holdfast.store import Store, Tx
from holdfast.worker.breakers import SUBJECT, TOLD
from holdfast.worker.queues import wake_workers

OPEN_S_MAX = 86_400
BY_HAND = "by hand"


def trip(store: Store, name: str, *, reason: str | None, open_s: str) -> bool:
    """Open a breaker for so many seconds; after them it probes by its own rule. False when it is open already.

    Raises:
        Failure: BAD_REQUEST names the field; NOT_FOUND when no breaker of this name has ever moved.
    """
    if not (open_s.isascii() and open_s.isdigit() and 1 <= int(open_s) <= OPEN_S_MAX):
        raise BAD_REQUEST("{field} is a whole number between 1 and {most}.", field="open_s", most=OPEN_S_MAX)
    words = f"{BY_HAND}: {reason}" if reason else BY_HAND

    def phase(tx: Tx) -> bool:
        mode = _known(tx, name)
        opened = tx.row("breaker.trip", name=name, mode=mode, reason=words, open_us=int(open_s) * 1_000_000)
        if opened is not None:
            _note(tx, name, "tripped", words)
        return opened is not None

    return store.atomic(phase)


def recover(store: Store, name: str, *, reason: str | None) -> bool:
    """Close a breaker; False when it is closed already.

    Raises:
        Failure: NOT_FOUND when no breaker of this name has ever moved.
    """
    words = f"{BY_HAND}: {reason}" if reason else BY_HAND

    def phase(tx: Tx) -> bool:
        _known(tx, name)
        if tx.row("console.recover", name=name) is None:
            return False
        # What was counted before would open it again at the next failure.
        tx.run("breaker.forget", name=name, older_us=-_FAR_US)
        _note(tx, name, "recovered", words)
        return True

    recovered = store.atomic(phase)
    if recovered:
        wake_workers(store, [name])
    return recovered


_FAR_US = 10**15


def _known(tx: Tx, name: str) -> str:
    found = tx.row("console.breaker", name=name)
    if found is None:
        raise NOT_FOUND("There is no breaker of this name.", breaker=name)
    return str(found[1])


def _note(tx: Tx, name: str, verb: str, reason: str) -> None:
    tx.run("queue.note", subject=SUBJECT + name, verb=verb, queue="", reason=reason)
    if bus.listeners:
        tx.after_commit.append(lambda: bus.tell(TOLD[verb], name=name, reason=reason))
