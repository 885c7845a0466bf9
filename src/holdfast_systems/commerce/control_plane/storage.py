"""The object store of uploads: files that clients send there themselves, by addresses that expire.

Always true: what it does takes bounded time and threads of its own, so that a storage that hangs stops nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from hmac import digest
from typing import TypeVar
from urllib.parse import urlencode

from holdfast.artifact import Artifacts, Stream, fed
from holdfast.base import Secret, now_us
from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.policy import NEVER
from holdfast_systems.commerce.faults import ALREADY_EXISTS, STORAGE_UNAVAILABLE
from holdfast_systems.commerce.faults_outside import UPLOAD_EXPIRED, UPLOAD_INCOMPLETE, UPLOAD_MISMATCH

T = TypeVar("T")

THREADS = 8
LOOK_S = 5.0
"""Maximum time of a look at a file."""
TRANSFER_S = 60.0
"""Maximum time to read or write one."""
MARK_CHARS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A file that was announced."""

    id: str
    bytes: int
    content_type: str
    expires_us: int

    @property
    def name(self) -> str:
        """Its name in the storage."""
        return f"uploads/{self.id}"


class Storage:
    """The files of uploads."""

    def __init__(self, artifacts: Artifacts, *, address: str, secret: Secret) -> None:
        """
        Args:
            address: where the control plane stands, for storages that sign no addresses of their own.
            secret: of the addresses that we sign ourselves.
        """
        self._artifacts = artifacts
        self._address = address
        self._secret = secret
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="commerce-storage")
        self._look = Link("control plane → object store", timeout_s=LOOK_S, retry=NEVER)
        self._transfer = Link("control plane → object store (files)", timeout_s=TRANSFER_S, retry=NEVER)

    def close(self) -> None:
        """Let go of the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def address_for(self, file: Announced) -> tuple[str, dict[str, str]]:
        """Where a client sends the file, and with exactly which headers.

        Raises:
            Failure: STORAGE_UNAVAILABLE when the storage would not take it now.
        """
        # Signing asks nobody: only a look tells whether the file could be sent.
        await self._run(self._look, lambda: self._artifacts.exists(file.name))
        lasting_s = max(1, (file.expires_us - now_us()) // 1_000_000)
        try:
            signed = self._artifacts.presign_put(
                file.name, bytes=file.bytes, content_type=file.content_type, expires_s=lasting_s
            )
        except Failure as unsupported:
            if unsupported.code != "PRESIGN_UNSUPPORTED":
                raise
            query = urlencode({"expires": file.expires_us, "signature": self._mark(file)})
            return f"{self._address}/uploads/{file.id}?{query}", {"Content-Type": file.content_type}
        return signed.url, dict(signed.headers)

    def check_address(self, file: Announced | None, *, expires_us: int, signature: str) -> Announced:
        """The file that an address of our own is for.

        Raises:
            Failure: UPLOAD_EXPIRED, also for one that does not exist: nobody is told which ids do.
        """
        if file is None or expires_us != file.expires_us or len(signature) > MARK_CHARS:
            raise UPLOAD_EXPIRED()
        if not Secret(self._mark(file)).matches(signature) or now_us() >= file.expires_us:
            raise UPLOAD_EXPIRED()
        return file

    async def receive(self, file: Announced, pieces: AsyncIterable[bytes]) -> None:
        """Store what a client sends to an address of our own, whole or not at all.

        Raises:
            Failure: UPLOAD_MISMATCH, ALREADY_EXISTS, STORAGE_UNAVAILABLE.
        """
        with fed(_exactly(pieces, file.bytes)) as body:
            await self._run(self._transfer, lambda: self._artifacts.put(file.name, body))

    async def check_arrived(self, file: Announced) -> None:
        """Make sure that the file is there, as announced.

        Raises:
            Failure: UPLOAD_INCOMPLETE, UPLOAD_MISMATCH, STORAGE_UNAVAILABLE.
        """
        entry = await self._run(self._look, lambda: self._artifacts.head(file.name), missing=file.id)
        if entry.bytes != file.bytes:
            raise UPLOAD_MISMATCH(reason=f"it has {entry.bytes} bytes, not {file.bytes}")

    async def read(self, file: Announced) -> bytes:
        """The whole content.

        Raises:
            Failure: UPLOAD_INCOMPLETE, STORAGE_UNAVAILABLE.
        """
        return await self._run(self._transfer, lambda: self._artifacts.get(file.name), missing=file.id)

    async def open(self, file: Announced) -> Stream:
        """The content piece by piece.

        Raises:
            Failure: UPLOAD_INCOMPLETE, STORAGE_UNAVAILABLE.
        """
        return await self._run(self._look, lambda: self._artifacts.open_stream(file.name), missing=file.id)

    async def delete(self, upload_id: str) -> None:
        """Make sure that there is no file of this upload.

        Raises:
            Failure: STORAGE_UNAVAILABLE.
        """
        await self._run(self._look, lambda: self._artifacts.delete(f"uploads/{upload_id}"))

    async def _run(self, link: Link, work: Callable[[], T], *, missing: str = "") -> T:
        async def attempt() -> T:
            return await asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, work)

        try:
            return await link.call(attempt)
        except TimeoutError as late:
            raise STORAGE_UNAVAILABLE(reason="timeout") from late
        except Failure as failure:
            if failure.code == "ARTIFACT_NOT_FOUND":
                raise UPLOAD_INCOMPLETE(uploadId=missing) from None
            if failure.code == "ARTIFACT_CONFLICT":
                raise ALREADY_EXISTS() from None
            if failure.code.startswith("STORAGE_"):
                # The address of a storage may hold its keys, so its own words stay out.
                raise STORAGE_UNAVAILABLE(reason=failure.code.lower()) from None
            raise

    def _mark(self, file: Announced) -> str:
        said = f"PUT\n{file.id}\n{file.bytes}\n{file.content_type}\n{file.expires_us}".encode()
        return digest(self._secret.reveal().encode(), said, "sha256").hex()


async def _exactly(pieces: AsyncIterable[bytes], size: int) -> AsyncIterator[bytes]:
    """The pieces, if they are exactly `size` bytes together.

    Raises:
        Failure: UPLOAD_MISMATCH as soon as that is impossible.
    """
    seen = 0
    async for piece in pieces:
        seen += len(piece)
        if seen > size:
            raise UPLOAD_MISMATCH(reason=f"it has more than {size} bytes")
        yield piece
    if seen != size:
        raise UPLOAD_MISMATCH(reason=f"it has {seen} bytes, not {size}")
