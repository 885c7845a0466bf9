"""The client's side of jobs: enqueue, look, wait, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.base import Json, bus, limits, world
from holdfast.base.combiner import Combiner
from holdfast.catalog import Failure, current_context
from holdfast.catalog.core import BAD_REQUEST
from holdfast.catalog.durable import JOB_NOT_FOUND
from holdfast.lifecycle import JobState
from holdfast.store import AsyncTx, Store, Tx
from holdfast.store.transaction import refuse_connection
from holdfast.worker import sequences, telling
from holdfast.worker.cancelling import cancel_job
from holdfast.worker.enqueueing import Batch, insert
from holdfast.worker.job import DEFAULT_QUEUE, Enqueued, JobFilter, NewJob, Options
from holdfast.worker.prepared import COLUMNS, Prepared, prepared
from holdfast.worker.waiting import Waiting
from holdfast.worker.wake import Notifier

if TYPE_CHECKING:
    from holdfast.base.gathering import Gathering
    from holdfast.catalog import Catalog

COMBINE_MAX = 500


class Jobs:
    """Jobs on a store, of everybody or of one tenant. Threads may share it."""

    def __init__(self, store: Store, *, tenant: str | None = None) -> None:
        """
        Args:
            tenant: whose jobs: what is enqueued is theirs, and those of others are not there. None is everybody's.
        """
        self.store = store
        self.tenant = tenant
        self.notifier = Notifier(store)
        self._known_queues: set[str] = set()
        self._combiner: Combiner[Prepared, str] = Combiner(self._insert, most=COMBINE_MAX)
        self._coroutines: Gathering[Prepared, str] | None = None

    def enqueue(
        self,
        kind: str,
        payload: Json = None,
        *,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        delay_s: float = 0.0,
        due: datetime | None = None,
        dedupe_key: str | None = None,
        unique_s: float | None = None,
        attempts: int | None = None,
        timeout_s: float | None = None,
        tenant: str | None = None,
        sequence: str | None = None,
        tx: Tx | None = None,
    ) -> Enqueued:
        """Ask for work to be done; it is on disk when this returns, or with the caller's transaction.

        Args:
            queue: where it waits; a worker has to serve it.
            priority: lower goes first.
            delay_s: seconds from now before which the job does not start.
            due: not before this time on the database's clock, whatever this machine's own clock says.
            dedupe_key: a job of this tenant and queue with this key, of whatever kind, is returned instead of a second.
            unique_s: how long the key keeps others out; None is as long as the job exists and has not failed.
            attempts: all attempts, instead of the handler's own rule.
            timeout_s: how long one attempt may take, instead of the handler's own limit.
            tenant: whose it is; of jobs of one tenant it can only be that one.
            sequence: jobs of one sequence run one after the other; a dead letter does not stop those behind it.
            tx: what `store.join(connection)` returns, or `store.atomic` hands over: the job commits with it.

        Raises:
            Failure: BAD_REQUEST names the field; JOB_PAYLOAD_TOO_LARGE; or the database's own failure.
            TypeError: `tx` is a connection.
        """
        new = NewJob(
            kind=kind,
            payload=payload,
            queue=queue,
            priority=priority,
            delay_s=delay_s,
            due=due,
            dedupe_key=dedupe_key,
            unique_s=unique_s,
            attempts=attempts,
            timeout_s=timeout_s,
            tenant=self._owner(tenant),
            sequence=sequence,
        )
        if tx is not None or dedupe_key is not None or sequence is not None:
            return self.enqueue_many([new], tx=tx)[0]
        row = prepared(new)
        self._register(queue)
        self._combiner.submit(row)
        if bus.listeners:
            telling.enqueued([(row[0], new)], row[-1])
        return Enqueued(row[0], created=True)

    async def enqueue_async(
        self, kind: str, payload: Json = None, *, tx: AsyncTx | None = None, **options: Unpack[Options]
    ) -> Enqueued:
        """The same for coroutines, with the same options: those who call at once share a commit.

        Args:
            tx: what `store.join_async(connection)` returns: the job commits with it.

        Raises:
            Failure: as `enqueue`.
            TypeError: `tx` is a connection, or a transaction for code that blocks.
        """
        if tx is not None:
            if not isinstance(tx, AsyncTx):
                raise TypeError("tx: give store.join_async(connection), for a connection that is awaited")
            return await tx.run(lambda here: self.enqueue(kind, payload, tx=here, **options))
        if options.get("dedupe_key") is not None or options.get("sequence") is not None:
            import asyncio

            return await asyncio.to_thread(self.enqueue, kind, payload, **options)
        options["tenant"] = self._owner(options.get("tenant"))
        new = NewJob(kind=kind, payload=payload, **options)
        row = prepared(new)
        if new.queue not in self._known_queues:
            await self.store.atomic_async(lambda tx: tx.run("queue.register", name=new.queue), repeatable=True)
            self._known_queues.add(new.queue)
        await self._gathering().submit(row)
        if bus.listeners:
            telling.enqueued([(row[0], new)], row[-1])
        return Enqueued(row[0], created=True)

    def enqueue_many(self, jobs: Sequence[NewJob], *, tx: Tx | None = None) -> list[Enqueued]:
        """Ask for many at once, in one transaction.

        Raises:
            Failure: as `enqueue`; nothing is enqueued then.
            TypeError: `tx` is a connection.
        """
        most = limits().enqueue_batch_max
        if len(jobs) > most:
            raise BAD_REQUEST(
                "{count} jobs are more than one call takes; send at most {most}.", count=len(jobs), most=most
            )
        if self.tenant is not None:
            jobs = [replace(job, tenant=self._owner(job.tenant)) for job in jobs]
        batch = Batch(jobs)
        queues = batch.queues
        if tx is not None:
            # Of a joined transaction nobody here sees the commit: there the workers find the jobs, and tell of them.
            try:
                made = batch.enqueue(tx)
            except AttributeError:
                refuse_connection(tx)
                raise
            trace = current_context().traceparent or None
            tx.after_commit.append(lambda: self._tell_made(jobs, made, queues, trace))
            if batch.sequences:
                tx.after_commit.append(lambda: self._recheck(batch.sequences))
            return made
        for queue in queues:
            self._register(queue)
        made = self.store.atomic(batch.enqueue, repeatable=True)
        self._tell_made(jobs, made, queues, current_context().traceparent or None)
        self._recheck(batch.sequences)
        return made

    def show(self, job_id: str) -> dict[str, Any]:
        """Everything about one job.

        Raises:
            Failure: JOB_NOT_FOUND.
        """
        asked = {"id": job_id, "tenant": self.tenant}
        found = self.store.atomic(lambda tx: tx.records("job.show", **asked), write=False)
        if not found:
            raise JOB_NOT_FOUND(job_id=job_id)
        return found[0]

    def history(self, job_id: str, *, after: int = -1) -> list[dict[str, Any]]:
        """What happened to a job, in order; a page at a time. Of what is another tenant's, nothing.

        Args:
            job_id: the job.
            after: the largest `id` of the page before.
        """
        count = limits().page_rows_max

        def phase(tx: Tx) -> list[dict[str, Any]]:
            own = is_own(tx, job_id, self.tenant)
            return tx.records("job.history", id=job_id, after=after, count=count) if own else []

        return self.store.atomic(phase, write=False)

    def list(self, *, count: int = 50, before: str | None = None, **filters: Unpack[JobFilter]) -> list[dict[str, Any]]:
        """Jobs, newest first.

        Args:
            count: maximum number of jobs; never more than `limits().page_rows_max`.
            before: the last id of the page before.
            filters: state, queue, kind, tenant, code.

        Raises:
            TypeError: there is no such filter; it names those that there are.
            Failure: BAD_REQUEST when these are the jobs of another tenant than the filter names.
        """
        known = JobFilter.__annotations__
        for name in filters.keys() - known:
            raise TypeError(f"{name!r} is not a filter; there are {', '.join(known)}")
        if self.tenant is not None:
            filters["tenant"] = self._owner(filters.get("tenant"))
        chosen = {name: filters.get(name) for name in known}
        count = min(count, limits().page_rows_max)
        return self.store.atomic(lambda tx: tx.records("job.list", count=count, before=before, **chosen), write=False)

    def wait(self, job_id: str, timeout_s: float, *, catalog: Catalog | None = None) -> Json:
        """The job's result, as soon as it is complete.

        Args:
            catalog: where the codes of its failures are declared; those of the core are known.

        Raises:
            Failure: JOB_NOT_READY when the time is up; JOB_NOT_FOUND; the job's own code, message and technical line
                when it failed, with status 500 where nobody declares the code.
        """
        waiting = Waiting(timeout_s)
        while (result := self._outcome(job_id, catalog)) is None:
            world().sleep(waiting.pause_s(job_id))
        return result[0]

    async def wait_async(self, job_id: str, timeout_s: float, *, catalog: Catalog | None = None) -> Json:
        """The same for coroutines.

        Raises:
            Failure: as `wait`.
        """
        import asyncio

        waiting = Waiting(timeout_s)
        while (result := await asyncio.to_thread(self._outcome, job_id, catalog)) is None:
            await world().pause(waiting.pause_s(job_id))
        return result[0]

    def cancel(self, job_id: str) -> bool:
        """Stop a job: at once when it is queued, at its handler's next look when it runs; False when it has ended.

        Raises:
            Failure: JOB_NOT_FOUND.
        """
        return self.store.atomic(lambda tx: cancel_job(tx, job_id, tenant=self.tenant)) is not None

    def close(self) -> None:
        """Send the last wake-ups."""
        self.notifier.close()

    def _outcome(self, job_id: str, catalog: Catalog | None) -> tuple[Json] | None:
        """The result of a job that is complete; None while it is neither that nor failed."""
        import json

        found = self.store.atomic(lambda tx: tx.row("job.outcome", id=job_id, tenant=self.tenant), write=False)
        if found is None:
            raise JOB_NOT_FOUND(job_id=job_id)
        state, result = found[:2]
        if state == JobState.FAILED:
            from holdfast.worker.failed import failure_of

            raise failure_of(self.show(job_id), catalog)
        if state != JobState.COMPLETE:
            return None
        return (None if result is None else json.loads(result),)

    def _insert(self, rows: Sequence[Prepared]) -> Sequence[str]:
        if len(rows) > 1:
            self.store.each(lambda tx: insert(tx, rows), repeatable=True)
            return self._inserted(rows)
        values = dict(zip(COLUMNS, rows[0], strict=True))
        queue = values["queue"]
        if self.store.put("job.enqueue_one", repeatable=True, then=self.notifier.turn(queue), **values):
            self.store.woken(queue)
        else:
            self.notifier.wake(queue)
        return [values["id"]]

    async def _insert_async(self, rows: Sequence[Prepared]) -> Sequence[str] | None:
        # What may have happened and is done again in a thread happens once: the ids are the same.
        inserted = await self.store.many_rows_async("job.enqueue", rows, token=0)
        return None if inserted is None else self._inserted(rows)

    def _inserted(self, rows: Sequence[Prepared]) -> Sequence[str]:
        for queue in {row[2] for row in rows}:
            self.notifier.wake(queue)
        return [row[0] for row in rows]

    def _gathering(self) -> Gathering[Prepared, str]:
        if self._coroutines is None:
            from holdfast.base.gathering import Gathering

            self._coroutines = Gathering(self._insert, most=COMBINE_MAX, flush_async=self._insert_async)
        return self._coroutines

    def _tell_made(self, jobs: Sequence[NewJob], made: Sequence[Enqueued], queues: set[str], trace: str | None) -> None:
        for queue in queues:
            self.notifier.wake(queue)
        if bus.listeners:
            new = [(one.id, job) for one, job in zip(made, jobs, strict=True) if one.created]
            telling.enqueued(new, trace)

    def _recheck(self, names: set[str]) -> None:
        """Look whether the job before the new ones has ended meanwhile; where this fails, a worker's sweep looks."""
        with suppress(Failure):
            sequences.recheck(self.store, names)

    def _owner(self, tenant: str | None) -> str:
        """Whose a job is that is said to be this tenant's.

        Raises:
            Failure: BAD_REQUEST when these are the jobs of another one.
        """
        if self.tenant is None or tenant in {None, "", self.tenant}:
            return tenant or self.tenant or ""
        raise BAD_REQUEST("{field} is not the tenant of these jobs.", field="tenant")

    def _register(self, queue: str) -> None:
        """Let operators see the queue; once for each process."""
        if queue not in self._known_queues:
            self.store.atomic(lambda tx: tx.run("queue.register", name=queue), repeatable=True)
            self._known_queues.add(queue)


def is_own(tx: Tx, job_id: str, tenant: str | None) -> bool:
    """Whether the tenant may see this job; None may see all, also what is gone."""
    return tenant is None or tx.row("job.outcome", id=job_id, tenant=tenant) is not None
