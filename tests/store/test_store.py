"""The store: transactions happen whole or not at all, on both engines."""

from __future__ import annotations

import pytest

from holdfast.store import Store, Tx


def test_a_phase_that_raises_leaves_nothing_behind(store: Store) -> None:
    def phase(tx: Tx) -> None:
        tx.run("queue.register", name="mail")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        store.atomic(phase)
    assert store.atomic(lambda tx: tx.rows("queue.registered", most=1), write=False) == []


def test_a_second_migration_does_nothing(store: Store) -> None:
    assert store.migrate() == []
