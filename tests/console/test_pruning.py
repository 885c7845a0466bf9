"""The audit does not grow for ever: old deeds go in small batches, and how long they stay is a setting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.console.deeds import new_deed, note
from holdfast.console.pruning import KEPT_S
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant
from holdfast.worker import Retention
from holdfast.worker.retention import DAY_S


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with instant() as virtual:
        yield virtual


def deeds(store: Store, count: int) -> list[str]:
    """So many deeds; their ids."""
    made = [new_deed("ann", "pause", f"queue:{number}", None) for number in range(count)]
    store.atomic(lambda tx: [note(tx, one, "done") for one in made])
    return [one.id for one in made]


def left(store: Store) -> list[str]:
    asked = {"before": "~", "who": None, "verb": None, "count": 100}
    return sorted(row["id"] for row in store.atomic(lambda tx: tx.records("console.deeds", **asked), write=False))


def test_deeds_go_after_a_year_and_younger_ones_stay(virtual_store: Store, time: VirtualTime) -> None:
    deeds(virtual_store, 3)
    time.advance(KEPT_S - DAY_S)
    assert Retention().prune(virtual_store).others == {}
    young = deeds(virtual_store, 2)
    time.advance(2 * DAY_S)
    assert Retention(others_s={"audit": None}).prune(virtual_store).others == {}
    assert Retention().prune(virtual_store).others == {"audit": 3}
    assert left(virtual_store) == sorted(young)


def test_a_shorter_time_is_a_setting_and_a_run_is_bounded(virtual_store: Store, time: VirtualTime) -> None:
    deeds(virtual_store, 5)
    time.advance(DAY_S + 1)
    rule = Retention(others_s={"audit": DAY_S}, batch_rows=2, batches_max=1)
    runs = [rule.prune(virtual_store) for _ in range(4)]
    assert [(run.others.get("audit", 0), run.more) for run in runs] == [(2, True), (2, True), (1, False), (0, False)]


def test_whoever_has_a_console_prunes_its_audit() -> None:
    asked = "import holdfast.console as c; c.console; from holdfast.worker.retention import _others; print(*_others)"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=60)
    assert "audit" in told.stdout.split()
