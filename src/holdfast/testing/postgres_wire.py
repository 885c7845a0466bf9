"""What passes between a PostgreSQL client and its server, read just far enough to know which SQL is being run.

Both the simple protocol and the extended one with prepared statements are understood. A conversation that is not
PostgreSQL's (or is encrypted) is recognised by its first bytes, and `speaks` is then false.
"""

from __future__ import annotations

from dataclasses import dataclass

PROTOCOL_3 = 3
SSL_OR_GSS_REQUEST = (80877103, 80877104)
CANCEL_REQUEST = 80877102
STARTUP_BYTES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Request:
    """What the server is asked to run once it has the bytes of the chunk up to `end`."""

    text: str
    end: int
    number: int
    """Number of answers in the conversation at which this request is answered."""


class Conversation:
    """One connection, fed with the bytes of both directions in the order in which they pass."""

    def __init__(self) -> None:
        self.speaks = True
        self.answers = 0
        """How often the server has said that it is ready for the next query."""
        self._asked = 0
        self._started = False
        self._from_client = b""
        self._from_server = b""
        self._answers_without_frame = 0
        self._statements: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._executed: list[str] = []

    def client_says(self, chunk: bytes) -> list[Request]:
        """The requests that this chunk completes."""
        if not self.speaks:
            return []
        before = len(self._from_client)
        self._from_client += chunk
        read = 0
        requests = []
        while (size := self._client_message_bytes(read)) and read + size <= len(self._from_client):
            message = self._from_client[read : read + size]
            read += size
            if not self._started:
                self._start(message)
            elif self._runs(message):
                requests += [Request(sql, read - before, self._asked) for sql in self._executed]
                self._executed = []
        self._from_client = self._from_client[read:]
        return requests

    def server_says(self, chunk: bytes) -> None:
        """Count the requests that are answered."""
        if not self.speaks:
            return
        self._from_server += chunk
        while self._answers_without_frame and self._from_server:
            self._answers_without_frame -= 1
            self._from_server = self._from_server[1:]
        while len(self._from_server) >= 5:
            size = 1 + int.from_bytes(self._from_server[1:5])
            if len(self._from_server) < size:
                return
            if self._from_server[:1] == b"Z":
                self.answers += 1
            self._from_server = self._from_server[size:]

    def _client_message_bytes(self, at: int) -> int:
        """The length of the message that begins here; 0 when it cannot be known yet."""
        skipped = 1 if self._started else 0
        length = self._from_client[at + skipped : at + skipped + 4]
        if not self.speaks or len(length) < 4:
            return 0
        size = skipped + int.from_bytes(length)
        if not self._started and not 8 <= size <= STARTUP_BYTES_MAX:
            self.speaks = False
            return 0
        return size

    def _start(self, message: bytes) -> None:
        code = int.from_bytes(message[4:8])
        if code in SSL_OR_GSS_REQUEST:
            self._answers_without_frame += 1
        elif code >> 16 == PROTOCOL_3:
            self._started = True
            self._asked += 1  # the greeting ends with a first answer
        elif code != CANCEL_REQUEST:
            self.speaks = False

    def _runs(self, message: bytes) -> bool:
        """Take note of a message; true when it makes the server run what was noted."""
        kind, body = message[:1], message[5:]
        match kind:
            case b"Q":
                self._executed.append(_text(body))
            case b"P":
                name, _, rest = body.partition(b"\0")
                self._statements[name] = _text(rest)
            case b"B":
                portal, name, *_ = body.split(b"\0", 2)
                self._portals[portal] = self._statements.get(name, "")
            case b"E":
                self._executed.append(self._portals.get(body.partition(b"\0")[0], ""))
        if kind not in (b"Q", b"S", b"F"):
            return False
        self._asked += 1
        return True


def _text(body: bytes) -> str:
    return body.partition(b"\0")[0].decode(errors="replace")
