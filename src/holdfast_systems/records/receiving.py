"""A file of rows as it arrives: cut into parts and stored piece by piece, so that no file is ever in memory."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from holdfast.artifact import Artifacts
from holdfast.base import new_id
from holdfast.catalog import Failure
from holdfast_systems.records import fields
from holdfast_systems.records.import_rows import Format, count_rows, cut, read_header
from holdfast_systems.records.imports import part_name


@dataclass(slots=True)
class Received:
    """A whole file, in parts that are stored."""

    format: Format
    id: str = field(default_factory=new_id)
    header: list[str] | None = None
    bytes: int = 0
    parts: int = 0
    rows: int = 0
    hash: Any = field(default_factory=sha256)


async def receive(pieces: AsyncIterator[bytes], format: Format, artifacts: Artifacts) -> Received:
    """Store the parts of a file as they arrive; after a failure nothing of it is left.

    Raises:
        Failure: VALIDATION_ERROR for a file without rows, columns that there are not, or a row that is too long;
            the storage's own.
    """
    received, buffer = Received(format), bytearray()
    try:
        async for piece in pieces:
            buffer += piece
            while (part := cut(buffer, format, last=False)) is not None:
                await to_thread(_keep, received, part, artifacts)
        while (part := cut(buffer, format, last=True)) is not None:
            await to_thread(_keep, received, part, artifacts)
        if not received.rows:
            raise fields.refused([fields.problem("body", None, "required", "The file has no rows")])
    except BaseException:
        await to_thread(drop, received, artifacts)
        raise
    return received


def drop(received: Received, artifacts: Artifacts) -> None:
    """Delete the parts of a file that nobody needs; what cannot be deleted now is pruned later."""
    for number in range(received.parts):
        with suppress(Failure):
            artifacts.delete(part_name(received.id, number))


def _keep(received: Received, part: bytes, artifacts: Artifacts) -> None:
    first = received.parts == 0
    if first and received.format is Format.CSV:
        received.header = read_header(part)
    artifacts.put(part_name(received.id, received.parts), part)
    received.rows += count_rows(part, received.format, headed=first)
    received.parts += 1
    received.bytes += len(part)
    received.hash.update(part)
