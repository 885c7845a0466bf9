"""Verification of e-mail addresses: a bounded queue, a provider with a fallback, and results that are remembered.

Always true: a result and the end of its job commit together; one account's results answer no other account.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from holdfast.base import Json, bus, decode, encode, new_id, utc_text
from holdfast.catalog import Catalog, Dialect, Failure, document
from holdfast.policy import left_s, within
from holdfast.store import Store, Tx
from holdfast.watch.switch import Switch
from holdfast.worker import Job, Jobs
from holdfast_systems.records import people
from holdfast_systems.records.faults import (
    EXTERNAL_SERVICE_TIMEOUT,
    PROVIDER_REFUSES_US,
    VALIDATION_QUEUE_FULL,
    VALIDATION_SERVICE_ERROR,
    VERIFICATION_NOT_FOUND,
)
from holdfast_systems.records.links import Verifier
from holdfast_systems.records.settings import Settings
from holdfast_systems.records.verdicts import Verdict

QUEUE = "records.verify"
KIND = "records.verify"
SWITCH = "records-verifier"
GATE = "verification-queue"
"""The setting whose row is held by the transaction that counts the queue."""
ATTEMPTS = 3
COME_BACK_S = {"VALIDATION_SERVICE_ERROR": 300.0}
"""When a caller should ask again after a failure; a minute for codes that are not named."""
EACH_S = 0.5
"""Approximate duration of a verification; it sets how long a caller is asked to wait while the queue is full."""

_LOG = logging.getLogger("holdfast.records")


class Verifiers:
    """A provider and its fallback, switched for all processes at once. Threads may share it."""

    def __init__(self, store: Store, first: Verifier, second: Verifier, *, budget_s: float) -> None:
        self._store = store
        self._switch = Switch(store)
        self._first, self._second = first, second
        self._budget_s = budget_s
        self._troubled: set[str] = set()

    def verify(self, email: str) -> Verdict:
        """What the provider in use says, or its fallback within the same time.

        Raises:
            Failure: VALIDATION_SERVICE_ERROR with both reasons.
        """
        chosen = self._switch.choose(SWITCH, primary=(self._first, self._second), fallback=(self._second, self._first))
        with within(self._budget_s):
            failed: list[Failure] = []
            for verifier in chosen:
                try:
                    return self._asked(verifier, email)
                except Failure as failure:
                    failed.append(failure)
                    if left_s() <= 0:
                        break
        raise _both_failed(chosen, failed) from failed[-1]

    def _asked(self, verifier: Verifier, email: str) -> Verdict:
        try:
            verdict = verifier.verify(email)
        except Failure as failure:
            if failure.code == PROVIDER_REFUSES_US.code:
                self._tell_operators(verifier.name, failure)
            raise
        if verifier.name in self._troubled:
            self._troubled.discard(verifier.name)
            self._store.single("records_access.unset", repeatable=True, name=_trouble(verifier.name))
        return verdict

    def _tell_operators(self, provider: str, failure: Failure) -> None:
        """Told once for all processes, until the provider serves us again."""
        self._troubled.add(provider)
        said = str(failure.details.get("provider_error", ""))
        if not self._store.single("records_access.settle", name=_trouble(provider), value=said):
            return
        _LOG.error("%s: %s", failure.code, failure.technical)
        if bus.listeners:
            bus.tell("ops.alerted", message=failure.message, provider=provider, code=failure.code, error=said)


class Verifications:
    """What callers ask, and what workers do about it. Threads may share it."""

    def __init__(self, store: Store, jobs: Jobs, settings: Settings, catalog: Catalog) -> None:
        self._store = store
        self._jobs = jobs
        self._settings = settings
        self._catalog = catalog

    def ask(self, tx: Tx, account_id: str, *, email: str | None, person_uid: str | None) -> tuple[int, dict[str, Any]]:
        """A verification that is under way (202), or one whose result is remembered (200).

        Raises:
            Failure: PERSON_NOT_FOUND, VALIDATION_QUEUE_FULL.
        """
        if person_uid is not None:
            email = people.show(tx, account_id, person_uid)["email"]
        assert email is not None
        cache_us = int(self._settings.verification_cache_s * 1_000_000)
        known = tx.row("records_outside.known", account_id=account_id, email=email, cache_us=cache_us)
        if known is not None:
            return 200, {**self.show(tx, account_id, known[0]), "cached": True}
        verification_id = new_id()
        made = self._jobs.enqueue(KIND, {"verification": verification_id}, queue=QUEUE, tenant=account_id, tx=tx)
        asked = {"id": verification_id, "account_id": account_id, "email": email, "person_uid": person_uid}
        tx.run("records_outside.add_verification", **asked, job_id=made.id)
        # As late as can be: until this transaction ends, nobody else can ask for room.
        self._check_room(tx)
        return 202, {**self.show(tx, account_id, verification_id), "cached": False}

    def show(self, tx: Tx, account_id: str, verification_id: str) -> dict[str, Any]:
        """One verification.

        Raises:
            Failure: VERIFICATION_NOT_FOUND.
        """
        found = tx.records("records_outside.verification", id=verification_id, account_id=account_id)
        if not found:
            raise VERIFICATION_NOT_FOUND(verification_id=verification_id)
        return self.shown(found[0])

    def shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A verification as the API tells it."""
        status = status_of(row)
        details = {} if row["details"] is None else decode(row["details"])
        error = error_of(self._catalog, row, details) if status == "failed" else None
        return {
            "verification_id": row["id"],
            "email": row["email"],
            "person_uid": row["person_uid"],
            "status": status,
            "provider": row["provider"] if status == "complete" else details.get("provider"),
            "result": row["result"],
            "details": details if status == "complete" else None,
            "error": error,
            "created_at": utc_text(row["created_us"]),
            "completed_at": None if row["completed_us"] is None else utc_text(row["completed_us"]),
        }

    def work(self, job: Job, verifiers: Verifiers) -> Json:
        """Verify one address.

        Raises:
            Failure: VALIDATION_SERVICE_ERROR, EXTERNAL_SERVICE_TIMEOUT.
        """
        verification_id = str(job.payload["verification"])
        found = self._store.look("records_outside.to_verify", id=verification_id)
        if not found or found[0][2] is not None:
            return None  # an earlier attempt was not able to say that it had finished
        try:
            verdict = verifiers.verify(found[0][0])
        except Failure as failure:
            self._note(verification_id, failure)
            raise
        if verdict.again and job.attempt < ATTEMPTS:
            raise EXTERNAL_SERVICE_TIMEOUT(
                external_service=verdict.provider, reason="no_answer_yet", retry_recommended=True
            )
        self._store.atomic(lambda tx: _finish(tx, job, verification_id, verdict))
        return None

    def _check_room(self, tx: Tx) -> None:
        """Keep the queue within its bound, also when many ask at once; this verification is counted too.

        Raises:
            Failure: VALIDATION_QUEUE_FULL.
        """
        most = self._settings.verification_queue_max
        tx.run("records_outside.enter", name=GATE)
        counted = tx.row("records_outside.queued", queue=QUEUE, most=most + 1)
        if counted is not None and counted[0] > most:
            raise VALIDATION_QUEUE_FULL(
                retry_after_s=max(1.0, most * EACH_S / 10), queued=most, queue_max=most, retryable=True
            )

    def _note(self, verification_id: str, failure: Failure) -> None:
        said = encode({name: value for name, value in failure.details.items() if isinstance(value, str | bool)})
        self._store.single("records_outside.note_verification", repeatable=True, id=verification_id, details=said)


def status_of(row: Mapping[str, Any]) -> str:
    """Where a verification or an enrichment stands."""
    if row["completed_us"] is not None:
        return "complete"
    return "queued" if row["job_state"] in ("queued", "processing") else "failed"


def error_of(catalog: Catalog, row: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """Why a job failed, in the shape of every other error of this API."""
    failure = failure_of(catalog, row, details)
    said = document(failure, Dialect.FULL)
    return {name: value for name, value in said.items() if name not in ("request_id", "timestamp")}


def failure_of(catalog: Catalog, row: Mapping[str, Any], details: Mapping[str, Any]) -> Failure:
    """The failure that a job ended with."""
    fault = catalog.get(row["error_code"] or "") or catalog["EXTERNAL_SERVICE_ERROR"]
    wait_s = COME_BACK_S.get(fault.code, 60.0) if fault.retryable else None
    return fault(retry_after_s=wait_s, **details)


def _finish(tx: Tx, job: Job, verification_id: str, verdict: Verdict) -> None:
    tx.rows(
        "records_outside.complete_verification",
        id=verification_id,
        provider=verdict.provider,
        result=verdict.result.value,
        details=encode(dict(verdict.details)),
    )
    job.finish(tx, {"provider": verdict.provider, "result": verdict.result.value})


def _both_failed(chosen: tuple[Verifier, Verifier], failed: list[Failure]) -> Failure:
    first, second = chosen
    fallback: dict[str, Any] = {"fallback_error": _reason(failed[1])} if len(failed) > 1 else {}
    return VALIDATION_SERVICE_ERROR(
        provider=first.name,
        provider_error=_reason(failed[0]),
        fallback_available=True,
        fallback_provider=second.name,
        **fallback,
    )


def _reason(failure: Failure) -> str:
    return str(failure.details.get("provider_error") or failure.details.get("reason") or failure.code.lower())


def _trouble(provider: str) -> str:
    return f"trouble:{provider}"
