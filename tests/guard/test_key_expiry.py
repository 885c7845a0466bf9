"""When a stored answer expires, and that storing it changes no index where the work was quick."""

from __future__ import annotations

import pytest

from holdfast.base.codec import canonical_list
from holdfast.guard.idempotency import Answer, Keys, Started
from holdfast.guard.key_batches import WRITE, Finish, item, row_of
from holdfast.guard.key_ledger import stored
from holdfast.store import Store, Tx
from holdfast.testing import instant

EXPIRES_S = 1_000.0
MADE = Answer(201, (), b"made")
UPDATED = """
SELECT pg_stat_get_xact_tuples_updated(place), pg_stat_get_xact_tuples_hot_updated(place)
  FROM (SELECT 'holdfast_idempotency'::regclass::oid AS place) AS found
"""


def begun(keys: Keys, key: str) -> Started:
    started = keys.begin(tenant="t", operation="pay", key=key, request_hash="r")
    assert isinstance(started, Started)
    return started


def finish(keys: Keys, started: Started, *, together: bool) -> None:
    if together:
        keys.finish(started, MADE)  # through the statement for many
    else:
        keys.store.atomic(lambda tx: keys.finish(started, MADE, tx=tx))


@pytest.mark.parametrize("together", [True, False], ids=["together", "in a transaction"])
@pytest.mark.parametrize(("took_s", "kept_s"), [(9.0, 991.0), (11.0, 1_000.0)], ids=["quick", "slow"])
def test_a_quick_answer_expires_when_its_beginning_said_and_a_slow_one_later(
    virtual_store: Store, took_s: float, kept_s: float, together: bool
) -> None:
    with instant() as time:
        keys = Keys(virtual_store, expires_s=EXPIRES_S)
        started = begun(keys, "k")
        time.advance(took_s)
        finish(keys, started, together=together)
        time.advance(kept_s - 0.5)
        assert keys.prune() == 0
        time.advance(1.0)
        assert keys.prune() == 1


def test_an_answer_is_stored_without_a_change_to_an_index(emptied_dsn: str) -> None:
    """PostgreSQL calls it a heap-only update, and counts them."""
    store = Store.open(emptied_dsn)
    keys = Keys(store)
    held = [begun(keys, f"key-{number}") for number in range(16)]
    rows = [row_of(item(Finish(one, stored(MADE, frozenset()), None), bytes.hex)) for one in held]

    def phase(tx: Tx) -> list[tuple[int, int]]:
        assert len(tx.many_rows(WRITE, rows, lease_us=1, expires_us=1)) == len(held)
        return tx._execute(UPDATED, {}).fetchall()

    updated = store.atomic(phase)
    store.close()
    assert updated == [(len(held), len(held))]


@pytest.mark.parametrize("key", ["plain", 'a "quoted" one', "back\\slash", "a/b", "ключ 🔑", "\x7e", "it's"])
def test_the_journal_names_a_key_alike_however_it_was_finished(store: Store, key: str) -> None:
    keys = Keys(store)
    finish(keys, begun(keys, key), together=True)
    with store.database.transaction(write=False) as execute:
        subjects = execute("SELECT subject FROM holdfast_journal WHERE verb = 'key.finished'", {}).fetchall()
    assert [subject for (subject,) in subjects] == [canonical_list("t", "pay", key)]
