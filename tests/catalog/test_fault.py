"""A fault is data that cannot be declared wrong, and calling it makes a failure."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from holdfast.catalog import Blame, Catalog, Failure, Fault, FaultInvalid, Severity
from holdfast.catalog.core import NETWORK_TIMEOUT
from holdfast.catalog.fault import blame_of
from holdfast.policy import Retry


def fault(**fields: Any) -> Fault:
    return Fault(**{"code": "BANK_SILENT", "status": 503, "says": "No answer.", "blame": Blame.UPSTREAM, **fields})


@pytest.mark.parametrize("code", ["A", "BANK_SILENT", "GW_4XX", "GW_5XX", "X1_2_3", "A" * 64])
def test_upper_snake_case_is_a_code(code: str) -> None:
    assert fault(code=code).code == code


@pytest.mark.parametrize(
    "code",
    ["", "bank", "Bank", "_A", "A_", "A__B", "1A", "A-B", "A B", "A\n", " A", "A.B", "Ä", "А", "A٣", "A" * 65],
)
def test_anything_else_is_no_code(code: str) -> None:
    with pytest.raises(FaultInvalid, match="is not UPPER_SNAKE_CASE of at most 64 characters"):
        fault(code=code)


@pytest.mark.parametrize("status", [200, 202, 304, 400, 429, 499, 500, 599])
def test_a_failure_may_have_any_final_http_status(status: int) -> None:
    assert fault(status=status).status == status


@pytest.mark.parametrize("status", [-1, 0, 100, 199, 600, 1000])
def test_other_numbers_are_no_status(status: int) -> None:
    with pytest.raises(FaultInvalid, match=f"BANK_SILENT: {status} is not an HTTP status"):
        fault(status=status)


def test_a_success_is_declared_only_where_nothing_failed() -> None:
    errors = Catalog("shop")
    with pytest.raises(FaultInvalid, match="200 is the status of a success"):
        errors.fault("DONE", status=200, says="Done.")
    assert errors.fault("NOTHING_TO_DO", status=200, says="Nothing to do.", blame=Blame.NO_OP).status == 200


@pytest.mark.parametrize("says", ["", " ", "\n\t", "\u00a0"])
def test_a_fault_has_something_to_say(says: str) -> None:
    with pytest.raises(FaultInvalid, match="BANK_SILENT: `says` is empty"):
        fault(says=says)


@pytest.mark.parametrize(
    ("status", "blame"),
    [
        (400, Blame.CLIENT),
        (409, Blame.CONFLICT),
        (429, Blame.CLIENT),
        (499, Blame.CLIENT),
        (500, Blame.SERVER),
        (501, Blame.SERVER),
        (502, Blame.UPSTREAM),
        (503, Blame.UPSTREAM),
        (504, Blame.UPSTREAM),
        (507, Blame.SERVER),
    ],
)
def test_blame_follows_from_the_status_when_nothing_is_said(status: int, blame: Blame) -> None:
    assert blame_of(status) is blame
    assert Catalog("test").fault("A", status=status, says="a").blame is blame
    assert Catalog("test").fault("A", status=status, says="a", blame=Blame.SERVER).blame is Blame.SERVER


def test_a_fault_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        fault().status = 200  # type: ignore[misc]


def test_calling_a_fault_makes_the_failure_that_carries_it() -> None:
    silent = fault()
    failure = silent(retry_after_s=3.0, charge_id="c1", message="mine", self="too", details=1)
    assert isinstance(failure, Failure)
    assert failure.fault is silent
    assert failure.retry_after_s == 3.0
    assert failure.details == {"charge_id": "c1", "message": "mine", "self": "too", "details": 1}
    assert silent("Another sentence.").message == "Another sentence."


@pytest.mark.parametrize(("rule", "retryable"), [(False, False), (True, True), (Retry(), True)])
def test_a_fault_is_retryable_unless_its_rule_is_never(rule: Retry | bool, retryable: bool) -> None:
    assert fault(retry=rule).retryable is retryable
    assert fault(retry=rule).rule == rule


def test_differences_name_the_fields_that_disagree() -> None:
    assert fault().differences(fault()) == []
    other = fault(status=504, says="Nothing.", severity=Severity.CRITICAL, overlay={"BANK_SILENT": True}, catalog="x")
    assert fault().differences(other) == ["status", "says", "severity"]


def test_faults_can_be_gathered_in_sets_whatever_they_hold() -> None:
    one = fault(retry=Retry(attempts_per_code={"A": 1}), examples=({"a": [1]},))
    same = fault(retry=Retry(attempts_per_code={"A": 1}), examples=({"a": [1]},))
    assert {one, same, fault(code="OTHER")} == {one, fault(code="OTHER")}


def test_a_copy_of_a_fault_is_the_fault() -> None:
    conditional = fault(retry=Retry(when=lambda failure: False))
    assert copy.copy(conditional) is conditional
    assert copy.deepcopy([conditional])[0] is conditional


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_declared_fault_is_found_again_where_it_is_declared(protocol: int) -> None:
    errors = Catalog("shop-pickled")
    silent = errors.fault("BANK_SILENT", status=503, says="s", retry=Retry(when=lambda failure: True))
    assert pickle.loads(pickle.dumps(silent, protocol)) is silent
    assert pickle.loads(pickle.dumps(NETWORK_TIMEOUT, protocol)) is NETWORK_TIMEOUT


def test_an_inherited_or_refined_fault_is_found_again_as_that() -> None:
    child = Catalog("shop-refined", extends=(Catalog("shop-parent"),))
    assert len(child) == 0
    parent = Catalog("shop-parent-2")
    parent.fault("BANK_SILENT", status=503, says="s")
    child = Catalog("shop-child", extends=(parent,))
    assert pickle.loads(pickle.dumps(child["BANK_SILENT"])) is child["BANK_SILENT"] is not parent["BANK_SILENT"]
    refined = child.refine("BANK_SILENT", says="Our bank is silent.")
    assert pickle.loads(pickle.dumps(refined)) is refined


def test_another_fault_of_the_same_name_is_not_mistaken_for_it() -> None:
    sent = pickle.dumps(Catalog("shop-twice").fault("BANK_SILENT", status=503, says="one"))
    other = Catalog("shop-twice").fault("BANK_SILENT", status=504, says="two")
    arrived = pickle.loads(sent)
    assert (arrived.status, arrived.says) == (503, "one")
    assert other.status == 504


def test_a_fault_nobody_declared_arrives_by_value_with_the_rule_in_force() -> None:
    rule = Retry(attempts=7)
    arrived = pickle.loads(pickle.dumps(fault(overlay={"BANK_SILENT": rule})))
    assert arrived == fault(retry=rule)
    assert arrived.rule == rule


def test_a_rule_that_cannot_travel_arrives_as_never() -> None:
    arrived = pickle.loads(pickle.dumps(fault(retry=Retry(when=lambda failure: True))))
    assert arrived.rule is False


def test_a_process_that_never_heard_of_the_catalog_can_read_the_fault() -> None:
    errors = Catalog("only-here")
    errors.fault("BANK_SILENT", status=503, says="No answer to {charge_id}.", retry=Retry(attempts=4))
    code = "import pickle, sys; f = pickle.load(sys.stdin.buffer); print(f.code, f.rule.attempts, f(charge_id='c1'))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(errors["BANK_SILENT"]), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "BANK_SILENT 4 BANK_SILENT: No answer to c1."


def test_a_number_is_no_retry_rule_and_the_remedy_is_told() -> None:
    with pytest.raises(FaultInvalid, match=r"BANK_SILENT: retry: 3 is neither True, False nor a Retry\(attempts=…\)"):
        fault(retry=3)
