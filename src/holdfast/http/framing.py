"""Where an HTTP/1.1 reply begins and ends, and whether its framing can be believed. Pure: bytes in, bytes out.

aiohttp's parser reads the reply itself. What it makes of surplus bytes, of a transfer coding that it does not know and
of a broken chunk depends on how the bytes were cut into packets; so it is given the bytes of exactly one reply. Always
true: the same bytes have the same outcome, wherever they are cut.
"""

from __future__ import annotations

import re

HEAD_BYTES_MAX = 262_144
"""A longer head is given to the parser as it is, which refuses it."""
LINE_BYTES_MAX = 4_096
"""The line with the size of a chunk, and each line of a trailer."""
TRAILER_BYTES_MAX = 65_536

_BEGINNING = b"HTTP/1."
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/1\.[0-9] ([0-9]{3})(?![0-9])")
_LENGTHS = re.compile(rb"\r?\ncontent-length[ \t]*:([^\r\n]*)", re.IGNORECASE)
_CODINGS = re.compile(rb"\r?\ntransfer-encoding[ \t]*:([^\r\n]*)", re.IGNORECASE)
_DIGITS = re.compile(rb"[0-9]{1,18}\Z")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_SIZE_BEGUN = re.compile(rb"(?:[0-9A-Fa-f]{1,15}[ \t]*(?:;[^\r\n]*)?\r?)?\Z")
_EMPTY = frozenset({204, 304})


class Misframed(Exception):
    """The reply cannot be told from what follows it."""


class Framer:
    """The frame of one reply, and of the informational ones before it."""

    __slots__ = ("_buffer", "_left", "_step", "closing", "done", "head", "head_only", "raw", "until_end")

    def __init__(self, *, head_only: bool) -> None:
        self.head_only = head_only
        """The request was a HEAD: whatever the reply announces, no body follows."""
        self._buffer = b""
        self._left = 0
        self._step = self._in_head
        self.head = False
        """Whether the head of the final reply has passed."""
        self.done = False
        self.raw = False
        """It is not HTTP/1.1, or something else from here on: all is passed on as it is."""
        self.until_end = False
        """The body ends with the connection."""
        self.closing = False
        """More may follow than belongs to the reply: the connection is not used again."""

    @property
    def held(self) -> bytes:
        """What has been kept back because it is not complete."""
        return self._buffer

    def feed(self, data: bytes) -> tuple[bytes, Misframed | None]:
        """The bytes of the reply, and what is wrong with those after them."""
        if self._unframed() or (self._left > len(data) and not self._buffer and self._step == self._in_body):
            self._left -= len(data)  # most of a large body; nothing else in it is to be found
            return data, None
        self._buffer += data
        passed: list[bytes] = []
        try:
            while self._buffer and not self.done:
                part = self._step()
                if part is None:
                    break
                passed.append(part)
                if self._unframed():
                    passed.append(self._taken(len(self._buffer)))
                    break
        except Misframed as wrong:
            return b"".join(passed), wrong
        if self.done and self._buffer:
            self.closing = True
            self._buffer = b""
        return b"".join(passed), None

    def _unframed(self) -> bool:
        return self.raw or self.until_end

    def _taken(self, count: int) -> bytes:
        part, self._buffer = self._buffer[:count], self._buffer[count:]
        return part

    def _in_head(self) -> bytes | None:
        begun = len(self._buffer)
        if self._buffer[: len(_BEGINNING)] != _BEGINNING[:begun]:
            self.raw = True
            return b""
        end = _HEAD_END.search(self._buffer)
        if end is None:
            self.raw = begun > HEAD_BYTES_MAX
            return b"" if self.raw else None
        status = _STATUS.match(self._buffer)
        if status is None:
            self.raw = True
            return b""
        head = self._taken(end.end())
        return self._framed(head, int(status[1]))

    def _framed(self, head: bytes, status: int) -> bytes:
        """The head as the parser is to read it; says what follows."""
        if status == 101:
            self.raw = True
            return head
        if status < 100:
            raise Misframed("status")
        if status < 200:
            return head
        lengths = [value.strip() for line in _LENGTHS.findall(head) for value in line.split(b",")]
        codings = [value.strip().lower() for line in _CODINGS.findall(head) for value in line.split(b",")]
        if codings not in ([], [b"chunked"]) or (codings and lengths):
            raise Misframed("transfer-encoding")
        if len(set(lengths)) > 1 or not all(_DIGITS.match(length) for length in lengths):
            raise Misframed("content-length")
        self.head = True
        if self.head_only or status in _EMPTY:
            self.done = True
            announced = bool(codings) or any(int(length) for length in lengths)
            self.closing = announced and not self.head_only and status == 204
        elif codings:
            self._step = self._in_size
        elif lengths:
            self._left = int(lengths[0])
            self._step = self._in_body
            self.done = self._left == 0
        else:
            self.until_end = True
        return _with_one_length(head, lengths[0]) if len(lengths) > 1 else head

    def _in_body(self) -> bytes:
        part = self._taken(self._left)
        self._left -= len(part)
        self.done = self._left == 0
        return part

    def _in_size(self) -> bytes | None:
        size = _SIZE.match(self._buffer)
        if size is None:
            if len(self._buffer) > LINE_BYTES_MAX or not _SIZE_BEGUN.match(self._buffer):
                raise Misframed("chunk size")
            return None
        self._left = int(size[1], 16)
        self._step = self._in_chunk if self._left else self._in_trailer
        if not self._left:
            self._left = TRAILER_BYTES_MAX
        return self._taken(size.end())

    def _in_chunk(self) -> bytes:
        part = self._taken(self._left)
        self._left -= len(part)
        if self._left == 0:
            self._step = self._after_chunk
        return part

    def _after_chunk(self) -> bytes | None:
        if not b"\r\n".startswith(self._buffer[:2]):
            raise Misframed("chunk end")
        if len(self._buffer) < 2:
            return None
        self._step = self._in_size
        return self._taken(2)

    def _in_trailer(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > LINE_BYTES_MAX:
                raise Misframed("trailer")
            return None
        self._left -= end
        if self._left < 0:
            raise Misframed("trailer")
        self.done = end == 0
        return self._taken(end + 2)


def _with_one_length(head: bytes, length: bytes) -> bytes:
    """The head with one Content-Length instead of several that say the same."""
    ending = b"\r\n" if head.endswith(b"\r\n") else b"\n"
    return _LENGTHS.sub(b"", head)[: -len(ending)] + b"Content-Length: " + length + ending * 2
