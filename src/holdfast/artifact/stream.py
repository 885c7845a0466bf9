"""An artifact on its way out, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Self

from holdfast.artifact.backend import Pieces
from holdfast.artifact.entries import Entry
from holdfast.artifact.faults import ARTIFACT_DAMAGED


class Stream:
    """The pieces of one artifact, read as they are asked for; a context manager that lets go of it.

    Iterating ends normally only when all of it was read and, where a hash was expected, the hash agrees.
    """

    def __init__(self, entry: Entry, pieces: Pieces, *, sha256: str | None = None) -> None:
        from hashlib import sha256 as new_hash
        from threading import Lock

        self.entry = entry
        self.bytes = 0
        """Number of bytes that were read so far."""
        self._pieces = pieces
        self._expected = sha256
        self._hash = new_hash()
        # A thread that closes waits for a read that another thread has begun: its descriptor must stay open until then.
        self._reading = Lock()

    @property
    def sha256(self) -> str:
        """Of what was read so far, in hex."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """The next piece.

        Raises:
            Failure: ARTIFACT_DAMAGED instead of the end, or what the storage's error is.
        """
        try:
            with self._reading:
                piece = next(self._pieces)
        except StopIteration:
            self._check()
            raise
        self.bytes += len(piece)
        self._hash.update(piece)
        return piece

    def copy_to(self, file: BinaryIO) -> int:
        """Write what is left into an open file; the number of bytes."""
        before = self.bytes
        for piece in self:
            file.write(piece)
        return self.bytes - before

    def close(self) -> None:
        with self._reading:
            self._pieces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _check(self) -> None:
        expected = self._expected
        if self.bytes != self.entry.bytes or (expected is not None and expected.lower() != self.sha256):
            raise ARTIFACT_DAMAGED(name=self.entry.name)
