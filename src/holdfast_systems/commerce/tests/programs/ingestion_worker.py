"""A worker of the control plane in a process of its own, to be killed.

Arguments: database, folder, settings as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast.store import Store
from holdfast.worker import Worker
from holdfast_systems.commerce.main import build
from holdfast_systems.commerce.tests.live import ground

LEASE_S = 1.0
"""Short, so that a test need not wait for long until the process is taken for dead."""


def main(url: str, folder: str, settings: str) -> None:
    store = Store.open(url)
    given = json.loads(settings)
    system = build(ground(store, Path(folder), "http://127.0.0.1:9", parts=["control-plane"], settings=given))
    assert system.handlers is not None
    worker = Worker(store, system.handlers, lease_s=LEASE_S)
    worker.start()
    worker.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
