"""Dead letters: jobs that have used their attempts, kept until somebody revives or discards them.

Work on many of them goes in small transactions, newest first, over those that were dead when it began: a job that is
revived and fails again meanwhile is not taken twice. Whatever stops it half-way, calling it again does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.base import limits
from holdfast.catalog.core import BAD_REQUEST
from holdfast.catalog.durable import JOB_NOT_FOUND
from holdfast.store import Store, Tx
from holdfast.worker.dead_filter import NEWEST, DeadFilter, Place, place_of, place_text
from holdfast.worker.dead_moves import Act, Letter, discard, past_twins, pick_one, revive_free, revive_one
from holdfast.worker.jobs import is_own
from holdfast.worker.queues import wake_workers

BATCH = 500
"""Maximum number of letters that are moved in one transaction."""
EVERY_ONE = DeadFilter()


@dataclass(frozen=True, slots=True)
class DeadPage:
    """Some dead letters, and where the next page begins."""

    letters: Sequence[dict[str, Any]]
    next: str | None
    """To be given as `before`; None on the last page."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far work on many letters has come."""

    total: int
    """How many there were when it began."""
    done: int = 0
    refused: int = 0
    """Left as they were, because another job does the same work."""


class DeadLetters:
    """The dead letters of a store, or of one tenant of it. Threads may share it."""

    def __init__(self, store: Store, *, tenant: str | None = None) -> None:
        """
        Args:
            tenant: whose dead letters; those of others are not there. None is everybody's, for operators.
        """
        self.store = store
        self.tenant = tenant

    def list(self, chosen: DeadFilter = EVERY_ONE, *, count: int = 50, before: str | None = None) -> DeadPage:
        """A page, the one that died last first.

        Raises:
            Failure: BAD_REQUEST when `before` is not what a page gave as `next`.
        """
        before_us, before_id = NEWEST if before is None else place_of(before)
        wanted = {**self._own(chosen).parameters(), "before_us": before_us, "before_id": before_id}
        count = max(1, min(count, limits().page_rows_max))
        letters = self.store.atomic(lambda tx: tx.records("dead.list", count=count, **wanted), write=False)
        following = place_text(letters[-1]["failed_us"], letters[-1]["id"]) if len(letters) == count else None
        return DeadPage(letters, following)

    def groups(self, chosen: DeadFilter = EVERY_ONE, *, count: int = 50) -> Sequence[dict[str, Any]]:
        """Letters that died of the same thing, the most frequent first: fingerprint, code, kind, count, first and
        last seen, and one of them as an example."""
        wanted = {**self._own(chosen).parameters(), "most": max(1, min(count, limits().page_rows_max))}
        return self.store.atomic(lambda tx: tx.records("dead.groups", **wanted), write=False)

    def count(self, chosen: DeadFilter = EVERY_ONE) -> int:
        """How many there are."""
        wanted = self._own(chosen).parameters()
        return self.store.atomic(lambda tx: _count(tx, wanted), write=False)

    def show(self, job_id: str) -> dict[str, Any]:
        """Everything about one letter.

        Raises:
            Failure: JOB_NOT_FOUND, also when the job is not dead.
        """
        asked = {"id": job_id, "tenant": self.tenant}
        found = self.store.atomic(lambda tx: tx.records("job.show", **asked), write=False)
        if not found:
            raise JOB_NOT_FOUND(job_id=job_id)
        state = found[0]["state"]
        if state != "failed":
            raise JOB_NOT_FOUND("There is no dead letter with this id: the job is {state}.", job_id=job_id, state=state)
        return found[0]

    def history(self, job_id: str) -> Iterator[dict[str, Any]]:
        """Everything that ever happened to it, in order, read page by page; nothing of what is another tenant's."""
        if not self.store.atomic(lambda tx: is_own(tx, job_id, self.tenant), write=False):
            return
        asked: dict[str, Any] = {"id": job_id, "after": -1, "count": limits().page_rows_max}
        while True:
            events = self.store.atomic(lambda tx: tx.records("job.history", **asked), write=False)
            yield from events
            if len(events) < asked["count"]:
                return
            asked["after"] = max(event["id"] for event in events)

    def revive(self, job_id: str, *, reason: str | None = None) -> None:
        """Put one back into its queue; its attempts start anew.

        Raises:
            Failure: JOB_NOT_FOUND; JOB_NOT_DEAD when it is alive; JOB_TWIN_EXISTS when another job with its dedupe key
                does the work already.
        """

        def phase(tx: Tx) -> str:
            letter = pick_one(tx, job_id, tenant=self.tenant)
            revive_one(tx, letter, reason)
            return letter.queue

        wake_workers(self.store, [past_twins(lambda: self.store.atomic(phase))])

    def discard(self, job_id: str, *, reason: str | None = None) -> None:
        """Delete one; its history stays in the journal for as long as that is kept.

        Raises:
            Failure: JOB_NOT_FOUND; JOB_NOT_DEAD when it is alive.
        """
        self.store.atomic(lambda tx: discard(tx, [pick_one(tx, job_id, tenant=self.tenant)], reason))

    def revive_all(
        self,
        chosen: DeadFilter,
        *,
        reason: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Progress:
        """Revive what matches and was dead when this began; of several with one dedupe key only the newest.

        Two operators may do it at once: each letter is revived once. `progress` is told after each transaction.
        After a connection was lost in the moment of a commit, `done` may fall short of what was done.
        """
        return self.each_batch(chosen, self._revive_free, reason, progress)

    def discard_all(
        self,
        chosen: DeadFilter,
        *,
        reason: str | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Progress:
        """Delete what matches and was dead when this began; otherwise as `revive_all`."""
        return self.each_batch(chosen, discard, reason, progress)

    def each_batch(
        self,
        chosen: DeadFilter,
        act: Act,
        reason: str | None,
        progress: Callable[[Progress], None] | None,
        *,
        until_us: int | None = None,
    ) -> Progress:
        """Do something with all that match and were dead when this began, one transaction for each batch.

        Args:
            until_us: only those that died before this time; without it, before now.
        """
        if until_us is None:
            until_us = self.store.atomic(lambda tx: tx.now_us(), write=False) + 1
        wanted = self._own(chosen).parameters(until_us)
        so_far = Progress(self.store.atomic(lambda tx: _count(tx, wanted), write=False))
        place: Place | None = NEWEST
        while place is not None:
            place, done, refused = self._batch(wanted, place, act, reason)
            so_far = replace(so_far, done=so_far.done + done, refused=so_far.refused + refused)
            if progress is not None and place is not None:
                progress(so_far)
        return so_far

    def _batch(
        self, wanted: dict[str, Any], place: Place, act: Act, reason: str | None
    ) -> tuple[Place | None, int, int]:
        """One transaction: where it stopped (None: there was nothing left), and how many were done and refused."""

        def phase(tx: Tx) -> tuple[Sequence[Letter], int]:
            rows = tx.rows("dead.pick", count=BATCH, before_us=place[0], before_id=place[1], **wanted)
            letters = [Letter(*row) for row in rows]
            return letters, act(tx, letters, reason) if letters else 0

        letters, done = past_twins(lambda: self.store.atomic(phase, repeatable=True))
        if not letters:
            return None, 0, 0
        return (letters[-1].failed_us, letters[-1].id), done, len(letters) - done

    def _revive_free(self, tx: Tx, letters: Sequence[Letter], reason: str | None) -> int:
        tx.after_commit.append(lambda: wake_workers(self.store, {letter.queue for letter in letters}))
        return revive_free(tx, letters, reason)

    def _own(self, chosen: DeadFilter) -> DeadFilter:
        """The filter, narrowed to the tenant that this one may see."""
        if self.tenant is None:
            return chosen
        if chosen.tenant not in {None, self.tenant}:
            raise BAD_REQUEST("{field} is not the tenant of these dead letters.", field="tenant")
        return replace(chosen, tenant=self.tenant)


def _count(tx: Tx, wanted: dict[str, Any]) -> int:
    found = tx.row("dead.count", **wanted)
    assert found is not None
    return int(found[0])
