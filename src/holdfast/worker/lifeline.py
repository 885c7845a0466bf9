"""The line between a parent and one of its worker processes.

The parent asks over it, the child says over it that it works. When either is gone, however that came about, the
kernel closes its end and the other one knows: no child outlives its parent unnoticed.
"""

from __future__ import annotations

import socket
from enum import Enum

READ_BYTES_MAX = 64


class Ask(Enum):
    """What a parent asks of its child."""

    STOP = b"s"
    """Finish what runs, then end."""
    LEAVE = b"l"
    """Give back what runs and end at once."""


READY = b"r"


class Lifeline:
    """One end of the line."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._end.setblocking(False)

    @classmethod
    def of_descriptor(cls, descriptor: int) -> Lifeline:
        """The child's end, as it was inherited.

        Raises:
            OSError: the number is not an open socket.
        """
        end = socket.socket(fileno=descriptor)
        # What the handlers start must not hold the line open.
        end.set_inheritable(False)
        return cls(end)

    @classmethod
    def pair(cls) -> tuple[Lifeline, socket.socket]:
        """The parent's end, and the end that the child inherits."""
        mine, theirs = socket.socketpair()
        return cls(mine), theirs

    def fileno(self) -> int:
        return self._end.fileno()

    def ask(self, what: Ask) -> None:
        """Ask it of the child; one that is gone need not answer."""
        self._send(what.value)

    def ready(self) -> None:
        """Tell the parent that this process works."""
        self._send(READY)

    def heard(self) -> bytes | None:
        """What the other end said since this was last asked; None when there is no other end any more."""
        try:
            return self._end.recv(READ_BYTES_MAX) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def close(self) -> None:
        self._end.close()

    def _send(self, said: bytes) -> None:
        try:
            self._end.send(said)
        except OSError:
            return  # its end is seen where one listens
