"""Log lines that anyone can cause: the same one is written once in a while, and then says how often it came.

Always true: no number of bad requests fills a disk with lines.
"""

from __future__ import annotations

import logging
from threading import Lock

from holdfast.base import monotonic_s

EVERY_S = 10.0
KINDS_MAX = 200


class Repeated(logging.Filter):
    """Lets the same line pass once in ten seconds, with the number of those held back. Threads may share it."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, tuple[float, int]] = {}
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        text = str(record.msg)
        line = text.partition("\n")[0]
        with self._lock:
            since_s, held = self._seen.get(line, (float("-inf"), 0))
            now_s = monotonic_s()
            if now_s - since_s < EVERY_S:
                self._seen[line] = since_s, held + 1
                return False
            while len(self._seen) >= KINDS_MAX:
                del self._seen[next(iter(self._seen))]
            self._seen[line] = now_s, 0
        if held:
            record.msg = f"{text.rstrip()} ({held} more like this)"
        return True


def limit_repeats(*names: str) -> None:
    """Limit the lines of these loggers, once."""
    for name in names:
        logger = logging.getLogger(name)
        if not any(isinstance(one, Repeated) for one in logger.filters):
            logger.addFilter(Repeated())
