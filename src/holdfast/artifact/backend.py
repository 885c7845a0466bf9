"""What a storage has to do so that artifacts can be kept in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from holdfast.artifact.entries import Entry
from holdfast.artifact.presign import Signer


class Staged(Protocol):
    """Content that is complete but not visible yet."""

    def commit(self, name: str) -> bool:
        """Make it visible under the name, at one blow; False when something is there already."""
        ...


class Pieces(Protocol):
    """Content on its way out; closing lets go of it."""

    def __iter__(self) -> Iterator[bytes]: ...

    def __next__(self) -> bytes: ...

    def close(self) -> None: ...


class Backend(Protocol):
    """A storage; its errors are failures of the catalog, and names were checked before."""

    signer: Signer | None
    prefix: str
    """What stands before every name, in the keys that a signer signs for."""

    def staged(self, name: str, pieces: Iterable[bytes | memoryview]) -> AbstractContextManager[Staged]:
        """Take the content in; what was not committed when the block ends is gone."""
        ...

    def head(self, name: str) -> Entry: ...

    def read(self, name: str) -> tuple[Entry, Pieces]:
        """What is there, and its pieces."""
        ...

    def delete(self, name: str) -> None:
        """Make sure that nothing is there."""
        ...

    def entries(self, prefix: str, after: str | None) -> Iterator[Entry]:
        """All below the prefix, in an order of the storage's own, beginning after a name."""
        ...

    def sweep(self, before_us: int) -> int:
        """Delete what was staged before and never committed; tells how many."""
        ...
