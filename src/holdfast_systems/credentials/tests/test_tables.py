"""Reading costs the same however much has been processed."""

from __future__ import annotations

from pathlib import Path

from holdfast.store import Store
from holdfast_systems.credentials import tables


def test_the_latest_events_are_found_by_their_time_and_not_by_sorting_all(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'plan.db'}")
    store.migrate()
    tables.prepare(store)
    text = store._statements["credentials.latest"].text
    asked = {"platform": "p", "count": 10}
    rows = store.atomic(lambda tx: tx._execute(f"EXPLAIN QUERY PLAN {text}", asked).fetchall(), write=False)
    store.close()
    steps = [row[3] for row in rows]
    assert "credentials_processed_event_time" in steps[0]
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps
