"""The records system and its worker in one process, for tests that kill it: `serve_records.py DATABASE FOLDER PORT`."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn

from holdfast.base import Secret
from holdfast.http.front import Front, Mount
from holdfast.http.system import Ground
from holdfast.store import Store
from holdfast.worker import Worker
from holdfast_systems.records.main import build

LEASE_S = 1.0


def main(database: str, folder: str, port: str) -> None:
    store = Store.open(database)
    store.migrate()
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    system = build(
        Ground(
            store=store,
            folder=place,
            address=f"http://127.0.0.1:{port}/records",
            token=Secret("the operator's token"),
            environment={"HOLDFAST_RECORDS_IMPORT_BATCH_ROWS": "200"},
        )
    )
    assert system.handlers is not None
    system.start()
    Worker(store, system.handlers, lease_s=LEASE_S).start()
    front = Front([Mount(path="/records", app=system.parts[""])])
    uvicorn.run(front, host="127.0.0.1", port=int(port), log_level="error", lifespan="off")


if __name__ == "__main__":
    main(*sys.argv[1:])
