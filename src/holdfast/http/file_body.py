"""A file as the body of a request: read while it is sent, and read anew for every attempt.

Always true: no more than one piece of it is held in memory.
"""

from __future__ import annotations

from pathlib import Path


class FileBody:
    """The bytes of a file, as many as there were when the request was made."""

    __slots__ = ("_bytes", "path")

    def __init__(self, path: Path) -> None:
        """
        Raises:
            OSError: there is no such file.
        """
        self.path = path
        self._bytes = path.stat().st_size

    def __len__(self) -> int:
        return self._bytes

    def piece(self, start: int, size: int) -> bytes:
        """The bytes from a place on, up to this many. Blocks.

        Raises:
            OSError: it cannot be read, or has become shorter than the request says.
        """
        wanted = min(size, self._bytes - start)
        with self.path.open("rb") as file:
            file.seek(start)
            found = file.read(wanted)
        if len(found) < wanted:
            raise OSError(f"{self.path} has become shorter while it was sent")
        return found
