"""What a person may do with all of their conversions at once: retry what failed, clear what is done, download the rest.

Each conversion is handled by itself, so that one that cannot be retried or is gone keeps no other from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from holdfast.base import Json, now_us
from holdfast.catalog import CORE, Failure
from holdfast.store import Store
from holdfast_systems.conversion.conversions import Conversions
from holdfast_systems.conversion.faults import EXPIRED, NOT_READY
from holdfast_systems.conversion.model import xml_file_name

MISSING = "missing.txt"
"""The entry of an archive that names the files which were gone when it was made."""
ROWS_MAX = 1_000
"""Maximum number of conversions that are handled with one request; the page shows what is left."""
NOT_FOUND, CONFLICT = CORE["NOT_FOUND"].code, CORE["CONFLICT"].code
PASSED_OVER = frozenset({NOT_READY.code, EXPIRED.code, NOT_FOUND, CONFLICT})
"""What another browser window, a worker or retention may have changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Part:
    """One result of an archive: the upload, and the name of its entry."""

    upload_id: str
    name: str


class Bulk:
    """Work on all conversions of one owner. Threads may share it; everything here blocks."""

    def __init__(self, store: Store, conversions: Conversions) -> None:
        self._store = store
        self._conversions = conversions

    def retry(self, owner: str) -> dict[str, Json]:
        """Put every failed conversion back into the queue that can be; how many were, and how many were not."""
        return self._each("conversion.retryable", owner, "retried", self._conversions.retry)

    def clear(self, owner: str) -> dict[str, Json]:
        """Delete every conversion that has ended, with its files; how many were, and how many were not."""
        return self._each("conversion.ended", owner, "deleted", self._conversions.delete)

    def parts(self, owner: str) -> list[Part]:
        """The results that can be downloaded, newest first, each under a name of its own.

        Raises:
            Failure: NOT_READY, because there is none.
        """
        rows = self._rows("conversion.downloadable", owner)
        if not rows:
            raise NOT_READY()
        taken = {MISSING}
        return [Part(upload_id, _unique(xml_file_name(file_name), taken)) for upload_id, file_name in rows]

    def archive(self, owner: str, parts: list[Part]) -> Iterator[bytes]:
        """A ZIP of these results, piece by piece.

        Raises:
            Failure: IO_ERROR; what was sent by then is not an archive.
        """
        out = _Gathered()
        missing: list[str] = []
        made_at = datetime.fromtimestamp(now_us() / 1_000_000, UTC).timetuple()[:6]
        with ZipFile(out, "w", ZIP_DEFLATED) as archive:
            for part in parts:
                try:
                    stream, _ = self._conversions.open_result(owner, part.upload_id)
                except Failure as failure:
                    if failure.code not in PASSED_OVER:
                        raise
                    missing.append(f"{part.name}: {failure.message}\n")
                    continue
                with stream, archive.open(_entry(part.name, made_at), "w") as entry:
                    for piece in stream:
                        entry.write(piece)
                        yield out.take()
            if missing:
                archive.writestr(_entry(MISSING, made_at), "".join(missing))
        yield out.take()

    def _each(self, statement: str, owner: str, verb: str, work: Callable[[str, str], object]) -> dict[str, Json]:
        done = left = 0
        for upload_id, _ in self._rows(statement, owner):
            try:
                work(owner, upload_id)
                done += 1
            except Failure as failure:
                if failure.code not in PASSED_OVER:
                    raise
                left += 1
        return {verb: done, "left": left}

    def _rows(self, statement: str, owner: str) -> list[tuple[str, str]]:
        found = self._store.atomic(lambda tx: tx.rows(statement, owner=owner, count=ROWS_MAX), write=False)
        return [(str(upload_id), str(file_name)) for upload_id, file_name in found]


class _Gathered:
    """A file that an archive is written to, and that is emptied as it grows."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, piece: bytes, /) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def flush(self) -> None:
        """There is nothing behind it."""

    def close(self) -> None:
        """There is nothing to close."""

    def take(self) -> bytes:
        """What was written since the last time."""
        taken, self._pieces = b"".join(self._pieces), []
        return taken


def _entry(name: str, made_at: tuple[int, ...]) -> ZipInfo:
    year, month, day, hour, minute, second = made_at
    info = ZipInfo(name, (year, month, day, hour, minute, second))
    info.compress_type = ZIP_DEFLATED
    return info


def _unique(name: str, taken: set[str]) -> str:
    """The name, with a number where another entry has it; archives are unpacked where letters' case may not count."""
    stem = name.removesuffix(".xml")
    number = 1
    found = name
    while found.casefold() in taken:
        number += 1
        found = f"{stem} ({number}).xml"
    taken.add(found.casefold())
    return found
