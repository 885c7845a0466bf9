"""How a job moves: the table, the statements that make the moves, and the constraints of the schema agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.catalog.core import CONSTRAINT_VIOLATED, NETWORK_TIMEOUT
from holdfast.lifecycle import JOB, JobState, MoveRefused, RetryIn, Snooze, moved, states, verbs
from holdfast.store import Store, Tx
from holdfast.worker import Job, Jobs, ledger
from holdfast.worker.dead import DeadLetters
from holdfast.worker.settlement import Settlement, answered, cancelled, failed, released

WORKER = "w-1"


def test_the_table_names_exactly_the_states_there_are() -> None:
    assert set(states(JOB)) == set(JobState)


def test_a_complete_job_moves_no_more() -> None:
    for verb in verbs(JOB):
        with pytest.raises(MoveRefused, match="final"):
            moved(JOB, "complete", verb)


# -- every state × every verb --------------------------------------------------------------------------------------


def claimed(store: Store, queue: str) -> Job:
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker=WORKER, count=1))
    return job


def settle(store: Store, settlement: Settlement) -> None:
    store.atomic(lambda tx: ledger.settle(tx, WORKER, (), [settlement]))


def put_into(store: Store, state: str, queue: str) -> Job:
    """A job in the state, as a worker would know it, with the token that it has now."""
    made = Jobs(store).enqueue("k", queue=queue)
    job = claimed(store, queue)
    if state == "queued":
        settle(store, released(job, ""))
    elif state == "complete":
        store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, None, 1)]))
    elif state == "failed":
        settle(store, failed(job, CONSTRAINT_VIOLATED(), None, 1, blamed=False))
    shown = Jobs(store).show(made.id)
    assert shown["state"] == state
    job.token = shown["token"]
    return job


def try_cancel(store: Store, job: Job) -> None:
    """Somebody asks, and the worker, where one runs it, heeds."""
    Jobs(store).cancel(job.id)
    settle(store, cancelled(job, "asked", 1))


def try_revive(store: Store, job: Job) -> None:
    try:
        DeadLetters(store).revive(job.id)
    except Failure:
        return


TRIES: Mapping[str, Callable[[Store, Job], object]] = {
    "claim": lambda store, job: store.atomic(lambda tx: ledger.claim(tx, queue=job.queue, worker=WORKER, count=1)),
    "finish": lambda store, job: store.atomic(lambda tx: ledger.settle(tx, WORKER, [(job, '"r"', 1)])),
    "retry": lambda store, job: settle(store, answered(job, RetryIn(0), 1)),
    "snooze": lambda store, job: settle(store, answered(job, Snooze(60), 1)),
    "release": lambda store, job: settle(store, released(job, "")),
    "fail": lambda store, job: settle(store, failed(job, CONSTRAINT_VIOLATED(), None, 1, blamed=False)),
    "reclaim": lambda store, job: store.atomic(lambda tx: ledger.reclaim(tx, WORKER, "w-2", lambda _: None)),
    "cancel": try_cancel,
    "revive": try_revive,
}


def test_every_verb_moves_every_state_as_the_table_says_and_no_other(store: Store) -> None:
    assert set(TRIES) == set(verbs(JOB))
    ended = {}
    expected = {}
    for state in states(JOB):
        for verb in verbs(JOB):
            job = put_into(store, state, f"{state}-{verb}")
            before = Jobs(store).show(job.id)
            TRIES[verb](store, job)
            after = Jobs(store).show(job.id)
            ended[state, verb] = after["state"]
            try:
                expected[state, verb] = moved(JOB, state, verb)
                assert after["token"] > before["token"], (state, verb)
            except MoveRefused:
                expected[state, verb] = state
                assert after == before, (state, verb)
            # Whatever is held here must not be swept up with the next reclaim.
            store.atomic(lambda tx: ledger.release_strays(tx, WORKER, set()))
    assert ended == expected


def test_every_move_is_journalled_in_the_past_tense(store: Store) -> None:
    seen = {}
    for state in states(JOB):
        for verb in verbs(JOB):
            if not any((move.source, move.verb) == (state, verb) for move in JOB):
                continue
            job = put_into(store, state, f"{state}-{verb}")
            known = len(Jobs(store).history(job.id))
            TRIES[verb](store, job)
            seen[state, verb] = [event["verb"] for event in Jobs(store).history(job.id)[known:]]
            store.atomic(lambda tx: ledger.release_strays(tx, WORKER, set()))
    assert seen == {
        ("queued", "claim"): ["claimed"],
        ("queued", "cancel"): ["cancelled", "settled_late"],
        ("processing", "finish"): ["finished"],
        ("processing", "retry"): ["retried"],
        ("processing", "snooze"): ["snoozed"],
        ("processing", "release"): ["released"],
        ("processing", "reclaim"): ["reclaimed"],
        ("processing", "fail"): ["failed"],
        ("processing", "cancel"): ["cancel_asked", "cancelled"],
        ("failed", "revive"): ["revived"],
    }


# -- the constraints ---------------------------------------------------------------------------------------------------

NEEDED = {
    "queued": (),
    "processing": ("lease_owner", "started_us"),
    "complete": ("finished_us", "started_us"),
    "failed": ("error_code", "failed_us"),
}
"""What a row of the state cannot be without."""
ALLOWED = {
    "queued": ("started_us", "unique_key"),
    "processing": ("unique_key",),
    "complete": ("result", "unique_key"),
    "failed": ("error_message", "error_technical", "fingerprint", "started_us"),
}
"""What it may have beside."""
VALUES: Mapping[str, Any] = {
    "result": "{}",
    "finished_us": 1,
    "error_code": "UNKNOWN",
    "error_message": "m",
    "error_technical": "t",
    "fingerprint": "f",
    "failed_us": 1,
    "lease_owner": "w",
    "started_us": 1,
    "unique_key": "u",
}
BASE: Mapping[str, Any] = {"queue": "q", "kind": "k", "due_us": 1, "payload": "{}", "created_us": 1}


def accepted(store: Store, row: Mapping[str, Any]) -> bool:
    """Whether the schema takes the row; nothing of it stays."""

    def literal(value: Any) -> str:
        return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)

    def phase(tx: Tx) -> None:
        whole = {"id": "tried", **BASE, **row}
        tx._execute(
            f"INSERT INTO holdfast_job ({', '.join(whole)}) VALUES ({', '.join(map(literal, whole.values()))})", {}
        )
        raise LookupError

    try:
        store.atomic(phase)
    except LookupError:
        return True
    except Failure as refused:
        if refused.code != "CONSTRAINT_VIOLATED":
            raise
    return False


def combinations_of(state: str) -> Iterator[frozenset[str]]:
    """The columns that are set: exactly those needed, with up to two of all columns set or left out besides."""
    needed = frozenset(NEEDED[state])
    for count in range(3):
        for changed in combinations(VALUES, count):
            yield needed ^ frozenset(changed)


@pytest.mark.parametrize("state", list(NEEDED))
def test_the_schema_takes_what_a_state_may_hold_and_nothing_else(store: Store, state: str) -> None:
    wrong = []
    needed, allowed = frozenset(NEEDED[state]), frozenset(NEEDED[state]) | frozenset(ALLOWED[state])
    for columns in combinations_of(state):
        legal = needed <= columns <= allowed
        if accepted(store, {"state": state, **{name: VALUES[name] for name in columns}}) is not legal:
            wrong.append(sorted(columns))
    assert wrong == []


def test_the_schema_knows_no_other_state_or_count(store: Store) -> None:
    for row in (
        {"state": "running"},
        {"state": "QUEUED"},
        {"state": ""},
        {"attempt_count": -1},
        {"attempt_count": 1, "pardon_count": 2},
        {"pardon_count": -1},
    ):
        assert not accepted(store, row), row
    for state in states(JOB):
        assert accepted(store, {"state": state, **{name: VALUES[name] for name in NEEDED[state]}})


def test_a_unique_key_stands_once_in_a_queue_of_a_tenant(store: Store) -> None:
    jobs = Jobs(store)
    first = jobs.enqueue("k", dedupe_key="d")
    assert jobs.enqueue("k", dedupe_key="d").id == first.id
    for elsewhere in ({"queue": "other"}, {"tenant": "t"}):
        assert jobs.enqueue("k", dedupe_key="d", **elsewhere).created


def test_between_attempts_the_reason_is_in_the_journal_alone(store: Store) -> None:
    job = put_into(store, "processing", "q")
    settle(store, failed(job, NETWORK_TIMEOUT(), None, 1, blamed=True))
    shown = Jobs(store).show(job.id)
    assert (shown["state"], shown["error_code"], shown["error_message"]) == ("queued", None, None)
    assert shown["due_us"] > shown["created_us"]
    assert Jobs(store).history(job.id)[-1]["code"] == "NETWORK_TIMEOUT"
