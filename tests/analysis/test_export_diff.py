"""Two versions of a catalog: what breaks clients, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.analysis import Changed, changes, entries
from holdfast.catalog import CORE, Catalog
from holdfast.policy import NEVER, Retry

PERHAPS = Retry(when=lambda failure: "again" in failure.details)


def version(name: str = "shop", **codes: Any) -> list[Any]:
    errors = Catalog(name)
    for code, facts in codes.items():
        errors.fault(code, **({"status": 503, "says": "No."} | facts))
    return entries([errors])


@pytest.mark.parametrize(
    ("old", "new", "what", "breaks", "words"),
    [
        ({"SOLD_OUT": {}}, {}, "removed", True, "SOLD_OUT (shop) is gone"),
        ({"SOLD_OUT": {}}, {"SOLD_OUT": {"status": 409}}, "status", True, "has status 409 instead of 503"),
        ({"SOLD_OUT": {}}, {"SOLD_OUT": {"retry": True}}, "retryable", True, "is retried now"),
        ({"SOLD_OUT": {"retry": True}}, {"SOLD_OUT": {}}, "retryable", True, "is no longer retried"),
        ({"SOLD_OUT": {"retry": True}}, {"SOLD_OUT": {"retry": NEVER}}, "retryable", True, "is no longer retried"),
        ({"SOLD_OUT": {"retry": True}}, {"SOLD_OUT": {"retry": PERHAPS}}, "conditional", True, "on condition only"),
        ({"SOLD_OUT": {"retry": PERHAPS}}, {"SOLD_OUT": {"retry": True}}, "conditional", True, "without condition now"),
        ({"SOLD_OUT": {"retry": PERHAPS}}, {"SOLD_OUT": {}}, "retryable", True, "is no longer retried"),
        ({"SOLD_OUT": {"retry": True}}, {"SOLD_OUT": {"retry": Retry(attempts=9)}}, "reworded", False, "other words"),
        ({}, {"SOLD_OUT": {}}, "added", False, "is new"),
        ({"SOLD_OUT": {}}, {"SOLD_OUT": {"says": "All gone."}}, "reworded", False, "in other words"),
    ],
)
def test_each_change_is_told_and_judged(old: Any, new: Any, what: str, breaks: bool, words: str) -> None:
    (change,) = changes(version(**old), version(**new))
    assert (change.what, change.what.breaks) == (Changed(what), breaks)
    assert words in str(change)


def test_status_and_retry_may_change_at_once() -> None:
    found = changes(version(SOLD_OUT={}), version(SOLD_OUT={"status": 409, "retry": True}))
    assert [(change.what, change.before, change.after) for change in found] == [
        (Changed.STATUS, 503, 409),
        (Changed.RETRYABLE, False, True),
    ]


def test_what_breaks_comes_first() -> None:
    found = changes(version(GONE_NOW={}, SAME={}), version(A_NEW_ONE={}, SAME={}))
    assert [change.code for change in found] == ["GONE_NOW", "A_NEW_ONE"]


def test_nothing_has_changed_between_equal_versions() -> None:
    assert changes(entries([CORE]), entries([CORE])) == []


def test_a_code_is_judged_in_each_catalog_that_has_it() -> None:
    child = Catalog("child", extends=(CORE,))
    before = entries([CORE, child])
    found = changes(before, entries([CORE]))
    assert {change.catalog for change in found} == {"child"}
    assert {change.what for change in found} == {Changed.REMOVED}
    assert len(found) == len(CORE)


def test_exporting_one_catalog_more_changes_nothing_for_the_others() -> None:
    found = changes(entries([CORE]), entries([CORE, Catalog("child", extends=(CORE,), docs="https://docs.example/")]))
    assert {(change.catalog, change.what) for change in found} == {("child", Changed.ADDED)}
