"""A gateway that stands still at a boundary of its first run, so that it can be killed there.

Arguments: database, folder, port, address of the control plane, address of the runner, boundary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from holdfast.base import REAL
from holdfast.store import Store
from holdfast_systems.commerce.gateway import execution, service
from holdfast_systems.commerce.gateway.runs import Runs
from holdfast_systems.commerce.main import build
from holdfast_systems.commerce.tests.live import front_of, ground

BOUNDARIES = {
    "authorize answered": ("start", "before"),
    "run started": ("start", "after"),
    "runner answered": ("answer", "before"),
    "before settle": ("answer", "after"),
    "settle answered": ("settle", "before"),
    "before the reply": ("settle", "after"),
}
"""The move of the run at which the process stands still, and on which side of it."""
LEASE_S = 2.0
"""Short, so that a test need not wait for long until the process is taken for dead."""


def main(url: str, folder: str, port: str, control_plane: str, runner: str, boundary: str) -> None:
    service.lease_s = lambda instance: LEASE_S
    execution.SETTLE_S = execution.MARGIN_S = LEASE_S / 2
    verb, side = BOUNDARIES[boundary]
    setattr(Runs, verb, stopping(getattr(Runs, verb), side, Path(folder)))
    store = Store.open(url)
    settings = {"control_plane_url": control_plane, "runner_url": runner}
    address = f"http://127.0.0.1:{port}"
    system = build(ground(store, Path(folder) / "killed", address, parts=["gateway"], settings=settings))
    uvicorn.run(front_of(system), port=int(port), log_level="error", lifespan="off")


def stopping(move: Callable[..., Any], side: str, folder: Path) -> Callable[..., Any]:
    """The move, with the place where the process stands still."""

    def stopped(*args: Any, **kwargs: Any) -> Any:
        result = move(*args, **kwargs) if side == "after" else None
        (folder / "reached").touch()
        REAL.sleep(600)
        return result

    return stopped


if __name__ == "__main__":
    main(*sys.argv[1:])
