"""Artifacts: files that are written once, under names that follow from what they are.

Always true: an artifact is whole or not there, it never changes, and putting the same content again is a success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from holdfast.artifact.backend import Backend, Staged
from holdfast.artifact.content import Content, Measured, pieces_of
from holdfast.artifact.entries import Entry, Page, Stored
from holdfast.artifact.faults import (
    ARTIFACT_CONFLICT,
    ARTIFACT_NOT_FOUND,
    ARTIFACT_TOO_LARGE,
    PRESIGN_UNSUPPORTED,
    STORAGE_UNAVAILABLE,
)
from holdfast.artifact.location import BYTES_MAX, Scheme, read_location
from holdfast.artifact.naming import checked_name, checked_prefix
from holdfast.artifact.presign import Credentials, Presigned, Signer
from holdfast.artifact.stream import Stream
from holdfast.base import limits, now_us
from holdfast.catalog.failure import Failure

T = TypeVar("T")

WHOLE_BYTES_MAX = 64 * 1_048_576
"""What `get` takes into memory at once; larger artifacts are streamed."""
COMMIT_TRIES = 3
"""How often an artifact may be deleted just after it stood in the way."""
STALE_S = 86_400.0
PRESIGNED_S = 900
PRUNED_MAX = 1_000


class Artifacts:
    """The artifacts of one storage; safe to use from many threads and processes."""

    def __init__(self, backend: Backend, *, bytes_max: int = BYTES_MAX) -> None:
        self._backend = backend
        self._bytes_max = bytes_max

    @classmethod
    def open(
        cls, url: str | None = None, *, bytes_max: int | None = None, credentials: Credentials | None = None
    ) -> Artifacts:
        """Open a folder, `file:///…`, `s3://…`, `gs://…` or `memory://`; without one, `HOLDFAST_ARTIFACTS` or a folder.

        Args:
            bytes_max: the largest artifact; without it, the address decides.
            credentials: the keys of S3, whatever the address and the environment of the process say.

        Raises:
            LocationInvalid: the URL names no storage, or one that takes no such keys.
            ObstoreMissing: the storage needs a package that is not installed.
        """
        location = read_location(url, credentials=credentials)
        bytes_max = location.bytes_max if bytes_max is None else bytes_max
        if location.scheme is Scheme.FILE:
            from holdfast.artifact.local import LocalBackend

            return cls(LocalBackend(location.folder), bytes_max=bytes_max)
        from holdfast.artifact.objects import ObjectBackend

        return cls(ObjectBackend.at(location), bytes_max=bytes_max)

    # -- in ------------------------------------------------------------------------------------------------------

    def put(self, name: str, content: Content, *, bytes_max: int | None = None) -> Stored:
        """Store the content under the name, unless the same content is there already.

        Raises:
            Failure: ARTIFACT_CONFLICT when other content is there; ARTIFACT_TOO_LARGE, STORAGE_FULL,
                STORAGE_UNAVAILABLE, STORAGE_REFUSED or ARTIFACT_NAME_INVALID. In each case nothing is left behind.
                What an iterable or a file raises is raised as it is.
        """
        name = checked_name(name)
        with pieces_of(content) as pieces:
            measured = Measured(name, pieces, bytes_max=self._cap(bytes_max))
            with self._backend.staged(name, measured) as staged:
                created = self._committed(name, staged, measured)
        return Stored(name, measured.sha256, measured.bytes, created)

    def presign_put(
        self, name: str, *, bytes: int, content_type: str = "application/octet-stream", expires_s: int = PRESIGNED_S
    ) -> Presigned:
        """A request with which a client stores exactly this many bytes of this type, if nothing is there yet.

        Raises:
            Failure: PRESIGN_UNSUPPORTED where the storage cannot limit an upload, ARTIFACT_TOO_LARGE.
        """
        name = checked_name(name)
        if not 0 <= bytes <= self._bytes_max:
            raise ARTIFACT_TOO_LARGE(name=name, bytes_max=self._bytes_max)
        headers = {"Content-Length": str(bytes), "Content-Type": _header(content_type), "If-None-Match": "*"}
        return self._signer().sign("PUT", self._key(name), expires_s=expires_s, headers=headers)

    # -- out -----------------------------------------------------------------------------------------------------

    def get(self, name: str, *, bytes_max: int = WHOLE_BYTES_MAX, sha256: str | None = None) -> bytes:
        """The whole content.

        Raises:
            Failure: ARTIFACT_NOT_FOUND; ARTIFACT_TOO_LARGE when it is better streamed; ARTIFACT_DAMAGED when it has
                another hash than expected; STORAGE_UNAVAILABLE or STORAGE_REFUSED.
        """
        with self.open_stream(name, sha256=sha256) as stream:
            if stream.entry.bytes > bytes_max:
                raise ARTIFACT_TOO_LARGE(name=stream.entry.name, bytes_max=bytes_max)
            return b"".join(stream)

    def open_stream(self, name: str, *, sha256: str | None = None) -> Stream:
        """The content piece by piece; use it in a `with` block.

        Raises:
            Failure: ARTIFACT_NOT_FOUND, STORAGE_UNAVAILABLE or STORAGE_REFUSED.
        """
        entry, pieces = self._backend.read(checked_name(name))
        return Stream(entry, pieces, sha256=sha256)

    def presign_get(
        self, name: str, *, expires_s: int = PRESIGNED_S, content_type: str = "", filename: str = ""
    ) -> Presigned:
        """A request with which a client reads the artifact, answered with this type and as a download of this name.

        Raises:
            Failure: PRESIGN_UNSUPPORTED where the storage has no such thing.
        """
        query = {"response-content-type": _header(content_type), "response-content-disposition": _download(filename)}
        asked = {parameter: value for parameter, value in query.items() if value}
        return self._signer().sign("GET", self._key(checked_name(name)), expires_s=expires_s, query=asked)

    # -- about ---------------------------------------------------------------------------------------------------

    def head(self, name: str) -> Entry:
        """Size and age, without the content.

        Raises:
            Failure: ARTIFACT_NOT_FOUND, STORAGE_UNAVAILABLE or STORAGE_REFUSED.
        """
        return self._backend.head(checked_name(name))

    def exists(self, name: str) -> bool:
        """Whether there is such an artifact."""
        return _unless_missing(lambda: self.head(name)) is not None

    def measure(self, name: str) -> Stored:
        """Read the artifact through and tell its size and hash, for example after a client's own upload."""
        with self.open_stream(name) as stream:
            for _ in stream:
                pass
            return Stored(stream.entry.name, stream.sha256, stream.bytes, created=False)

    def page(self, prefix: str = "", *, after: str | None = None, count: int | None = None) -> Page:
        """Up to `count` artifacts below the prefix, which is a whole part of a name or several."""
        rows_max = limits().page_rows_max
        count = rows_max if count is None else max(1, min(count, rows_max))
        found = tuple(islice(self._entries(prefix, after), count + 1))
        return Page(found[:count], found[count - 1].name if len(found) > count else None)

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """All artifacts below the prefix, fetched as they are asked for."""
        return self._entries(prefix, None)

    # -- away ----------------------------------------------------------------------------------------------------

    def delete(self, name: str) -> None:
        """Make sure that there is no such artifact; it is not an error when there was none."""
        self._backend.delete(checked_name(name))

    def prune(self, prefix: str = "", *, older_than_s: float, count: int = PRUNED_MAX) -> int:
        """Delete up to `count` artifacts below the prefix that are older than that; tells how many."""
        before_us = now_us() - round(older_than_s * 1_000_000)
        old = islice((entry.name for entry in self.list(prefix) if entry.modified_us < before_us), count)
        names = tuple(old)  # listing and deleting at once is not defined everywhere
        for name in names:
            self._backend.delete(name)
        return len(names)

    def sweep(self, *, older_than_s: float = STALE_S) -> int:
        """Delete what interrupted puts left in the staging area longer ago than that; tells how many."""
        return self._backend.sweep(now_us() - round(older_than_s * 1_000_000))

    # -- from coroutines -----------------------------------------------------------------------------------------

    async def run_async(self, work: Callable[[Artifacts], T]) -> T:
        """The one door for coroutines: `await artifacts.run_async(lambda a: a.get(name))` runs it in a thread."""
        import asyncio

        return await asyncio.to_thread(work, self)

    # -- inside --------------------------------------------------------------------------------------------------

    def _committed(self, name: str, staged: Staged, measured: Measured) -> bool:
        for _ in range(COMMIT_TRIES):
            if staged.commit(name):
                return True
            agrees = _unless_missing(lambda: self._agrees(name, measured))
            if agrees is not None:
                if not agrees:
                    raise ARTIFACT_CONFLICT(name=name, reason="other content is there")
                return False
        raise STORAGE_UNAVAILABLE(name=name)  # it is being deleted and put again as fast as we look

    def _agrees(self, name: str, measured: Measured) -> bool:
        """Whether what is there has the same content; read through, because nothing else can be relied on."""
        with self.open_stream(name) as stream:
            if stream.entry.bytes != measured.bytes:
                return False
            for _ in stream:
                pass
            return stream.sha256 == measured.sha256

    def _cap(self, bytes_max: int | None) -> int:
        return self._bytes_max if bytes_max is None else min(bytes_max, self._bytes_max)

    def _entries(self, prefix: str, after: str | None) -> Iterator[Entry]:
        return self._backend.entries(checked_prefix(prefix), None if after is None else checked_name(after))

    def _signer(self) -> Signer:
        if self._backend.signer is None:
            raise PRESIGN_UNSUPPORTED(reason="only S3 with an access key has URLs with limits")
        return self._backend.signer

    def _key(self, name: str) -> str:
        return f"{self._backend.prefix}/{name}" if self._backend.prefix else name


def _unless_missing(look: Callable[[], T]) -> T | None:
    try:
        return look()
    except Failure as failure:
        if failure.code != ARTIFACT_NOT_FOUND.code:
            raise
        return None


def _header(value: str) -> str:
    """A value that can stand in a header.

    Raises:
        ValueError: it holds something else than printable ASCII.
    """
    if not value.isascii() or not value.isprintable():
        raise ValueError(f"{value!r} cannot stand in a header")
    return value


def _download(filename: str) -> str:
    """The Content-Disposition of a download, for any file name (RFC 6266)."""
    from urllib.parse import quote

    return f"attachment; filename*=UTF-8''{quote(filename, safe='')}" if filename else ""
