"""How an idempotency key moves, and what is decided about it without a database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import Catalog
from holdfast.catalog.durable import COMMIT_UNKNOWN, IDEMPOTENCY_IN_PROGRESS, IDEMPOTENCY_LOST
from holdfast.lifecycle import MoveRefused, mermaid, moved, states, verbs
from holdfast.lifecycle.idempotency import (
    KEY,
    NOBODY,
    Answer,
    AnswerInvalid,
    Free,
    InProgress,
    KeyState,
    Mismatch,
    Replay,
    Sighting,
    is_replayed,
    judged,
)

MOVES = {
    (KeyState.WORKING, "renew"): KeyState.WORKING,
    (KeyState.WORKING, "release"): KeyState.WORKING,
    (KeyState.WORKING, "begin"): KeyState.WORKING,
    (KeyState.WORKING, "finish"): KeyState.DONE,
    (KeyState.DONE, "replay"): KeyState.DONE,
    (KeyState.DONE, "begin"): KeyState.WORKING,
}
SECOND_US = 1_000_000
NOW_US = 1_000 * SECOND_US
HELD = Sighting(
    request_hash="a",
    state="working",
    token=7,
    lease_until_us=NOW_US + 5 * SECOND_US,
    answer=None,
    first_seen_us=NOW_US,
    expires_us=NOW_US + 60 * SECOND_US,
    now_us=NOW_US,
)
ANSWER = Answer(201, body=b"made")
DONE = replace(HELD, state="done", lease_until_us=None, answer=ANSWER)


@pytest.mark.parametrize("state", KeyState)
@pytest.mark.parametrize("verb", verbs(KEY))
def test_every_verb_in_every_state_either_moves_or_is_refused(state: KeyState, verb: str) -> None:
    target = MOVES.get((state, verb))
    if target is not None:
        assert moved(KEY, state, verb) == target
    else:
        with pytest.raises(MoveRefused, match=f"cannot {verb} what is {state}"):
            moved(KEY, state, verb)


def test_the_table_the_states_and_the_schema_agree(root: Path) -> None:
    assert set(states(KEY)) == set(KeyState)
    schema = (root / "src/holdfast/store/migrations/0001_baseline.sql").read_text()
    known = ", ".join(f"'{state}'" for state in KeyState)
    assert f"CONSTRAINT holdfast_idempotency_state CHECK (state IN ({known}))" in schema


def test_the_page_draws_the_table(root: Path) -> None:
    assert mermaid(KEY) in (root / "docs/reference/idempotency.md").read_text()


@pytest.mark.parametrize(
    ("seen", "request_hash", "expected"),
    [
        (HELD, "a", InProgress(5.0)),
        (HELD, "b", Mismatch()),
        (replace(HELD, lease_until_us=NOW_US), "a", Free("lapsed")),
        (replace(HELD, lease_until_us=NOW_US, token=NOBODY), "a", Free("released")),
        (replace(HELD, lease_until_us=NOW_US), "b", Mismatch()),
        (replace(HELD, lease_until_us=NOW_US, expires_us=NOW_US), "b", Free("expired")),
        (replace(HELD, expires_us=NOW_US), "a", InProgress(5.0)),
        (DONE, "a", Replay(ANSWER)),
        (DONE, "b", Mismatch()),
        (replace(DONE, expires_us=NOW_US), "a", Free("expired")),
        (replace(DONE, expires_us=NOW_US), "b", Free("expired")),
    ],
)
def test_a_key_that_was_there_before_is_judged(seen: Sighting, request_hash: str, expected: object) -> None:
    assert judged(seen, request_hash=request_hash) == expected


@pytest.mark.parametrize(("retry", "replayed", "expected"), [
    (False, None, True),
    (True, None, False),
    (False, False, False),
    (True, True, True),
])  # fmt: skip
def test_the_fault_says_whether_its_failures_are_replayed(retry: bool, replayed: bool | None, expected: bool) -> None:
    fault = Catalog("shop").fault("REFUSED", status=422, says="No.", retry=retry, replayed=replayed)
    assert is_replayed(fault()) is expected


@pytest.mark.parametrize(
    "fault", [COMMIT_UNKNOWN, IDEMPOTENCY_LOST, IDEMPOTENCY_IN_PROGRESS], ids=lambda fault: fault.code
)
def test_what_nobody_knows_is_no_answer(fault: object) -> None:
    assert not is_replayed(fault())  # type: ignore[operator]


@pytest.mark.parametrize("status", [99, 600, "200", True])
def test_an_answer_has_an_http_status(status: int) -> None:
    with pytest.raises(AnswerInvalid, match="not an HTTP status"):
        Answer(status)


def test_an_answer_has_a_body_of_bytes() -> None:
    with pytest.raises(AnswerInvalid, match="bytes"):
        Answer(200, body="text")  # type: ignore[arg-type]
