"""An upload as it arrives: a multipart form, read piece by piece into a file that has no name.

Always true: no more of the file than the limit is ever on disk, and whatever happens, nothing of it stays there: the
spool has no name in any folder, so not even a killed process leaves it behind.
"""

from __future__ import annotations

import tempfile
from asyncio import timeout, to_thread
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from holdfast.catalog import Failure, Fault
from holdfast.http import EDGE_FAULTS
from holdfast_systems.conversion.faults import IO_ERROR, NOT_PDF
from holdfast_systems.conversion.model import (
    DEFAULT_MAPPING,
    MAPPING_SHAPE,
    PDF_MARK_WITHIN_BYTES,
    Received,
    clean_file_name,
    is_pdf,
)

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FORM_BYTES_MAX = 65_536
"""What a form may have besides its file."""
PARTS_MAX = 16
FIELD_BYTES_MAX = 1_024
NAME_WAIT_S = 2.0
"""Maximum time to wait for the name of a file that announces too many bytes: its refusal is shown under that name."""
FLUSH_BYTES = 1_048_576
"""Number of bytes that are gathered before they are written."""


class Refused(Exception):
    """The upload is refused, with what is known about it: the failure, and the facts of its row."""

    def __init__(self, failure: Failure, *, file_name: str, mapping: str, size: int, digest: str) -> None:
        super().__init__(failure.code)
        self.failure = failure
        self.facts = {"file_name": file_name, "mapping": mapping, "bytes": size, "sha256": digest}


async def receive(
    pieces: AsyncIterator[bytes],
    content_type: str,
    *,
    spool: Path,
    limit: int,
    large: Fault,
    announced: int | None = None,
) -> Received:
    """The form's file, whole and found to be a PDF; the caller closes it.

    Args:
        announced: how many bytes the whole form says that it has.

    Raises:
        Failure: VALIDATION_ERROR for a form that is not one.
        Refused: TOO_LARGE as soon as the limit is passed, NOT_PDF, or IO_ERROR because the spool cannot be written.
    """
    form = _Form(content_type, limit=limit, large=large)
    if announced is not None and announced > limit + FORM_BYTES_MAX:
        await _read_name(form, pieces)
        form.bytes = announced
        raise form.refused(large(bytes_max=limit))
    file = await to_thread(_spool, form, spool)
    try:
        async for piece in pieces:
            form.feed(piece)
            if form.gathered >= FLUSH_BYTES:
                await to_thread(_flush, form, file)
        form.end()
        await to_thread(_flush, form, file)
        form.check()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return Received(
        file=file, file_name=form.file_name, mapping=form.mapping, bytes=form.bytes, sha256=form.hash.hexdigest()
    )


@dataclass(slots=True)
class _Part:
    """One part of the form, while it arrives."""

    headers: dict[str, bytes] = field(default_factory=dict)
    header_name: bytes = b""
    header_value: bytes = b""
    name: str = ""
    is_file: bool = False
    value: bytearray = field(default_factory=bytearray)


class _Form:
    """What has been read of the form so far."""

    def __init__(self, content_type: str, *, limit: int, large: Fault) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise _invalid("file", "required", "Send the file as multipart/form-data")
        self._limit = limit
        self._large = large
        self._fed = 0
        self._parts = 0
        self._part = _Part()
        self.has_file = False
        self._ended = False
        self._pending: list[bytes] = []
        self.gathered = 0
        self.beginning = b""
        self.bytes = 0
        self.hash = sha256()
        self.file_name = clean_file_name("")
        self.mapping = DEFAULT_MAPPING
        try:
            self._parser = MultipartParser(options[b"boundary"], self._callbacks())
        except FormParserError:
            raise _invalid("file", "format", "The form cannot be read") from None

    def feed(self, piece: bytes) -> None:
        """Read on.

        Raises:
            Failure: VALIDATION_ERROR.
            Refused: TOO_LARGE.
        """
        self._fed += len(piece)
        try:
            self._parser.write(piece)
        except FormParserError:
            raise _invalid("file", "format", "The form cannot be read") from None
        if self._fed > self._limit + FORM_BYTES_MAX:
            raise self.refused(self._large(bytes_max=self._limit))

    def end(self) -> None:
        """The body is over.

        Raises:
            Failure: VALIDATION_ERROR, because the form was cut off or has no file.
        """
        if not self._ended:
            raise _invalid("file", "format", "The form ends too early")
        if not self.has_file:
            raise _invalid("file", "required", "Field required")
        if not MAPPING_SHAPE.match(self.mapping):
            raise _invalid("mapping", "pattern", "Small letters, digits, dash and underscore; at most 40")

    def check(self) -> None:
        """Whether the file is a PDF.

        Raises:
            Refused: NOT_PDF.
        """
        if not is_pdf(self.beginning):
            raise self.refused(NOT_PDF())

    def refused(self, failure: Failure) -> Refused:
        """The refusal of this upload."""
        return Refused(
            failure, file_name=self.file_name, mapping=self.mapping, size=self.bytes, digest=self.hash.hexdigest()
        )

    def take(self) -> list[bytes]:
        """What has been gathered since the last time and is worth keeping."""
        taken, self._pending, self.gathered = self._pending, [], 0
        # What is not a PDF is read to its end, so that the client hears the answer, but it is not kept.
        return taken if is_pdf(self.beginning) else []

    def _callbacks(self) -> MultipartCallbacks:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._data,
            "on_part_end": self._part_end,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise _invalid("file", "max_length", f"At most {PARTS_MAX} parts")
        self._part = _Part()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._part.header_name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._part.header_value += data[start:end]

    def _header_end(self) -> None:
        part = self._part
        part.headers[part.header_name.decode("latin-1").lower()] = part.header_value
        part.header_name = part.header_value = b""

    def _headers_finished(self) -> None:
        part = self._part
        _, options = parse_options_header(part.headers.get("content-disposition", b""))
        part.name = options.get(b"name", b"").decode("utf-8", "replace")
        part.is_file = part.name == "file"
        if not part.is_file:
            return
        if self.has_file:
            raise _invalid("file", "max_length", "One file for each upload")
        self.has_file = True
        self.file_name = clean_file_name(options.get(b"filename", b"").decode("utf-8", "replace"))

    def _data(self, data: bytes, start: int, end: int) -> None:
        part = self._part
        piece = data[start:end]
        if part.is_file:
            self._take(piece)
        elif len(part.value) + len(piece) > FIELD_BYTES_MAX:
            raise _invalid(part.name or "field", "max_length", f"At most {FIELD_BYTES_MAX} bytes")
        else:
            part.value += piece

    def _take(self, piece: bytes) -> None:
        self.bytes += len(piece)
        if self.bytes > self._limit:
            raise self.refused(self._large(bytes_max=self._limit))
        self.hash.update(piece)
        if len(self.beginning) < PDF_MARK_WITHIN_BYTES:
            self.beginning += piece[: PDF_MARK_WITHIN_BYTES - len(self.beginning)]
        self._pending.append(piece)
        self.gathered += len(piece)

    def _part_end(self) -> None:
        if self._part.name == "mapping":
            self.mapping = bytes(self._part.value).decode("utf-8", "replace").strip() or DEFAULT_MAPPING

    def _end(self) -> None:
        self._ended = True


async def _read_name(form: _Form, pieces: AsyncIterator[bytes]) -> None:
    """Read as far as the name of the file, if it comes soon."""
    with suppress(TimeoutError, Failure, Refused):
        async with timeout(NAME_WAIT_S):
            async for piece in pieces:
                form.feed(piece)
                if form.has_file:
                    return


def _spool(form: _Form, folder: Path) -> BinaryIO:
    with _storing(form):
        return cast("BinaryIO", tempfile.TemporaryFile(dir=folder))


def _flush(form: _Form, file: BinaryIO) -> None:
    with _storing(form):
        file.writelines(form.take())
        file.flush()


@contextmanager
def _storing(form: _Form) -> Iterator[None]:
    """Work on the spool.

    Raises:
        Refused: IO_ERROR.
    """
    try:
        yield
    except OSError as broken:
        failure = IO_ERROR(reason=type(broken).__name__)
        failure.__cause__ = broken
        raise form.refused(failure) from broken


def _invalid(field_name: str, constraint: str, message: str) -> Failure:
    errors = [{"field": field_name, "constraint": constraint, "message": message}]
    return EDGE_FAULTS["VALIDATION_ERROR"](errors=errors, total_errors=1)
