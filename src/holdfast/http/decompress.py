"""A response body as it arrives: counted, decompressed and cut at its limit.

Always true: no more than `bytes_max` bytes are ever held, neither of what came nor of what it unpacks to, so a small
body that unpacks into a huge one costs no more than any other.
"""

from __future__ import annotations

import zlib
from typing import Any, Protocol

from holdfast.catalog import Failure
from holdfast.catalog.core import INVALID_RESPONSE
from holdfast.catalog.edge_faults import RESPONSE_TOO_LARGE

MEMBERS_MAX = 64
"""A gzip body may be several in a row; nobody needs more than this."""
ASKED_WITHOUT_BROTLI = "gzip, deflate"


class Body:
    """Gathers one body; give it the value of Content-Encoding and, then, every piece."""

    def __init__(self, encoding: str, *, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._received = 0
        self._kept = 0
        self._parts: list[bytes] = []
        self._decoder = _decoder(encoding.strip().lower())

    def expect(self, declared: int | None) -> None:
        """Refuse at once what declares itself too large.

        Raises:
            Failure: RESPONSE_TOO_LARGE.
        """
        if declared is not None and declared > self._bytes_max:
            raise self._too_large()

    def add(self, piece: bytes) -> None:
        """Take the next piece.

        Raises:
            Failure: RESPONSE_TOO_LARGE, or INVALID_RESPONSE when it is not compressed as it claims.
        """
        self._received += len(piece)
        if self._received > self._bytes_max:
            raise self._too_large()
        if self._decoder is None:
            self._parts.append(piece)
            return
        try:
            for part in self._decoder.unpack(piece, self._bytes_max - self._kept):
                self._keep(part)
        except _Broken as broken:
            raise INVALID_RESPONSE(reason="content_encoding") from broken

    def whole(self) -> bytes:
        """The body.

        Raises:
            Failure: INVALID_RESPONSE, because the compressed data ends too early.
        """
        if self._decoder is not None and self._received and not self._decoder.complete:
            raise INVALID_RESPONSE(reason="content_encoding_cut")
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        self._kept += len(part)
        if self._kept > self._bytes_max:
            self._parts.clear()
            raise self._too_large()
        if part:
            self._parts.append(part)

    def _too_large(self) -> Failure:
        return RESPONSE_TOO_LARGE(bytes_max=self._bytes_max)


def asked_encodings() -> str:
    """The Accept-Encoding of a call that wants compression: what can be unpacked here within bounds."""
    return f"{ASKED_WITHOUT_BROTLI}, br" if _brotli() is not None else ASKED_WITHOUT_BROTLI


class _Broken(Exception):
    """The data is not what its encoding says."""


class _Decoder(Protocol):
    complete: bool

    def unpack(self, piece: bytes, left: int) -> list[bytes]:
        """What the piece unpacks to, stopping soon after `left` bytes."""
        ...


class _Zlib:
    """gzip, with several members, and deflate, with and without the header that it should have."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._stream: Any = None
        self._members = 0
        self.complete = True

    def unpack(self, piece: bytes, left: int) -> list[bytes]:
        parts: list[bytes] = []
        while piece and left >= 0:
            stream = self._stream or self._begin(piece)
            try:
                # One byte more than allowed is enough to know that it is too much.
                part = stream.decompress(piece, left + 1)
            except zlib.error as broken:
                raise _Broken(str(broken)) from broken
            parts.append(part)
            left -= len(part)
            self.complete = stream.eof
            # What comes after the end is the next member; what is unconsumed comes after too much, and `left` tells.
            piece = stream.unused_data if stream.eof else b""
            if stream.eof:
                self._stream = None
        return parts

    def _begin(self, piece: bytes) -> Any:
        self._members += 1
        if self._members > (MEMBERS_MAX if self._encoding == "gzip" else 1):
            raise _Broken("too many members")
        if self._encoding == "gzip":
            bits = zlib.MAX_WBITS + 16
        else:
            # The low half of the first byte tells whether the header is there.
            bits = zlib.MAX_WBITS if piece[0] & 0xF == 8 else -zlib.MAX_WBITS
        self._stream = zlib.decompressobj(bits)
        return self._stream


class _Brotli:
    def __init__(self, module: Any) -> None:
        self._module = module
        self._stream = module.Decompressor()
        self.complete = False

    def unpack(self, piece: bytes, left: int) -> list[bytes]:
        parts: list[bytes] = []
        try:
            while left >= 0:
                part = self._stream.process(piece, output_buffer_limit=left + 1)
                parts.append(part)
                left -= len(part)
                piece = b""
                if self._stream.can_accept_more_data() or self._stream.is_finished():
                    break
        except self._module.error as broken:
            raise _Broken(str(broken)) from broken
        self.complete = self._stream.is_finished()
        return parts


def _decoder(encoding: str) -> _Decoder | None:
    encoding = ", ".join(part for word in encoding.split(",") if (part := word.strip()) not in {"", "identity"})
    if not encoding:
        return None
    if encoding in {"gzip", "x-gzip"}:
        return _Zlib("gzip")
    if encoding == "deflate":
        return _Zlib("deflate")
    module = _brotli() if encoding == "br" else None
    if module is None:
        raise INVALID_RESPONSE(reason="content_encoding_unknown")
    return _Brotli(module)


def _brotli() -> Any:
    """The brotli module if it is installed and can stop in the middle, which it learnt in 1.2; else None."""
    from importlib import import_module

    try:
        brotli = import_module("brotli")
    except ImportError:
        return None
    return brotli if hasattr(brotli.Decompressor, "can_accept_more_data") else None
