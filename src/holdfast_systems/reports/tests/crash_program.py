"""Runs the report step and stands still at a boundary, so that it can be killed there: URL, folder, boundary."""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.base import REAL
from holdfast.store import Store

from .recorder import Recorder
from .scene import Scene


def main(url: str, folder: str, boundary: str) -> None:
    store = Store.open(url, database_clock=False)
    store.migrate()
    scene = Scene(store, Path(folder))
    scene.ready_report()
    recorder = Recorder(scene)

    def stand_still(name: str) -> None:
        # The first patch is the claim.
        if name == boundary:
            (Path(folder) / "reached").touch()
            REAL.sleep(600)

    recorder._boundary = stand_still  # type: ignore[method-assign]
    scene.event()


if __name__ == "__main__":
    main(*sys.argv[1:])
