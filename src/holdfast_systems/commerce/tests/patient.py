"""A client that keeps asking until there is an answer that counts, as a careful caller does; one for each thread."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from holdfast.base import monotonic_s

PATIENCE_S = 240.0
PAUSE_S = 0.05
ANSWER_S = 30.0
AGAIN = frozenset({429, 500, 502, 503, 504})


class Patient:
    """Sends the same request again after anything that leaves its outcome open."""

    def __init__(self) -> None:
        self._connections: dict[str, http.client.HTTPConnection] = {}
        self._pause = threading.Event()
        self.repeats = 0

    def post(
        self,
        url: str,
        body: Any,
        headers: dict[str, str],
        *,
        final: Callable[[dict[str, Any]], bool] = lambda error: False,
    ) -> Any:
        """The status and the document of the first answer that counts.

        Args:
            final: whether an error counts although its status is one of those that are tried again.
        """
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        give_up_s = monotonic_s() + PATIENCE_S
        while True:
            status, document = self._once(url, content, headers)
            error = document.get("error", {}) if isinstance(document, dict) else {}
            waits = status in AGAIN or error.get("code") == "IDEMPOTENCY_IN_PROGRESS"
            if status and (not waits or final(error)):
                return status, document
            assert monotonic_s() < give_up_s, (url, status, document)
            self.repeats += 1
            self._pause.wait(PAUSE_S)

    def _once(self, url: str, content: bytes, headers: dict[str, str]) -> tuple[int, Any]:
        parts = urlsplit(url)
        connection = self._connections.get(parts.netloc)
        if connection is None:
            connection = http.client.HTTPConnection(parts.netloc, timeout=ANSWER_S)
            self._connections[parts.netloc] = connection
        try:
            connection.request("POST", parts.path, content, {"Content-Type": "application/json", **headers})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()
            return 0, None

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
