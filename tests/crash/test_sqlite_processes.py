"""Many processes on one SQLite file: they wait for each other, and nobody is told that the file is locked."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.testing.processes import wait_until

from .accounts import books, make_effect_table, states
from .fleet import Fleet, all_gone

ENQUEUERS = 4
WORKERS = 3
COUNT = 400
WITHIN_S = 150.0


@pytest.mark.timeout(400)
def test_seven_processes_share_a_file_without_ever_hearing_of_its_lock(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'holdfast.db'}"
    store = Store.open(url)
    store.migrate()
    store.close()
    make_effect_table(url)
    fleet = Fleet(tmp_path, url)
    try:
        kinds = ["once", "plain"]
        files = [tmp_path / f"acknowledged-{number}" for number in range(ENQUEUERS)]
        for _ in range(WORKERS):
            fleet.worker(lease_s=60, concurrency=4)
        enqueuers = [fleet.enqueuer(file=file, count=COUNT, kinds=kinds, waits_ms=[0, 1]) for file in files]
        all_gone(enqueuers, WITHIN_S)
        wait_until(lambda: set(states(url)) == {"complete"}, within_s=WITHIN_S, what="all are complete")
        assert len(fleet.workers()) == WORKERS
        fleet.stop_workers()
        acknowledged = {line.split()[1] for file in files for line in file.read_text().splitlines()}
        said = fleet.said()
    finally:
        fleet.close()

    kept = books(url)
    assert said == ""
    assert kept.complaints() == []
    # A third of the numbers has a dedupe key: four ask for it and get the same job.
    keyed = len(range(0, COUNT, 3))
    assert len(kept.accounts) == ENQUEUERS * (COUNT - keyed) + keyed
    assert acknowledged == set(kept.accounts)
    assert {account.effects for account in kept.accounts.values()} == {1}
    assert kept.verbs == {"claimed": len(kept.accounts), "finished": len(kept.accounts)}
