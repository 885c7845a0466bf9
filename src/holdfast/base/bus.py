"""Events of this process, handed to its listeners. Without a listener no event is made, and there is no cost.

The sender checks first: `if bus.listeners: bus.tell("job.finished", id=job.id, queue=job.queue)`. A verb is a noun
and a past participle; its facts are plain values. A listener is called where it happened and must be quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

Facts = Mapping[str, Any]
Listener = Callable[[str, Facts], None]


class Bus:
    """Hands what happened to every listener."""

    __slots__ = ("listeners", "writers")

    def __init__(self) -> None:
        self.listeners: tuple[Listener, ...] = ()
        self.writers: tuple[Listener, ...] = ()
        """Listeners that write log lines; with one of them, nothing is also sent to the standard `logging`."""

    def tell(self, verb: str, /, **facts: Any) -> None:
        """Tell everyone; a listener that raises changes nothing and is reported as unraisable."""
        for listener in self.listeners:
            try:
                listener(verb, facts)
            except Exception as broken:  # noqa: BLE001 - a broken listener must not decide what becomes of the work
                report(broken, "a Holdfast listener raised", listener)

    def listen(self, listener: Listener, *, writes_log: bool = False) -> Callable[[], None]:
        """From now on; what is returned ends it."""
        self.listeners = (*self.listeners, listener)
        self.writers = (*self.writers, listener) if writes_log else self.writers

        def end() -> None:
            self.listeners = tuple(one for one in self.listeners if one is not listener)
            self.writers = tuple(one for one in self.writers if one is not listener)

        return end

    @contextmanager
    def heard(self) -> Iterator[list[tuple[str, Facts]]]:
        """Everything that is told during the block."""
        told: list[tuple[str, Facts]] = []
        end = self.listen(lambda verb, facts: told.append((verb, facts)))
        try:
            yield told
        finally:
            end()


def report(broken: Exception, message: str, culprit: object) -> None:
    """Show an exception of the user's own code that must not decide the outcome of anything."""
    sys.unraisablehook(
        SimpleNamespace(  # the hook reads attributes only
            exc_type=type(broken),
            exc_value=broken,
            exc_traceback=broken.__traceback__,
            err_msg=message,
            object=culprit,
        )
    )


bus = Bus()
"""The one of this process."""
