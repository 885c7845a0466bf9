"""Wrong operator's tokens in the audit: who tried, from where, and when it became too much.

What is told of them is bounded where they are counted, and so is the audit. Rows are written in a thread of its own:
a caller that guesses tokens does not make the server wait for its database.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from holdfast.base import bus
from holdfast.base.bus import Facts
from holdfast.catalog import Failure
from holdfast.catalog.core import RATE_LIMIT_EXCEEDED, UNAUTHORIZED
from holdfast.operate.actor import Actor, ActorKind
from holdfast.operate.audit import REFUSED, new_action, write
from holdfast.store import Store

STRANGER = "unknown"
VERB, SUBJECT = "enter", "token"
RESULTS = {"token.wrong": UNAUTHORIZED.code, "token.limited": RATE_LIMIT_EXCEEDED.code}


class WrongTokenAudit:
    """Writes them down until it is closed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="wrong-tokens")
        self._end = bus.listen(self._hear)

    def close(self) -> None:
        """Write what was told so far, and nothing more."""
        self._end()
        self._thread.shutdown()

    def _hear(self, verb: str, facts: Facts) -> None:
        if verb in RESULTS:
            self._thread.submit(self._write, str(facts["address"]), RESULTS[verb])

    def _write(self, address: str, result: str) -> None:
        action = new_action(Actor(ActorKind.API, STRANGER, address), VERB, SUBJECT, None)
        with suppress(Failure):  # it stands in the log as well
            self._store.atomic(lambda tx: write(tx, action, state=REFUSED, result=result), repeatable=True)
