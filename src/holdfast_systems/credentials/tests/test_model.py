"""What events come to, whatever order they come in."""

from __future__ import annotations

import pytest

from holdfast_systems.credentials.model import Heard, Standing, contribution_id_of, worth


@pytest.mark.parametrize(
    ("heard", "reputation"),
    [
        (Heard(), 50),
        (Heard(evidence=3), 80),
        (Heard(verified=1), 75),
        (Heard(evidence=1, verified=4), 85),
        (Heard(evidence=9, verified=1, rejected=1), 0),
    ],
)
def test_a_contribution_is_worth_what_was_heard_of_it(heard: Heard, reputation: int) -> None:
    assert worth(heard).reputation == reputation
    assert worth(heard).contributions == 1


def test_steps_add_up_to_the_whole() -> None:
    steps = [Heard(evidence=1), Heard(rejected=1), Heard(verified=1), Heard(evidence=1)]
    so_far, total = Heard(), worth(Heard()).reputation
    for step in steps:
        following = Heard(
            evidence=so_far.evidence + step.evidence,
            verified=so_far.verified + step.verified,
            rejected=so_far.rejected + step.rejected,
        )
        assert following.without(step) == so_far
        total += worth(following).minus(worth(so_far)).reputation
        so_far = following
    assert total == worth(so_far).reputation == 0
    assert worth(so_far).minus(worth(so_far)) == Standing()


def test_the_id_of_a_nameless_contribution_is_the_same_for_every_repeat() -> None:
    assert contribution_id_of("a", "evt_1") == contribution_id_of("a", "evt_1")
    assert contribution_id_of("a", "evt_1") != contribution_id_of("b", "evt_1")
