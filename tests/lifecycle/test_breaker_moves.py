"""How a breaker moves: every state with every verb."""

from __future__ import annotations

import pytest

from holdfast.lifecycle import BREAKER, BreakerState, MoveRefused, mermaid, moved, states, verbs

MOVES = {
    (BreakerState.CLOSED, "trip"): BreakerState.OPEN,
    (BreakerState.OPEN, "probe"): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, "trip"): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, "recover"): BreakerState.CLOSED,
}


def test_the_table_and_the_states_agree() -> None:
    assert set(states(BREAKER)) == set(BreakerState)
    assert set(verbs(BREAKER)) == {"trip", "probe", "recover"}


def test_no_move_is_declared_twice() -> None:
    pairs = [(move.source, move.verb) for move in BREAKER]
    assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize("state", BreakerState)
@pytest.mark.parametrize("verb", ["trip", "probe", "recover"])
def test_every_verb_in_every_state_either_moves_or_is_refused(state: BreakerState, verb: str) -> None:
    target = MOVES.get((state, verb))
    if target is not None:
        assert moved(BREAKER, state, verb) == target
    else:
        with pytest.raises(MoveRefused, match=f"cannot {verb} what is {state}"):
            moved(BREAKER, state, verb)


def test_a_breaker_begins_closed() -> None:
    assert "[*] --> closed\n" in mermaid(BREAKER)


def test_no_state_is_a_trap() -> None:
    assert {move.source for move in BREAKER} == {move.target for move in BREAKER} == set(states(BREAKER))
