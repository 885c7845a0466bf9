"""Where each cause stands, in the store. One transaction for each move, and in it all that follows from the move.

The process that moves the row also tells about it: the notices are jobs of the same transaction, the switch is flipped
in it, and the journal has it. Zero rows moved means that another process did all that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.base import bus, encode
from holdfast.store import Row, Store, Tx
from holdfast.watch.alert_notice import FIRED, Notice, notice_of
from holdfast.watch.alert_state import QUIET, AlertState, Phase
from holdfast.watch.rules import Action, Rule
from holdfast.watch.sinks import Sink
from holdfast.watch.switch import divert, restore
from holdfast.worker import Jobs

QUEUE = "alerts"
KIND = "holdfast.alert"
SUBJECT = "alert:"
"""What happens to an alert is in the journal under this and its key."""
STATES_MAX = 10_000
KEPT_S = 30 * 86_400.0
"""Time after which an alert that has been quiet is forgotten."""


@dataclass(frozen=True, slots=True)
class Known:
    """A cause as the store has it; version 0 is one that it has not got."""

    state: AlertState = QUIET
    version: int = 0
    notices: Mapping[str, str] = field(default_factory=dict)
    """For each sink the job that took the last notice to it."""


class AlertLedger:
    """The alerts of a store. Threads may share it."""

    def __init__(self, store: Store, jobs: Jobs, sinks: Sequence[Sink] = ()) -> None:
        self._store = store
        self._jobs = jobs
        self._sinks = sinks

    def known(self) -> dict[tuple[str, str], Known]:
        """Every cause that was ever more than quiet, by rule and cause."""
        rows = self._store.atomic(lambda tx: tx.rows("alert.states", most=STATES_MAX), write=False)
        return {(row[0], row[1]): _known(row) for row in rows}

    def move(self, rule: Rule, cause: str, known: Known, state: AlertState) -> bool:
        """Let the alert come to this state; False when another process has moved it since it was read.

        Raises:
            Failure: the database's own; the next look finds out whether it happened.
        """
        return self._store.atomic(lambda tx: self._move(tx, rule, cause, known, state))

    def prune(self, *, older_s: float = KEPT_S) -> int:
        """Forget the alerts that have been quiet for longer than this; how many."""
        return self._store.atomic(lambda tx: tx.run("alert.prune", older_us=int(older_s * 1_000_000)))

    def _move(self, tx: Tx, rule: Rule, cause: str, known: Known, state: AlertState) -> bool:
        if not _written(tx, rule.name, cause, known, state):
            return False
        if state.phase in {Phase.FIRING, Phase.RESOLVED}:
            notice = notice_of(rule, cause, state, version=known.version + 1)
            self._enqueue(tx, notice, known)
            _act(tx, rule, notice)
            reason = f"{notice.reading}; told when {notice.condition}"
            tx.run("alert.journal", subject=SUBJECT + notice.key, verb=notice.verb, code=None, reason=reason)
            tx.after_commit.append(lambda: _tell(notice))
        return True

    def _enqueue(self, tx: Tx, notice: Notice, known: Known) -> None:
        """One job for each sink that wants to hear of it."""
        jobs = dict(known.notices)
        for sink in self._sinks:
            if notice.severity in sink.severities:
                payload = {"sink": sink.name, "notice": notice.document(), "after": jobs.get(sink.name)}
                jobs[sink.name] = self._jobs.enqueue(KIND, payload, queue=QUEUE, tx=tx).id
        if jobs != known.notices:
            tx.run("queue.register", name=QUEUE)
            tx.run("alert.remember_notices", rule=notice.rule, cause=notice.cause, notices=encode(jobs))


def _written(tx: Tx, rule: str, cause: str, known: Known, state: AlertState) -> bool:
    columns = {
        "rule": rule,
        "cause": cause,
        "phase": state.phase.value,
        "began_us": state.began_us,
        "fired_us": state.fired_us,
        "resolved_us": state.resolved_us,
        "value": state.value,
        "at_us": state.at_us,
    }
    if known.version == 0:
        return tx.run("alert.begin", **columns) == 1
    return tx.run("alert.move", version=known.version, **columns) == 1


def _act(tx: Tx, rule: Rule, notice: Notice) -> None:
    if rule.action is not Action.SWITCH_PROVIDER:
        return
    turn = divert if notice.verb == FIRED else restore
    turn(tx, notice.cause, by=SUBJECT + notice.key, reason=notice.title)


def _tell(notice: Notice) -> None:
    """Tell the listeners of this process: the log, the metrics, the console."""
    if bus.listeners:
        bus.tell(
            f"alert.{notice.verb}",
            rule=notice.rule,
            cause=notice.cause,
            severity=notice.severity,
            summary=notice.summary,
            value=notice.value,
            threshold=notice.threshold,
            condition=notice.condition,
        )


def _known(row: Row) -> Known:
    _, _, phase, began_us, fired_us, resolved_us, value, at_us, version, notices = row
    state = AlertState(
        phase=Phase(phase), began_us=began_us, fired_us=fired_us, resolved_us=resolved_us, value=value, at_us=at_us
    )
    return Known(state, version, json.loads(notices))
