"""The maintenance window: announced by an operator, known to every process within a second."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from holdfast.base import decode, encode, monotonic_s, now_us, utc_text
from holdfast.catalog import Failure
from holdfast.http.aside import aside
from holdfast.operate import Actor, carry_out
from holdfast.store import Store, Tx
from holdfast_systems.records import tables
from holdfast_systems.records.faults import TEMPORARY_UNAVAILABLE

REMEMBERED_S = 1.0
SETTING = "maintenance"
SUBJECT = "maintenance:records"


@dataclass(frozen=True, slots=True)
class Window:
    """From one moment to another, both in UTC microseconds."""

    from_us: int
    until_us: int

    def shown(self) -> dict[str, str]:
        """As the API tells it."""
        return {"from": utc_text(self.from_us), "until": utc_text(self.until_us)}

    def text(self) -> str:
        """Both ends in one line."""
        return f"{utc_text(self.from_us)} to {utc_text(self.until_us)}"

    def failure(self, at_us: int) -> Failure:
        """TEMPORARY_UNAVAILABLE until the end of the window."""
        return TEMPORARY_UNAVAILABLE(
            retry_after_s=max(1.0, (self.until_us - at_us) / 1_000_000),
            maintenance_window=self.text(),
            expected_resolution=utc_text(self.until_us),
        )


class Maintenance:
    """What the store says about maintenance, asked once a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read_s = float("-inf")
        self._window: Window | None = None

    async def check(self) -> None:
        """Let a request in.

        Raises:
            Failure: TEMPORARY_UNAVAILABLE within the window.
        """
        if monotonic_s() - self._read_s >= REMEMBERED_S:
            # Before the question, so that the others go on meanwhile with what was known.
            self._read_s = monotonic_s()
            # The last answer holds while there is no other: whether the database is away is for others to say.
            with suppress(Failure):
                self._window = await aside(self.read)
        window, at_us = self._window, now_us()
        if window is not None and window.from_us <= at_us < window.until_us:
            raise window.failure(at_us)

    def read(self) -> Window | None:
        """The window that is announced; None when there is none."""
        found = self._store.atomic(lambda tx: tables.setting(tx, SETTING), write=False)
        return None if found is None else Window(*decode(found))

    def announce(self, window: Window, *, actor: Actor, reason: str | None = None) -> None:
        """Be closed within this window."""
        value = encode([window.from_us, window.until_us])
        carry_out(
            self._store,
            "announce",
            SUBJECT,
            lambda tx: tx.run("records_access.set", name=SETTING, value=value),
            actor=actor,
            reason=reason or window.text(),
        )
        self._read_s = float("-inf")

    def end(self, *, actor: Actor, reason: str | None = None) -> bool:
        """Be open; False when nothing was announced."""

        def change(tx: Tx) -> bool:
            return tx.row("records_access.unset", name=SETTING) is not None

        ended = carry_out(self._store, "end", SUBJECT, change, actor=actor, reason=reason)
        self._read_s = float("-inf")
        return ended
