"""A worker process of the conversion system: `work.py DATABASE FOLDER LEASE_S [DIES_AFTER]`, settings by environment.

With DIES_AFTER `stored` it kills itself, without a last word, in the moment in which a result has been stored and the
job is not yet complete.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from holdfast.artifact import Artifacts, Stored
from holdfast.base import Secret
from holdfast.http.system import Ground
from holdfast.store import Store
from holdfast.worker import Worker
from holdfast_systems.conversion import build

put = Artifacts.put


def put_and_die(self: Artifacts, name: str, content: Any, **said: Any) -> Stored:
    put(self, name, content, **said)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def main(database: str, folder: str, lease_s: str, dies_after: str = "") -> None:
    if dies_after == "stored":
        Artifacts.put = put_and_die  # type: ignore[method-assign]
    store = Store.open(database)
    ground = Ground(
        store=store, folder=Path(folder), address="http://localhost", token=Secret("t"), environment=dict(os.environ)
    )
    system = build(ground)
    assert system.handlers is not None
    Worker(store, system.handlers, lease_s=float(lease_s)).run()


main(*sys.argv[1:])
