"""A table is the only place where a transition is declared; everything else is read from it."""

from __future__ import annotations

import pickle

import pytest

from holdfast.lifecycle import Move, MoveRefused, Table, mermaid, moved, states, verbs

JOB: Table = (
    Move("queued", "claim", "processing"),
    Move("processing", "finish", "complete"),
    Move("processing", "retry", "queued"),
    Move("processing", "fail", "failed"),
    Move("failed", "revive", "queued"),
)
ALLOWED = {(move.source, move.verb): move.target for move in JOB}


def test_states_and_verbs_stand_in_the_order_of_the_table() -> None:
    assert states(JOB) == ("queued", "processing", "complete", "failed")
    assert verbs(JOB) == ("claim", "finish", "retry", "fail", "revive")
    assert states(()) == verbs(()) == ()


@pytest.mark.parametrize("state", [*states(JOB), "nowhere"])
@pytest.mark.parametrize("verb", [*verbs(JOB), "vanish"])
def test_every_verb_in_every_state_either_moves_or_is_refused(state: str, verb: str) -> None:
    if (state, verb) in ALLOWED:
        assert moved(JOB, state, verb) == ALLOWED[state, verb]
    else:
        with pytest.raises(MoveRefused) as refused:
            moved(JOB, state, verb)
        assert (refused.value.state, refused.value.verb) == (state, verb)


@pytest.mark.parametrize(
    ("state", "verb", "message"),
    [
        ("queued", "finish", "cannot finish what is queued; possible: claim"),
        ("processing", "claim", "cannot claim what is processing; possible: fail, finish, retry"),
        ("complete", "retry", "cannot retry what is complete; possible: none, it is final"),
    ],
)
def test_a_refusal_says_what_would_be_possible(state: str, verb: str, message: str) -> None:
    with pytest.raises(MoveRefused) as refused:
        moved(JOB, state, verb)
    assert str(refused.value) == message
    assert isinstance(refused.value, ValueError)


def test_a_refusal_can_cross_processes() -> None:
    refused = MoveRefused("queued", "finish", (verb for verb in ("claim",)))
    arrived = pickle.loads(pickle.dumps(refused))
    assert str(arrived) == str(refused) == "cannot finish what is queued; possible: claim"
    assert (arrived.state, arrived.verb, arrived.allowed) == ("queued", "finish", ("claim",))


def test_the_table_draws_itself_as_a_mermaid_diagram() -> None:
    assert mermaid(JOB) == (
        "stateDiagram-v2\n"
        "    [*] --> queued\n"
        "    queued --> processing: claim\n"
        "    processing --> complete: finish\n"
        "    processing --> queued: retry\n"
        "    processing --> failed: fail\n"
        "    failed --> queued: revive"
    )
