"""Catalogs as records, and the registry as JSON and Markdown."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from holdfast.analysis import ExportUnreadable, entries, from_json, to_json, to_markdown
from holdfast.catalog import CORE, Catalog

from .export_samples import CORES, bank, retried, shop

PLAIN = {"code": "A", "status": 7, "retryable": True, "catalogs": ["shop"]}


def test_a_fault_that_catalogs_share_is_one_record_that_names_them() -> None:
    found = [entry for entry in entries(CORES) if entry.code == "NETWORK_TIMEOUT"]
    assert [entry.catalogs for entry in found] == [tuple(catalog.name for catalog in CORES)]


def test_a_code_in_other_words_is_a_record_of_its_own() -> None:
    found = [entry for entry in entries(CORES) if entry.code == "UNAUTHORIZED"]
    assert [entry.catalogs for entry in found] == [("holdfast", "holdfast.edge", "holdfast.artifact"), ("delivery",)]


def test_every_fault_of_every_catalog_is_recorded_with_the_rule_in_force() -> None:
    catalogs = [*CORES, shop(), bank()]
    recorded = entries(catalogs)
    told = {(name, entry.code): entry.contract for entry in recorded for name in entry.catalogs}
    assert told == {
        (catalog.name, fault.code): (fault.status, retried(fault)) for catalog in catalogs for fault in catalog
    }


@pytest.mark.parametrize(
    ("code", "retryable", "conditional"),
    [("SHOP_ONCE", False, False), ("SHOP_PERHAPS", True, True), ("GONE", True, False), ("SHOP_WILD", False, False)],
)
def test_a_rule_counts_as_it_works_and_not_as_it_looks(code: str, retryable: bool, conditional: bool) -> None:
    (entry,) = [entry for entry in entries([shop()]) if entry.code == code]
    assert (entry.retryable, entry.conditional) == (retryable, conditional)


def test_an_overlay_in_one_catalog_keeps_its_record_apart() -> None:
    found = {entry.catalogs: entry.retryable for entry in entries([CORE, shop()]) if entry.code == "GONE"}
    assert found == {("holdfast",): False, ("shop'\"<b>",): True}


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_an_export_read_back_is_the_same() -> None:
    recorded = entries([*CORES, shop(), bank()])
    assert from_json(to_json(recorded)) == recorded


def test_members_of_a_newer_version_are_passed_over() -> None:
    document = json.loads(to_json(entries([bank()])))
    document["faults"][0]["colour"] = "red"
    assert from_json(json.dumps(document)) == entries([bank()])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda _: "no json", "not JSON"),
        (lambda _: "[]", '"format"'),
        (lambda good: {**good, "format": "else"}, '"format"'),
        (lambda good: {**good, "version": 2}, "version is 2"),
        (lambda good: {**good, "faults": {}}, "not a list"),
        (lambda good: {**good, "faults": ["x"]}, r"faults\[0\] is not an object"),
        (lambda good: {**good, "faults": [{"code": "lower"}]}, r"faults\[0\] has no code"),
        (lambda good: {**good, "faults": [{"code": "A", "status": "7", "retryable": True}]}, "has no status"),
        (lambda good: {**good, "faults": [{"code": "A", "status": 7, "retryable": 1}]}, "retryable"),
        (lambda good: {**good, "faults": [{"code": "A", "status": 7, "retryable": True}]}, "names no catalogs"),
        (lambda good: {**good, "faults": [{**PLAIN, "catalogs": []}]}, "names no catalogs"),
        (lambda good: {**good, "faults": [PLAIN, {**PLAIN, "status": 8}]}, r"faults\[1\] \(A\) is in .* 'shop' twice"),
    ],
)
def test_what_is_no_export_is_refused_with_the_place(change: Any, told: str) -> None:
    made = change(json.loads(to_json([])))
    with pytest.raises(ExportUnreadable, match=told):
        from_json(made if isinstance(made, str) else json.dumps(made))


# -- Markdown ----------------------------------------------------------------------------------------------------------


def test_the_page_has_a_row_and_a_section_for_every_record() -> None:
    recorded = entries([*CORES, shop()])
    page = to_markdown(recorded)
    rows = re.findall(r"^\| \[`(\w+)`\]", page, re.MULTILINE)
    sections = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert sorted(rows) == sorted(sections) == sorted(entry.code for entry in recorded)


def test_each_row_leads_to_its_own_section_also_where_catalogs_disagree() -> None:
    page = to_markdown(entries([shop(), bank()]))
    rows = re.findall(r"^\| \[`SHOP_WILD`\]\(#([\w-]+)\) \| (\d+)", page, re.MULTILINE)
    assert sorted(rows) == [("shop_wild", "418"), ("shop_wild-1", "503")]


def test_every_row_has_as_many_cells_as_the_head() -> None:
    lines = [line for line in to_markdown(entries([shop()])).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {7}


def test_words_cannot_become_markup() -> None:
    page = to_markdown(entries([shop()]))
    assert "<b>" not in page
    assert r"\*words\*" in page
    assert page.count("```") == 2  # the one example, whose own backticks are written another way


def test_no_catalogs_make_an_empty_page() -> None:
    assert "0 codes" in to_markdown(entries([Catalog("empty")]))
