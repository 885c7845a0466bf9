"""What a reading makes of an alert: every phase, both sides of the threshold, and time."""

from __future__ import annotations

import pytest

from holdfast.catalog.fault import Severity
from holdfast.lifecycle.moves import states
from holdfast.store import Store
from holdfast.watch import names
from holdfast.watch.alert_state import ALERT, QUIET, AlertState, Phase, judge
from holdfast.watch.rules import Rule
from holdfast.watch.rules_measure import Level

SECOND_US = 1_000_000
START_US = 1_000 * SECOND_US


def rule(*, for_s: float = 0.0, above: float | None = 10, below: float | None = None) -> Rule:
    what = Level(of=names.WEBHOOK_DEAD)
    return Rule(
        name="dead", severity=Severity.WARNING, summary="Many.", what=what, above=above, below=below, for_s=for_s
    )


def played(of: Rule, *readings: float | None, every_s: float = 60) -> list[Phase]:
    state, phases = QUIET, []
    for turn, reading in enumerate(readings):
        state = judge(of, reading, state, START_US + int(turn * every_s * SECOND_US))
        phases.append(state.phase)
    return phases


Q, P, F, R = Phase.INACTIVE, Phase.PENDING, Phase.FIRING, Phase.RESOLVED


@pytest.mark.parametrize(
    ("for_s", "readings", "expected"),
    [
        pytest.param(0, [5, 11, 11, 9], [Q, F, F, R], id="at once"),
        pytest.param(0, [10, 10.1], [Q, F], id="exactly the threshold is not over it"),
        pytest.param(120, [11, 11, 11, 11, 5], [P, P, F, F, R], id="only when it lasts"),
        pytest.param(120, [11, 11, 5, 11, 11, 11], [P, P, Q, P, P, F], id="an interruption begins anew"),
        pytest.param(120, [11, 11, None, 11], [P, P, Q, P], id="no reading interrupts"),
        pytest.param(0, [11, None], [F, R], id="no reading resolves"),
        pytest.param(0, [11, float("nan")], [F, R], id="not a number resolves"),
        pytest.param(0, [11, 5, 11, 5], [F, R, F, R], id="it can come again"),
        pytest.param(60, [11, 11, 5, 11, 5, 5], [P, F, R, P, Q, Q], id="a second time it has to last again"),
        pytest.param(0, [None, None], [Q, Q], id="nothing is nothing"),
    ],
)
def test_readings_move_an_alert(for_s: float, readings: list[float | None], expected: list[Phase]) -> None:
    assert played(rule(for_s=for_s), *readings) == expected


def test_a_rule_may_matter_below_a_value() -> None:
    assert played(rule(above=None, below=0.95), 0.95, 0.94, 0.96) == [Q, F, R]


def test_the_state_tells_since_when_and_what_was_read() -> None:
    of = rule(for_s=60)
    began = judge(of, 11, QUIET, START_US)
    fired = judge(of, 12, began, START_US + 60 * SECOND_US)
    over = judge(of, 3, fired, START_US + 90 * SECOND_US)
    assert over == AlertState(
        phase=Phase.RESOLVED,
        began_us=START_US,
        fired_us=START_US + 60 * SECOND_US,
        resolved_us=START_US + 90 * SECOND_US,
        value=3,
        at_us=START_US + 90 * SECOND_US,
    )


def test_an_old_reading_does_not_move_what_a_recent_one_moved() -> None:
    fired = judge(rule(), 11, QUIET, START_US)
    assert judge(rule(), 5, fired, START_US - 1) is fired


def test_what_does_not_move_is_the_same_value() -> None:
    fired = judge(rule(), 11, QUIET, START_US)
    assert judge(rule(), 99, fired, START_US + SECOND_US) is fired


def test_the_phases_are_those_of_the_table_and_of_the_schema(store: Store) -> None:
    assert set(states(ALERT)) == set(Phase)
    moments = {"began_us": 1, "fired_us": 2, "resolved_us": 3}
    held = {Phase.INACTIVE: 0, Phase.PENDING: 1, Phase.FIRING: 2, Phase.RESOLVED: 3}
    for phase, count in held.items():
        columns = {name: value if value <= count else None for name, value in moments.items()}

        def insert(tx, phase=phase, columns=columns):
            return tx.run("alert.begin", rule="r", cause=phase.value, phase=phase.value, value=1.0, at_us=1, **columns)

        assert store.atomic(insert) == 1
