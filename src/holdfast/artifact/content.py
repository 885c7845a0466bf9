"""The content of an artifact on its way: in pieces, counted, capped and hashed as they pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Protocol, runtime_checkable

from holdfast.artifact.faults import ARTIFACT_TOO_LARGE

PIECE_BYTES = 262_144
"""What is in memory at a time, besides what a backend gathers for one request."""


@runtime_checkable
class Readable(Protocol):
    """An open binary file, or anything that reads like one."""

    def read(self, size: int, /) -> bytes: ...


Content = bytes | bytearray | memoryview | PathLike[str] | Readable | Iterable[bytes]
"""What can be stored: bytes, a path to a file (a `Path`, not a str), an open binary file, or pieces of bytes."""


class Measured:
    """Passes pieces on; when they have ended, tells how many bytes they had and their SHA-256."""

    def __init__(self, name: str, pieces: Iterable[bytes | memoryview], *, bytes_max: int) -> None:
        from hashlib import sha256

        self._name = name
        self._pieces = pieces
        self._bytes_max = bytes_max
        self._hash = sha256()
        self.bytes = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[bytes | memoryview]:
        """The pieces.

        Raises:
            Failure: ARTIFACT_TOO_LARGE, as soon as the limit is passed.
        """
        for piece in self._pieces:
            self.bytes += len(piece)
            if self.bytes > self._bytes_max:
                raise ARTIFACT_TOO_LARGE(name=self._name, bytes_max=self._bytes_max)
            self._hash.update(piece)
            yield piece


@contextmanager
def pieces_of(content: Content) -> Iterator[Iterator[memoryview]]:
    """The content in pieces of bounded size; a file that was opened for it is closed at the end.

    Raises:
        TypeError: the content is text, or nothing that can be stored.
    """
    if isinstance(content, bytes | bytearray | memoryview):
        yield _cut(content)
    elif isinstance(content, str):
        raise TypeError("text cannot be stored: give its bytes, or a Path to a file")
    elif isinstance(content, PathLike):
        with open(fspath(content), "rb") as file:
            yield _read(file)
    elif isinstance(content, Readable):
        yield _read(content)
    elif isinstance(content, Iterable):
        yield (part for piece in content for part in _cut(piece))
    else:
        raise TypeError(f"{type(content).__name__} cannot be stored; give bytes, a Path, a binary file or an iterable")


def _cut(piece: bytes | bytearray | memoryview) -> Iterator[memoryview]:
    if not isinstance(piece, bytes | bytearray | memoryview):
        raise TypeError(f"a piece of content is {type(piece).__name__}, not bytes")
    whole = memoryview(piece).cast("B")
    for begin in range(0, len(whole), PIECE_BYTES):
        yield whole[begin : begin + PIECE_BYTES]


def _read(file: Readable) -> Iterator[memoryview]:
    while piece := file.read(PIECE_BYTES):
        # One that reads more than it was asked for is cut like any other content.
        yield from _cut(piece)
