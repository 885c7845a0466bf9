"""The rules that come with Holdfast: every threshold of the sources, and what a rule may not be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.catalog import CORE
from holdfast.catalog.core import DATABASE_CONNECTION_ERROR, DATABASE_READ_ONLY
from holdfast.catalog.database import SQLITE_FAULTS, SQLSTATE_FAULTS
from holdfast.catalog.fault import Severity
from holdfast.delivery.faults import INVALID_SIGNATURE_FORMAT, SIGNATURE_EXPIRED
from holdfast.watch import names
from holdfast.watch.rules import Action, key
from holdfast.watch.rules_builtin import DATABASE_CODES, RULES, SIGNATURE_CODES
from holdfast.watch.rules_measure import Average, Count, Counted, Level, Quantile, window_s
from holdfast.watch.rules_wording import condition_of, summary_of, value_text

BY_NAME = {rule.name: rule for rule in RULES}


@pytest.mark.parametrize(
    ("name", "severity", "sign", "threshold", "window", "for_s", "per", "action"),
    [
        ("webhook_success_rate_critical", "critical", "<", 0.95, 300, 300, None, None),
        ("webhook_dead_letters_critical", "critical", ">", 100, None, 0, None, None),
        ("webhook_signature_failures", "critical", ">", 10, 60, 0, None, None),
        ("webhook_success_rate_warning", "warning", "<", 0.98, 300, 900, None, None),
        ("webhook_retries_warning", "warning", ">", 2, 300, 0, None, None),
        ("webhook_dead_letters_warning", "warning", ">", 50, None, 0, None, None),
        ("high_error_rate", "warning", ">", 0.05, 300, 0, None, None),
        ("database_errors", "critical", ">", 10, 60, 0, None, None),
        ("external_service_down", "warning", ">", 20, 300, 0, "link", Action.SWITCH_PROVIDER),
        ("job_failures_spike", "warning", ">", 3, 300, 0, "error_code", None),
        ("queue_stuck", "warning", ">", 300, None, 300, "queue", None),
        ("queue_without_worker", "warning", ">", 60, None, 60, "queue", None),
        ("queue_held_long", "warning", ">", 900, None, 0, "queue", None),
        ("queue_paused_long", "warning", ">", 3_600, None, 0, "queue", None),
        ("critical_fault", "critical", ">", 0, 300, 0, "error_code", None),
        ("warning_fault", "warning", ">", 20, 900, 0, "error_code", None),
    ],
)
def test_a_rule_has_the_numbers_of_its_source(
    name: str,
    severity: str,
    sign: str,
    threshold: float,
    window: float | None,
    for_s: float,
    per: str | None,
    action: Action | None,
) -> None:
    rule = BY_NAME[name]
    assert (rule.severity, rule.sign, rule.threshold) == (severity, sign, threshold)
    assert (window_s(rule.what), rule.for_s, rule.per, rule.action) == (window, for_s, per, action)


def test_there_is_no_other_rule_and_no_name_twice() -> None:
    assert len(BY_NAME) == len(RULES) == 16


def test_the_codes_that_rules_name_exist() -> None:
    known = {fault.code for fault in CORE} | {INVALID_SIGNATURE_FORMAT.code, SIGNATURE_EXPIRED.code}
    assert {*SIGNATURE_CODES, *DATABASE_CODES} <= known


def test_everything_that_is_wrong_with_a_database_counts_as_its_error() -> None:
    wrong = {fault for fault in (*SQLSTATE_FAULTS.values(), *SQLITE_FAULTS.values()) if fault.status >= 500}
    assert wrong
    assert {fault.code for fault in wrong} <= set(DATABASE_CODES)


def test_a_failover_pages_nobody_by_its_first_errors() -> None:
    assert {DATABASE_CONNECTION_ERROR.severity, DATABASE_READ_ONLY.severity} == {Severity.WARNING}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "Bad Name"}, "is not a name for a rule"),
        ({"severity": Severity.NONE}, "severity is warning or critical"),
        ({"below": 1.0}, "give above or below"),
        ({"above": None}, "give above or below"),
        ({"above": float("inf")}, "not a finite number"),
        ({"for_s": -1}, "for_s is between"),
        ({"per": "endpoint"}, "per is one of nothing"),
    ],
)
def test_a_wrong_rule_is_refused_where_it_is_written(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        replace(BY_NAME["webhook_dead_letters_critical"], **changes)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Counted(names.REFUSED, only=(("nope", ("x",)),)), "has no label nope"),
        (lambda: Counted(names.REFUSED, only=(("source", ()),)), "is given no value"),
        (lambda: Counted(names.REFUSED, never=(("source", ("a",)), ("error_code", ("b",)))), "only one label"),
        (lambda: Count(of=(Counted(names.JOB_DURATION),), over_s=60), "is a histogram, not a counter"),
        (lambda: Count(of=(Counted(names.DELIVERIES), Counted(names.DELIVERIES_GOOD)), over_s=60), "not told apart"),
        (lambda: Average(of=Counted(names.DELIVERIES), over_s=60), "is a counter, not a histogram"),
        (lambda: Level(of=names.DELIVERIES), "is a counter, not a gauge"),
        (lambda: Level(of=names.QUEUE_DEPTH, unless=(names.WEBHOOK_DEAD,)), "different labels"),
        (lambda: Quantile(of=Counted(names.JOB_DURATION), share=1.5, over_s=60), "not between 0 and 1"),
        (lambda: replace(BY_NAME["job_failures_spike"].what, usual_s=60), "not longer"),
        (lambda: replace(BY_NAME["job_failures_spike"].what, baseline_minimum=-1), "from 0 on"),
        (lambda: replace(BY_NAME["high_error_rate"].what, minimum=float("nan")), "from 0 on"),
    ],
)
def test_a_wrong_measure_is_refused_where_it_is_written(make, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize(
    ("name", "summary", "condition"),
    [
        (
            "webhook_success_rate_critical",
            "Fewer than 95 % of webhook deliveries succeed.",
            "below 95 % for 5 min",
        ),
        ("database_errors", "More than 10 database errors in 1 min.", "above 10"),
        (
            "queue_stuck",
            "Jobs have been due for more than 5 min, workers serve the queue, and none is worked on.",
            "above 5 min for 5 min",
        ),
    ],
)
def test_a_rule_says_its_own_numbers(name: str, summary: str, condition: str) -> None:
    assert (summary_of(BY_NAME[name]), condition_of(BY_NAME[name])) == (summary, condition)


def test_a_changed_threshold_changes_the_sentence() -> None:
    changed = replace(BY_NAME["high_error_rate"], above=0.125)
    assert summary_of(changed) == "More than 12.5 % of requests fail because of us or of a service that we need."


def test_every_sentence_is_filled_whole() -> None:
    assert [rule.name for rule in RULES if "{" in summary_of(rule)] == []


def test_a_reading_has_its_unit() -> None:
    assert value_text(BY_NAME["high_error_rate"].what, 0.0712) == "7.12 %"
    assert value_text(BY_NAME["job_failures_spike"].what, 4) == "4 times"
    assert value_text(BY_NAME["queue_stuck"].what, 90) == "90 s"
    assert value_text(BY_NAME["webhook_dead_letters_critical"].what, 101) == "101"
    assert value_text(BY_NAME["high_error_rate"].what, None) == "nothing"


def test_a_cause_has_one_key() -> None:
    assert (key("a", ""), key("a", "x → y")) == ("a", "a/x → y")
