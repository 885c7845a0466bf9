"""Deeds: what somebody does by hand, written down in the very transaction that does it.

The verbs are those of the command line, on the same classes. They are given a store that adds the audit row to each
of their transactions, so there is no deed without its row and no row without its deed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.base import limits, new_id
from holdfast.catalog import Failure
from holdfast.catalog.core import BAD_REQUEST
from holdfast.console.breakers import recover, trip
from holdfast.console.faults import CONSOLE_NO_CHANGE
from holdfast.delivery.faults import ENDPOINT_DISABLED
from holdfast.store import Store, Tx
from holdfast.worker import DeadLetters, Jobs, Queues

T = TypeVar("T")

VERBS_OF_MANY = ("revive", "discard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What is done, to what, by whom and why."""

    id: str
    who: str
    verb: str
    subject: str
    """`job:…`, `queue:…`, `breaker:…`, or the filter of many dead letters."""
    reason: str | None = None


class AuditedStore(Store):
    """The same store; whatever is written through it is followed by the note, in the same transaction."""

    def __init__(self, store: Store, note: Callable[[Tx, Any], None]) -> None:
        self.__dict__.update(store.__dict__)
        self._note = note

    def atomic(self, phase: Callable[[Tx], T], *, write: bool = True, repeatable: bool = False) -> T:
        if not write:
            return super().atomic(phase, write=False)

        def noted(tx: Tx) -> T:
            result = phase(tx)
            self._note(tx, result)
            return result

        return super().atomic(noted, repeatable=repeatable)


def new_deed(who: str, verb: str, subject: str, reason: str | None) -> Deed:
    """A deed that is about to be done.

    Raises:
        Failure: BAD_REQUEST when the reason is too long.
    """
    most = limits().message_chars_max
    if reason is not None and len(reason) > most:
        raise BAD_REQUEST("{field} has at most {most} characters.", field="reason", most=most)
    return Deed(id=new_id(), who=who, verb=verb, subject=subject, reason=reason or None)


def do(store: Store, deed: Deed, name: str, form: Mapping[str, str]) -> None:
    """Do it to one job, queue or breaker.

    Raises:
        Failure: it cannot be done; that it was tried is written down as well.
    """
    act = _ACTS.get((deed.subject.partition(":")[0], deed.verb))
    if act is None:
        raise BAD_REQUEST("{verb} is nothing that can be done here.", verb=deed.verb)
    noting = AuditedStore(store, lambda tx, result: note(tx, deed, _outcome(result)))
    try:
        act(noting, name, deed, form)
    except Failure as failure:
        code = failure.code
        store.atomic(lambda tx: note(tx, deed, code, state="refused"))
        raise


def note(tx: Tx, deed: Deed, result: str, *, state: str = "done", total: int | None = None) -> None:
    """Write the deed down."""
    tx.run(
        "console.audit",
        id=deed.id,
        who=deed.who,
        verb=deed.verb,
        subject=deed.subject,
        reason=deed.reason,
        state=state,
        result=result,
        total=total,
        done=1 if state == "done" else 0,
    )


def _outcome(result: Any) -> str:
    if result is False:
        # Nothing moved, so nothing is committed either: the whole transaction is given up.
        raise CONSOLE_NO_CHANGE()
    return "done"


def _cancel(store: Store, name: str, deed: Deed, form: Mapping[str, str]) -> None:  # noqa: ARG001 - as the others
    Jobs(store).cancel(name)


def _revive(store: Store, name: str, deed: Deed, form: Mapping[str, str]) -> None:  # noqa: ARG001
    _check_receiver(store, name)
    DeadLetters(store).revive(name, reason=deed.reason)


def _check_receiver(store: Store, job_id: str) -> None:
    """A delivery to an endpoint that is disabled would only die again."""
    found = store.atomic(lambda tx: tx.records("console.delivery_of", job_id=job_id), write=False)
    if found and found[0]["disabled_reason"] is not None:
        raise ENDPOINT_DISABLED(endpoint_id=found[0]["endpoint_id"], reason=found[0]["disabled_reason"])


def _discard(store: Store, name: str, deed: Deed, form: Mapping[str, str]) -> None:  # noqa: ARG001
    DeadLetters(store).discard(name, reason=deed.reason)


def _pause(store: Store, name: str, deed: Deed, form: Mapping[str, str]) -> None:  # noqa: ARG001
    if deed.reason is None:
        raise BAD_REQUEST("{field} is missing: whoever looks at the queue reads it.", field="reason")
    Queues(store).pause(name, deed.reason)


def _resume(store: Store, name: str, deed: Deed, form: Mapping[str, str]) -> None:  # noqa: ARG001
    Queues(store).resume(name)


def _probe(store: Store, name: str, deed: Deed, form: Mapping[str, str]) -> None:  # noqa: ARG001
    Queues(store).probe(name)


def _trip(store: Store, name: str, deed: Deed, form: Mapping[str, str]) -> None:
    trip(store, name, reason=deed.reason, open_s=form.get("open_s", ""))


def _recover(store: Store, name: str, deed: Deed, form: Mapping[str, str]) -> None:  # noqa: ARG001
    recover(store, name, reason=deed.reason)


_ACTS: dict[tuple[str, str], Callable[[Store, str, Deed, Mapping[str, str]], None]] = {
    ("job", "cancel"): _cancel,
    ("job", "revive"): _revive,
    ("job", "discard"): _discard,
    ("queue", "pause"): _pause,
    ("queue", "resume"): _resume,
    ("queue", "probe"): _probe,
    ("breaker", "probe"): _probe,
    ("breaker", "trip"): _trip,
    ("breaker", "recover"): _recover,
}
