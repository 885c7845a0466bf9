"""The faults every service meets are complete and point only at each other."""

from __future__ import annotations

import re

import pytest

from holdfast.catalog import CORE, Blame, Catalog, Fault, core

# By name: other modules may add to the same catalog.
FAULTS = [value for value in vars(core).values() if isinstance(value, Fault)]
every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.code)


def test_every_fault_has_a_name_in_its_module() -> None:
    assert all(CORE[fault.code] is fault is getattr(core, fault.code) for fault in FAULTS)
    assert len(FAULTS) > 30


@every_fault
def test_every_fault_says_what_happened_and_what_to_do(fault: Fault) -> None:
    assert fault.says.strip()
    assert fault.remedy.strip()


@every_fault
def test_every_related_code_exists_and_is_another(fault: Fault) -> None:
    assert [code for code in fault.related if code not in CORE] == []
    assert fault.code not in fault.related


@every_fault
def test_every_fault_has_its_page(fault: Fault) -> None:
    assert fault.documentation_url == f"/errors/{fault.code}"


@every_fault
def test_what_the_person_reads_needs_no_facts(fault: Fault) -> None:
    assert not re.search(r"[{}]", fault.says)


@every_fault
def test_every_fault_knows_its_catalog(fault: Fault) -> None:
    assert fault.catalog == "holdfast"
    assert fault() is not fault()
    assert str(fault()) == f"{fault.code}: {fault.says}"


RETRYABLE = {
    *("UNKNOWN", "BREAKER_OPEN", "RATE_LIMIT_EXCEEDED", "CONCURRENCY_EXCEEDED"),
    *("NETWORK_TIMEOUT", "CONNECTION_REFUSED", "CONNECTION_RESET", "DNS_FAILED", "INVALID_RESPONSE"),
    *("DATABASE_CONNECTION_ERROR", "DATABASE_POOL_EXHAUSTED", "TRANSACTION_ROLLED_BACK", "DATABASE_TIMEOUT"),
    *("DATABASE_READ_ONLY", "STORAGE_FULL"),
    *(
        "REQUEST_TIMEOUT",
        "TOO_EARLY",
        "UPSTREAM_ERROR",
        *("UPSTREAM_BUSY", "RESULT_UNWANTED"),
        "BAD_GATEWAY",
        "SERVICE_UNAVAILABLE",
        "GATEWAY_TIMEOUT",
    ),
}


@every_fault
def test_what_passes_by_itself_is_retryable_and_nothing_else(fault: Fault) -> None:
    assert fault.retryable == (fault.code in RETRYABLE)


@every_fault
def test_blame_fits_the_status(fault: Fault) -> None:
    if fault.status < 500:
        assert fault.blame in {Blame.CLIENT, Blame.CONFLICT}
    elif fault.code != "DEADLINE_EXCEEDED":
        assert fault.blame in {Blame.SERVER, Blame.UPSTREAM}


def test_a_system_can_extend_the_core_and_keep_its_codes() -> None:
    system = Catalog("shop", docs="https://shop.example/errors", extends=(CORE,))
    assert [fault.code for fault in system] == [fault.code for fault in CORE]
    assert system["UNKNOWN"].documentation_url == "https://shop.example/errors/UNKNOWN"
