"""Codes are a contract: declared once, never silently changed."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.catalog import Blame, Catalog, CodeTaken, Fault, FaultInvalid, Severity
from holdfast.policy import Retry

DECLARED: dict[str, Any] = {"status": 503, "says": "The bank did not answer."}


def shop(**options: Any) -> Catalog:
    errors = Catalog("shop", **options)
    errors.fault("BANK_SILENT", **DECLARED)
    return errors


# -- declaring ----------------------------------------------------------------------------------------------------


def test_the_same_declaration_again_is_the_same_fault() -> None:
    errors = Catalog("shop")
    full: dict[str, Any] = {
        **DECLARED,
        "technical": "no reply",
        "retry": Retry(attempts=2),
        "causes": ("a",),
        "examples": ({"charge_id": "c1"},),
    }
    assert errors.fault("BANK_SILENT", **full) is errors.fault("BANK_SILENT", **full)
    assert len(errors) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", 504),
        ("says", "Nothing."),
        ("technical", "t"),
        ("retry", True),
        ("retry", Retry()),
        ("blame", Blame.SERVER),
        ("causes", ("c",)),
        ("remedy", "r"),
        ("examples", ({"a": 1},)),
        ("related", ("OTHER",)),
        ("severity", Severity.CRITICAL),
        ("documentation_url", "https://x.example/"),
    ],
)
def test_the_same_code_with_another_meaning_is_refused_and_the_difference_named(name: str, value: object) -> None:
    errors = shop()
    before = errors["BANK_SILENT"]
    with pytest.raises(CodeTaken, match=rf"shop: BANK_SILENT is declared already .*\(differs in: .*{name}.*\)"):
        errors.fault("BANK_SILENT", **{**DECLARED, name: value})
    assert errors["BANK_SILENT"] is before


def test_all_differences_are_named_at_once() -> None:
    with pytest.raises(CodeTaken, match=r"\(differs in: status, says, blame\)"):
        shop().fault("BANK_SILENT", status=400, says="x")


def test_a_taken_code_is_an_invalid_fault() -> None:
    assert issubclass(CodeTaken, FaultInvalid)
    assert issubclass(FaultInvalid, ValueError)


def test_a_fault_that_is_refused_is_not_kept() -> None:
    errors = Catalog("shop")
    with pytest.raises(FaultInvalid):
        errors.fault("BANK_SILENT", status=42, says="x")
    assert "BANK_SILENT" not in errors
    assert errors.fault("BANK_SILENT", **DECLARED).status == 503


def test_two_catalogs_may_use_one_code_for_two_things() -> None:
    assert Catalog("a").fault("X", status=500, says="a") != Catalog("b").fault("X", status=400, says="b")


# -- looking up ---------------------------------------------------------------------------------------------------


def test_a_catalog_can_be_asked_for_its_faults_in_the_order_of_declaration() -> None:
    errors = shop()
    second = errors.fault("A_LATER_ONE", status=400, says="x")
    assert [fault.code for fault in errors] == ["BANK_SILENT", "A_LATER_ONE"]
    assert errors["A_LATER_ONE"] is errors.get("A_LATER_ONE") is second
    assert errors.get("NOBODY") is None
    assert "BANK_SILENT" in errors
    assert "NOBODY" not in errors
    assert len(errors) == 2
    assert repr(errors) == "<Catalog shop: 2 faults>"
    with pytest.raises(KeyError):
        errors["NOBODY"]


@pytest.mark.parametrize(
    ("docs", "address"),
    [
        ("", ""),
        ("/errors", "/errors/BANK_SILENT"),
        ("/errors/", "/errors/BANK_SILENT"),
        ("https://docs.example.com/errors//", "https://docs.example.com/errors/BANK_SILENT"),
    ],
)
def test_the_documentation_address_follows_from_the_catalogs(docs: str, address: str) -> None:
    assert shop(docs=docs)["BANK_SILENT"].documentation_url == address


def test_an_address_of_its_own_wins() -> None:
    fault = Catalog("shop", docs="/errors/").fault("X", status=400, says="x", documentation_url="https://x.example/")
    assert fault.documentation_url == "https://x.example/"


# -- extending ----------------------------------------------------------------------------------------------------


def test_a_catalog_that_extends_another_has_its_faults_with_its_own_addresses() -> None:
    child = Catalog("till", docs="/till/", extends=(shop(docs="/shop/"),))
    assert child["BANK_SILENT"].documentation_url == "/till/BANK_SILENT"
    assert child["BANK_SILENT"].catalog == "till"


def test_without_docs_of_its_own_the_parents_address_stays() -> None:
    assert Catalog("till", extends=(shop(docs="/shop/"),))["BANK_SILENT"].documentation_url == "/shop/BANK_SILENT"


def test_an_address_given_by_hand_is_inherited_as_it_is() -> None:
    parent = Catalog("shop", docs="/shop/")
    parent.fault("X", status=400, says="x", documentation_url="https://x.example/")
    assert Catalog("till", docs="/till/", extends=(parent,))["X"].documentation_url == "https://x.example/"


@pytest.mark.parametrize("docs", ["", "/child/"])
def test_one_fault_may_be_inherited_on_two_ways(docs: str) -> None:
    grandparent = shop()
    parents = (Catalog("a", docs="/a/", extends=(grandparent,)), Catalog("b", docs="/b/", extends=(grandparent,)))
    child = Catalog("child", docs=docs, extends=parents)
    assert child["BANK_SILENT"].documentation_url == (f"{docs}BANK_SILENT" if docs else "/a/BANK_SILENT")
    assert len(child) == 1


def test_parents_that_disagree_cannot_be_joined() -> None:
    other = Catalog("other")
    other.fault("BANK_SILENT", status=504, says="x")
    with pytest.raises(CodeTaken, match=r"till: BANK_SILENT .*status, says"):
        Catalog("till", extends=(shop(), other))


def test_an_inherited_code_cannot_be_declared_with_another_meaning() -> None:
    child = Catalog("till", extends=(shop(),))
    with pytest.raises(CodeTaken):
        child.fault("BANK_SILENT", status=503, says="Something else.")
    assert child.fault("BANK_SILENT", **DECLARED) is child["BANK_SILENT"]


def test_a_child_leaves_its_parent_alone() -> None:
    parent = shop()
    child = Catalog("till", extends=(parent,))
    child.fault("NEW", status=400, says="x")
    child.refine("BANK_SILENT", says="Other words.")
    child.overlay({"BANK_SILENT": True})
    assert "NEW" not in parent
    assert parent["BANK_SILENT"].says == DECLARED["says"]
    assert parent["BANK_SILENT"].rule is False


# -- refining -----------------------------------------------------------------------------------------------------


def test_an_inherited_fault_can_be_put_into_other_words() -> None:
    child = Catalog("till", docs="/till/", extends=(shop(),))
    refined = child.refine("BANK_SILENT", says="Our bank is silent.", retry=True, remedy="Wait.")
    assert refined is child["BANK_SILENT"]
    assert (refined.says, refined.status, refined.rule) == ("Our bank is silent.", 503, True)
    assert refined.documentation_url == "/till/BANK_SILENT"


@pytest.mark.parametrize(
    "changes", [{"status": 504}, {"code": "OTHER"}, {"overlay": {}}, {"catalog": "x"}, {"says": " "}]
)
def test_a_refinement_cannot_change_what_the_contract_holds(changes: dict[str, Any]) -> None:
    child = Catalog("till", extends=(shop(),))
    with pytest.raises(FaultInvalid):
        child.refine("BANK_SILENT", **changes)
    assert child["BANK_SILENT"].says == DECLARED["says"]


def test_only_an_inherited_fault_can_be_refined() -> None:
    errors = shop()
    with pytest.raises(FaultInvalid, match="shop: BANK_SILENT is not inherited"):
        errors.refine("BANK_SILENT", says="Suddenly something else.")
    with pytest.raises(FaultInvalid, match="shop: NOBODY is not inherited"):
        errors.refine("NOBODY", says="x")


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError, match="sayz"):
        Catalog("till", extends=(shop(),)).refine("BANK_SILENT", sayz="x")


# -- the policy file's rules --------------------------------------------------------------------------------------


def test_a_rule_of_the_overlay_wins_also_for_faults_made_before_and_failures_in_flight() -> None:
    errors = shop()
    silent: Fault = errors["BANK_SILENT"]
    failure = silent()
    assert not failure.retryable
    errors.overlay({"BANK_SILENT": Retry(attempts=9)})
    assert silent.rule == Retry(attempts=9)
    assert silent.retry is False
    assert silent.retryable
    assert failure.retryable


def test_an_overlay_can_forbid_what_the_code_allows() -> None:
    errors = Catalog("shop")
    fault = errors.fault("X", status=503, says="x", retry=True)
    errors.overlay({"X": False})
    assert not fault.retryable
    assert not fault().retryable


def test_an_overlay_with_an_unknown_code_changes_nothing() -> None:
    errors = shop()
    with pytest.raises(KeyError, match="NOBODY"):
        errors.overlay({"BANK_SILENT": True, "NOBODY": True})
    assert errors["BANK_SILENT"].rule is False


def test_a_later_overlay_adds_to_an_earlier_one() -> None:
    errors = shop()
    errors.fault("OTHER", status=503, says="x")
    errors.overlay({"BANK_SILENT": True})
    errors.overlay({"OTHER": True})
    assert (errors["BANK_SILENT"].rule, errors["OTHER"].rule) == (True, True)


def test_a_refined_fault_is_under_the_overlay_too() -> None:
    child = Catalog("till", extends=(shop(),))
    refined = child.refine("BANK_SILENT", says="Other words.")
    child.overlay({"BANK_SILENT": True})
    assert refined.rule is True


def test_an_overlay_is_not_a_second_meaning() -> None:
    errors = shop()
    errors.overlay({"BANK_SILENT": True})
    assert errors.fault("BANK_SILENT", **DECLARED) is errors["BANK_SILENT"]
