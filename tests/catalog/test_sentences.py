"""Two sentences of a fault: one while another attempt follows, and one at the end, which promises nothing."""

from __future__ import annotations

import re

import pytest

from holdfast.analysis import entries, from_json, to_json, to_markdown, to_openapi, to_typescript
from holdfast.catalog import Catalog, Dialect, Fault, FaultInvalid, document
from holdfast.catalog.durable import JOB_TIMEOUT, WORKER_LOST
from holdfast.cli.catalogs import chosen_catalogs
from holdfast.http import pages

PROMISE = re.compile(
    r"\b(we|it|this|they)(’|')ll\b.*\b(retry|try|repeat|again)\b"
    r"|\bwill\b.*\b(retry|try|repeat|again|retried|tried|repeated)\b"
    r"|\b(retrying|(is|are) (being )?(retried|tried again))\b"
    r"|\bautomatically\b",
    re.IGNORECASE,
)

errors = Catalog("shop")
SLOW = errors.fault(
    "SLOW", status=504, retry=True, says="{what} took too long.", says_retrying="{what} is slow. We’ll retry."
)


def every_fault() -> list[Fault]:
    return [fault for catalog in chosen_catalogs([]) for fault in catalog]


def test_no_final_sentence_of_any_catalog_promises_a_retry() -> None:
    promising = {fault.code: fault.says for fault in every_fault() if PROMISE.search(fault.says)}
    assert promising == {}


def test_what_promises_a_retry_is_told_while_there_is_one() -> None:
    promising = {fault.code for fault in every_fault() if fault.says_retrying}
    assert {"JOB_TIMEOUT", "WORKER_LOST", "GW_5XX", "GW_TIMEOUT", "IO_ERROR"} <= promising
    assert all(fault.retryable for fault in every_fault() if fault.says_retrying)


def test_a_failure_has_both_sentences_filled() -> None:
    failure = SLOW(what="The bank")
    assert (failure.message, failure.message_retrying) == ("The bank took too long.", "The bank is slow. We’ll retry.")
    assert (JOB_TIMEOUT().message, WORKER_LOST().message) == ("This took too long.", "This was interrupted.")


def test_a_fault_with_one_sentence_and_an_occurrence_with_its_own_say_it_at_all_times() -> None:
    plain = errors.fault("PLAIN", status=500, retry=True, says="Plain.")
    assert plain().message_retrying == "Plain."
    assert SLOW("Of my own.").message_retrying == "Of my own."


@pytest.mark.parametrize("dialect", list(Dialect))
def test_an_error_body_is_the_end_of_it(dialect: Dialect) -> None:
    assert "took too long" in str(document(SLOW(what="The bank"), dialect))
    assert "retry." not in str(document(SLOW(what="The bank"), dialect))


def test_exports_and_pages_tell_both_and_clients_read_the_final_one() -> None:
    recorded = entries([errors])
    (slow,) = [one for one in from_json(to_json(recorded)) if one.code == "SLOW"]
    assert (slow.says, slow.says_retrying) == (SLOW.says, SLOW.says_retrying)
    assert "While it is tried again" in to_markdown(recorded)
    assert "We’ll retry" not in to_openapi(recorded) + to_typescript(recorded)
    page = pages.fault([errors], "SLOW")
    assert page is not None
    assert SLOW.says in page
    assert SLOW.says_retrying in page


def test_a_sentence_that_nobody_would_ever_read_is_refused() -> None:
    with pytest.raises(FaultInvalid, match="`says_retrying` is never read"):
        errors.fault("NEVER", status=400, says="No.", says_retrying="Soon.")


def test_other_words_do_not_keep_the_inherited_promise() -> None:
    child = Catalog("child", extends=(errors,))
    assert child.refine("SLOW", says="Slow.")().message_retrying == "Slow."
    assert Catalog("other", extends=(errors,)).refine("SLOW", remedy="Wait.").says_retrying == SLOW.says_retrying
