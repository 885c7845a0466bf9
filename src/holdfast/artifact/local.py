"""Artifacts in a folder of this machine.

Content is written to a staging folder and flushed to the disk, then linked to its name: a link appears whole or not at
all, and never over something else. What a killed process left behind lies in the staging folder only.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from holdfast.artifact.content import PIECE_BYTES
from holdfast.artifact.entries import Entry
from holdfast.artifact.faults import ARTIFACT_NOT_FOUND, STORAGE_UNAVAILABLE
from holdfast.artifact.local_paths import MAKE, LinkMet, check_file, open_file, opened_folder
from holdfast.artifact.naming import STAGING, checked_name
from holdfast.artifact.presign import Signer
from holdfast.artifact.storage_errors import storage_errors
from holdfast.base import new_id
from holdfast.base.private_files import FILE_MODE
from holdfast.catalog.failure import Failure

COMMIT_TRIES = 16
"""How often a folder may be removed, because it was empty, just before something is linked into it."""


@dataclass(frozen=True, slots=True)
class _StagedFile:
    root: str
    staging: int
    part: str

    def commit(self, name: str) -> bool:
        *parents, last = name.split("/")
        for _ in range(COMMIT_TRIES):
            with storage_errors(name), suppress(FileNotFoundError), opened_folder(self.root, parents, make=True) as to:
                created = self._linked(last, to)
                # Also when another's link is there: it is an answer only when it will still be there after a crash.
                os.fsync(to)
                return created
        raise STORAGE_UNAVAILABLE(name=name)

    def _linked(self, last: str, to: int) -> bool:
        try:
            os.link(self.part, last, src_dir_fd=self.staging, dst_dir_fd=to, follow_symlinks=False)
        except FileExistsError:
            if stat.S_ISDIR(os.stat(last, dir_fd=to, follow_symlinks=False).st_mode):
                raise IsADirectoryError(errno.EISDIR, "a folder stands there", last) from None
            return False
        return True


class _Pieces:
    """The content of an open file, piece by piece."""

    def __init__(self, name: str, file: io.FileIO) -> None:
        self._name = name
        self._file = file

    def __iter__(self) -> _Pieces:
        return self

    def __next__(self) -> bytes:
        with storage_errors(self._name):
            piece = self._file.read(PIECE_BYTES)
        if not piece:
            raise StopIteration
        return piece

    def close(self) -> None:
        self._file.close()


class LocalBackend:
    """A folder; several processes may use it at once."""

    signer: Signer | None = None
    prefix = ""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        with storage_errors(""), opened_folder(self._root, (), make=True):
            pass

    @contextmanager
    def staged(self, name: str, pieces: Iterable[bytes | memoryview]) -> Iterator[_StagedFile]:
        part = f"{new_id()}.part"
        with _folder(self._root, (STAGING,), name) as staging:
            with storage_errors(name):
                file = os.open(part, MAKE, FILE_MODE, dir_fd=staging)
            try:
                # Tells a sweep that the writer lives; the kernel lets go of it when the writer dies.
                fcntl.flock(file, fcntl.LOCK_EX)
                for piece in pieces:
                    with storage_errors(name):
                        _write(file, piece)
                with storage_errors(name):
                    os.fsync(file)
                yield _StagedFile(self._root, staging, part)
            finally:
                with suppress(OSError):
                    os.unlink(part, dir_fd=staging)
                os.close(file)

    def head(self, name: str) -> Entry:
        *parents, last = name.split("/")
        with storage_errors(name), opened_folder(self._root, parents, make=False) as folder:
            return _entry(name, check_file(folder, last))

    def read(self, name: str) -> tuple[Entry, _Pieces]:
        *parents, last = name.split("/")
        with storage_errors(name), opened_folder(self._root, parents, make=False) as folder:
            file = open_file(folder, last)
            return _entry(name, os.fstat(file.fileno())), _Pieces(name, file)

    def delete(self, name: str) -> None:
        parts = name.split("/")
        try:
            with storage_errors(name), opened_folder(self._root, parts[:-1], make=False) as folder:
                check_file(folder, parts[-1])
                os.unlink(parts[-1], dir_fd=folder)
                os.fsync(folder)
        except Failure as failure:
            if failure.code != ARTIFACT_NOT_FOUND.code:
                raise
        else:
            self._prune(parts[:-1])

    def _prune(self, parents: list[str]) -> None:
        """Remove the folders that this left empty, innermost first."""
        for depth in range(len(parents), 0, -1):
            try:
                with opened_folder(self._root, parents[: depth - 1], make=False) as folder:
                    os.rmdir(parents[depth - 1], dir_fd=folder)
            except OSError:
                return  # not empty, or gone already

    def entries(self, prefix: str, after: str | None) -> Iterator[Entry]:
        with storage_errors(prefix):
            yield from self._below(prefix.split("/") if prefix else [], after)

    def _below(self, parts: list[str], after: str | None) -> Iterator[Entry]:
        for name, status in self._listed(parts, after):
            if status is None:
                yield from self._below([*parts, name], after)
            else:
                yield _entry("/".join((*parts, name)), status)

    def _listed(self, parts: list[str], after: str | None) -> list[tuple[str, os.stat_result | None]]:
        """Files with their status and folders without, in the order that whole names have in an object store."""
        found: list[tuple[str, os.stat_result | None]] = []
        try:
            with opened_folder(self._root, parts, make=False) as folder, os.scandir(folder) as listing:
                for item in listing:
                    with suppress(FileNotFoundError):
                        status = item.stat(follow_symlinks=False)
                        if _is_ours("/".join((*parts, item.name)), status, after):
                            found.append((item.name, None if stat.S_ISDIR(status.st_mode) else status))
        except (FileNotFoundError, LinkMet):
            return []
        return sorted(found, key=lambda one: f"{one[0]}/" if one[1] is None else one[0])

    def sweep(self, before_us: int) -> int:
        swept = 0
        with (
            storage_errors(""),
            suppress(FileNotFoundError),
            opened_folder(self._root, (STAGING,), make=False) as staging,
        ):
            for part in os.listdir(staging):
                with suppress(FileNotFoundError, BlockingIOError, LinkMet):
                    swept += _swept(staging, part, before_us)
        return swept


@contextmanager
def _folder(root: str, parts: tuple[str, ...], name: str) -> Iterator[int]:
    """As `opened_folder`, with errors of the opening alone as failures: what the block raises may be the caller's."""
    opening = opened_folder(root, parts, make=True)
    with storage_errors(name):
        folder = opening.__enter__()
    try:
        yield folder
    finally:
        opening.__exit__(None, None, None)


def _write(file: int, piece: bytes | memoryview) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(file, rest) :]


def _entry(name: str, status: os.stat_result) -> Entry:
    return Entry(name, status.st_size, status.st_mtime_ns // 1_000)


def _is_ours(name: str, status: os.stat_result, after: str | None) -> bool:
    """Whether an artifact, or a folder that may hold one, stands there and comes after the given name."""
    try:
        ours = checked_name(name) == name
    except Failure:
        return False
    if stat.S_ISDIR(status.st_mode):
        below = f"{name}/"
        return ours and (after is None or below > after or after.startswith(below))
    return ours and stat.S_ISREG(status.st_mode) and (after is None or name > after)


def _swept(staging: int, part: str, before_us: int) -> bool:
    with open_file(staging, part) as file:
        if os.fstat(file.fileno()).st_mtime_ns // 1_000 >= before_us:
            return False
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # refused while its writer lives
        os.unlink(part, dir_fd=staging)
        return True
