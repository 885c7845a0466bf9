"""The pure part: moves, what becomes ready, what follows, reruns."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.lifecycle import MoveRefused, states, verbs
from holdfast_systems.reports.cost import FALLBACK, PRICES, Usage, check_budget, priced, spent
from holdfast_systems.reports.model import (
    ABSENT,
    STEP,
    StepState,
    applied,
    followed,
    move,
    next_due_us,
    rerun_id,
    rerun_patch,
)
from holdfast_systems.reports.prompt import build_prompt
from holdfast_systems.reports.writer import read_facts, written

from .system import SCHEMA

ALLOWED = {(one.source, one.verb): one.target for one in STEP}


@pytest.mark.parametrize("state", states(STEP))
@pytest.mark.parametrize("verb", verbs(STEP))
def test_a_step_moves_as_the_table_says_and_in_no_other_way(state: str, verb: str) -> None:
    if (state, verb) in ALLOWED:
        assert move({"state": state}, verb) == ALLOWED[state, verb]
    else:
        with pytest.raises(MoveRefused):
            move({"state": state}, verb)


def run(**steps: tuple[str | None, str]) -> dict[str, Any]:
    """Steps as `name=(state, "what it depends on")`."""
    return {
        "status": "RUNNING",
        "steps": {name: {"state": state, "dependsOn": needed.split()} for name, (state, needed) in steps.items()},
    }


def states_after(document: dict[str, Any]) -> dict[str, Any]:
    after = applied(document, followed(document, at_us=0))
    return {"status": after["status"], **{name: step["state"] for name, step in after["steps"].items()}}


def test_a_step_becomes_ready_when_all_that_it_needs_has_succeeded() -> None:
    document = run(a=("SUCCEEDED", ""), b=("RUNNING", ""), c=(None, "a b"), d=(None, "a"), e=("PENDING", "d"))
    assert states_after(document) == {
        "status": "RUNNING",
        "a": "SUCCEEDED",
        "b": "RUNNING",
        "c": "PENDING",
        "d": "READY",
        "e": "PENDING",
    }


def test_a_failure_is_handed_down_as_far_as_it_goes_in_one_patch() -> None:
    document = run(a=("FAILED", ""), b=("PENDING", "a"), c=(None, "b"), d=(None, "c"), e=("SUCCEEDED", ""))
    after = states_after(document)
    assert [after[name] for name in "abcd"] == ["FAILED"] * 4
    assert after["status"] == "FAILED"
    patch = followed(document, at_us=0)
    assert patch["steps", "d", "error"]["code"] == "DEPENDENCY_FAILED"


def test_a_run_goes_on_while_any_step_does() -> None:
    assert states_after(run(a=("FAILED", ""), b=("RUNNING", "")))["status"] == "RUNNING"
    assert states_after(run(a=("SUCCEEDED", ""), b=("SUCCEEDED", "a")))["status"] == "SUCCEEDED"


def test_what_has_been_said_is_not_said_again() -> None:
    document = run(a=("SUCCEEDED", ""), b=("READY", "a"))
    assert followed(document, at_us=0) == {}
    assert next_due_us(document) == 0
    assert next_due_us(run(a=("RUNNING", ""))) is None
    assert next_due_us({**run(a=("SUCCEEDED", "")), "status": "SUCCEEDED"}) is None


def test_a_patch_leaves_the_original_alone() -> None:
    document = {"a": {"b": 1}, "c": [1]}
    assert applied(document, {("a", "b"): ABSENT, ("d", "e"): 2}) == {"a": {}, "c": [1], "d": {"e": 2}}
    assert document == {"a": {"b": 1}, "c": [1]}


def test_reruns_are_numbered_from_the_first_step() -> None:
    document = run(report=("FAILED", ""))
    assert rerun_id(document, "report") == "report_r2"
    fresh, patch = rerun_patch(document, "report", at_us=0)
    after = applied(document, patch)
    assert (fresh, after["steps"][fresh]["state"], after["status"]) == ("report_r2", StepState.READY, "RUNNING")
    assert rerun_id(after, "report") == rerun_id(after, "report_r2") == "report_r3"
    # A step may be called so from the start.
    assert rerun_id(run(x_r2=("FAILED", "")), "x_r2") == "x_r2_r2"


def test_prices_and_budgets_count_every_call() -> None:
    usage = priced(PRICES, "models/gemini-2.5-flash", input_tokens=1_000_000, output_tokens=100_000)
    assert usage == Usage(calls=1, input_tokens=1_000_000, output_tokens=100_000, cost_usd=0.55)
    assert priced(PRICES, "unknown", input_tokens=1_000_000, output_tokens=0).cost_usd == FALLBACK.input
    document = {"steps": {"a": {"usage": usage.document()}, "b": {"usage": usage.document()}}, "budgetUsd": 1.2}
    assert spent(document).cost_usd == 1.1
    check_budget(document, Usage(), 5.0)
    with pytest.raises(Exception, match="BUDGET_EXCEEDED"):
        check_budget(document, Usage(cost_usd=0.1), 5.0)


def test_only_the_known_places_of_a_template_are_filled() -> None:
    text = build_prompt("{ohlcv} {charts} {0} {ohlcv.__class__} {previousReports} {{x}}", [], {"charts": []}, [])
    assert text.endswith("[] {0} {ohlcv.__class__} none {{x}}")


def test_the_stand_in_writes_from_the_numbers() -> None:
    facts = read_facts("x\n2026-01-01,100,110,90,105,10\n2026-01-02,105,120,95,90,30\n")
    assert facts is not None
    assert (facts.trend, facts.highest, facts.lowest, facts.periods) == ("down", 120, 90, 2)
    report = written("no numbers", SCHEMA)
    assert report["details"]["trend"] in ("up", "down", "sideways")
