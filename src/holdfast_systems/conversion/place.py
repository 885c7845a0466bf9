"""Where the gateway is: at the address that was set, or in a process of our own."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base import Secret
from holdfast.base.private_files import make_folder

if TYPE_CHECKING:
    from holdfast_systems.conversion.gateway import Gateway

PLACES_MAX = 64
"""Maximum number of processes of one machine that each have a gateway in the same folder."""


class Place:
    """The gateway's address. Our own process is started by the first call that needs it, and ended by `stop`."""

    def __init__(self, address: str, folder: Path, *, bytes_max: int, switchable: bool) -> None:
        self._given = address.rstrip("/")
        self._folder = folder
        self._bytes_max = bytes_max
        self._switchable = switchable
        self._lock = threading.Lock()
        self._gateway: Gateway | None = None
        self._held = -1

    @property
    def own(self) -> bool:
        """Whether the gateway is a process of ours."""
        return not self._given

    def address(self) -> str:
        """Where to call; no slash at the end.

        Raises:
            RuntimeError: our own gateway did not start.
        """
        if self._given:
            return self._given
        with self._lock:
            if self._gateway is None:
                self._gateway = self._started()
            return self._gateway.address

    def token(self) -> Secret:
        """What the switches of our own gateway ask for."""
        with self._lock:
            return Secret("") if self._gateway is None else self._gateway.token

    def start(self) -> None:
        """Make sure that there is a gateway."""
        self.address()

    def stop(self) -> None:
        """End our own process; one that runs elsewhere is left alone."""
        with self._lock:
            gateway, self._gateway = self._gateway, None
            if gateway is not None:
                gateway.stop()
                os.close(self._held)

    def _started(self) -> Gateway:
        from holdfast_systems.conversion.gateway import GatewayLimits, start_gateway

        folder, self._held = _free_place(self._folder)
        return start_gateway(folder, limits=GatewayLimits(bytes_max=self._bytes_max), faults=self._switchable)


def _free_place(folder: Path) -> tuple[Path, int]:
    """A folder that no other process uses, and the lock that says so; the kernel opens it when this process dies."""
    for number in range(1, PLACES_MAX + 1):
        place = folder / str(number)
        make_folder(place)
        lock = os.open(place / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        else:
            return place, lock
    raise RuntimeError(f"{PLACES_MAX} processes have a gateway in {folder} already; give them one address instead")
