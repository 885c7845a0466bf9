"""The faults of calling others are complete, belong to the core catalog, and are not tried again."""

from __future__ import annotations

import re

import pytest

from holdfast.catalog import CORE, Blame, Fault, edge_faults

FAULTS = [value for value in vars(edge_faults).values() if isinstance(value, Fault)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.code)
def test_every_fault_is_complete_and_permanent(fault: Fault) -> None:
    assert CORE[fault.code] is fault is getattr(edge_faults, fault.code)
    assert fault.remedy.strip()
    assert fault.causes
    assert [code for code in fault.related if code not in CORE] == []
    assert not re.search(r"[{}]", fault.says)
    assert not fault.retryable
    assert (fault.blame is Blame.CLIENT) == (fault.status < 500)
