"""Writing the audit: one row for each action, in the transaction of the action itself.

There is no change without its row and no row without its change. A refusal has a row too, in a transaction of its own,
since what it refused was rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.base import limits, new_id
from holdfast.catalog import Failure
from holdfast.catalog.core import BAD_REQUEST, INTERNAL_ERROR
from holdfast.operate.actor import Actor
from holdfast.operate.faults import NOTHING_CHANGED
from holdfast.store import Store, Tx

T = TypeVar("T")

SERVER_ERROR = 500
DONE, REFUSED, RUNNING = "done", "refused", "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What is done, to what, by whom and why."""

    actor: Actor
    verb: str
    subject: str
    """`job:ID`, `queue:NAME`, `breaker:NAME`, `endpoint:ID`, `event:ID`, `api_key:ID`, a filter of dead letters, or a
    kind and an id of a system's own, such as `quota:ACCOUNT`."""
    reason: str | None = None
    id: str = field(default_factory=new_id)
    """Of its row in the audit."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action."""

    id: str
    """Of its row in the audit."""
    changed: bool = True
    """False when it was in that state already; the audit says so."""


def new_action(actor: Actor, verb: str, subject: str, reason: str | None) -> Action:
    """An action that is about to be done.

    Raises:
        Failure: BAD_REQUEST when the reason is too long.
    """
    most = limits().message_chars_max
    if reason is not None and len(reason) > most:
        raise BAD_REQUEST("{field} has at most {most} characters.", field="reason", most=most)
    return Action(actor=actor, verb=verb, subject=subject, reason=reason or None)


def perform(
    store: Store,
    action: Action,
    change: Callable[[Tx], T],
    *,
    atomic: Callable[[Callable[[Tx], T]], T] | None = None,
) -> T:
    """Make the change and write its row, in one transaction.

    Args:
        change: a phase; what it returns is returned, and False means that nothing changed.
        atomic: runs the transaction in another way than `store.atomic`, for example several times.

    Raises:
        Failure: why it was refused, which is written down as well; or the database's own.
    """

    audited = Audited(store, action)

    def phase(tx: Tx) -> T:
        result = change(tx)
        audited.within(tx, changed=result is not False)
        return result

    try:
        return store.atomic(phase) if atomic is None else atomic(phase)
    except Failure as failure:
        audited.refused(failure)
        raise


def carry_out(
    store: Store, verb: str, subject: str, change: Callable[[Tx], T], *, actor: Actor, reason: str | None = None
) -> T:
    """Make a change that is a system's own, such as a quota, and write its audit row in the same transaction.

    Args:
        subject: a kind and an id, such as `quota:acct_acme`.
        change: a phase; what it returns is returned, and False means that nothing changed.

    Raises:
        Failure: why it was refused, which is written down as well; or the database's own.
    """
    return perform(store, new_action(actor, verb, subject, reason), change)


@dataclass(frozen=True, slots=True)
class Audited:
    """An action whose change is made by something else than `perform`."""

    store: Store
    """Where the audit is."""
    action: Action

    def within(self, tx: Tx, *, changed: bool = True) -> None:
        """Write the row in the transaction of the change."""
        if changed:
            write(tx, self.action, state=DONE, result=DONE)
        else:
            write(tx, self.action, state=REFUSED, result=NOTHING_CHANGED.code)

    @contextmanager
    def around(self) -> Iterator[None]:
        """Write the row before a change in another database, and how it ended after it.

        A process that dies in between leaves an action that the audit shows as interrupted: nothing is done unseen.
        """
        self.store.atomic(lambda tx: write(tx, self.action, state=RUNNING, result=""), repeatable=True)
        try:
            yield
        except BaseException as error:
            with suppress(Failure):
                end(self.store, self.action, REFUSED, error.code if isinstance(error, Failure) else INTERNAL_ERROR.code)
            raise
        end(self.store, self.action, DONE, DONE, count=1)

    def refused(self, failure: Failure) -> None:
        """Write down that the action was refused, unless the failure is our own."""
        if failure.status < SERVER_ERROR:
            # That the audit cannot be written must not hide why the action was refused.
            with suppress(Failure):
                self.store.atomic(
                    lambda tx: write(tx, self.action, state=REFUSED, result=failure.code), repeatable=True
                )


def end(store: Store, action: Action, state: str, result: str, *, count: int = 0) -> None:
    """Complete the row of an action that was written as running.

    Args:
        count: how many were done since its progress was written last.
    """

    def phase(tx: Tx) -> None:
        if count:
            tx.run("audit.progress", id=action.id, done=count, refused=0)
        tx.run("audit.ended", id=action.id, state=state, result=result)

    store.atomic(phase)


def write(tx: Tx, action: Action, *, state: str, result: str, work: str | None = None) -> None:
    """Write the row of an action.

    Args:
        work: what a process needs to go on with work on many dead letters, as JSON.
    """
    tx.run(
        "audit.write",
        id=action.id,
        actor_kind=action.actor.kind.value,
        actor=action.actor.name,
        address=action.actor.address,
        verb=action.verb,
        subject=action.subject,
        reason=action.reason,
        state=state,
        result=result,
        done=1 if state == DONE else 0,
        work=work,
    )
