"""A run as the gateway knows it: its states, its key, and what is decided about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.base import Json, decode, digest, encode
from holdfast.catalog import Failure
from holdfast.lifecycle import Move
from holdfast_systems.commerce.faults import COMMERCE

RUN_MOVES = (
    Move("authorizing", "start", "running"),
    Move("authorizing", "refuse", "refused"),
    Move("authorizing", "fail", "failed"),
    Move("running", "answer", "answered"),
    Move("running", "fail", "failed"),
    Move("running", "interrupt", "interrupted"),
    Move("answered", "settle", "settled"),
    Move("answered", "write_off", "written_off"),
    Move("failed", "retry", "authorizing"),
    Move("refused", "retry", "authorizing"),
)
"""`failed` and `refused` did no work, so the same request may try again. `interrupted` may have done some: the same
request is never run again, nothing is charged, and its reservation is released."""


class RunState(StrEnum):
    """Where a run stands."""

    AUTHORIZING = "authorizing"
    RUNNING = "running"
    ANSWERED = "answered"
    SETTLED = "settled"
    WRITTEN_OFF = "written_off"
    REFUSED = "refused"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


UNDER_WAY = frozenset({RunState.AUTHORIZING, RunState.RUNNING})
DONE = frozenset({RunState.ANSWERED, RunState.SETTLED, RunState.WRITTEN_OFF})
REPEATABLE = frozenset({RunState.FAILED, RunState.REFUSED})


class Billing(StrEnum):
    """How a run is paid for."""

    RESERVED = "reserved"
    """From credits that were reserved before it ran."""
    DEFERRED = "deferred"
    """It ran while the control plane was away, and is authorized and settled afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as its row has it."""

    id: str
    key: str
    tenant: str
    instance_id: str
    user_id: str
    input: str
    input_hash: str
    state: RunState
    billing: Billing
    attempt: int
    budget: int
    reservation_id: str | None
    output: str | None
    credits: int | None
    charged: int | None
    ledger_entry_id: str | None
    failure: str | None
    lease_until_us: int | None
    created_us: int
    ended_us: int | None
    now_us: int
    """The database's clock when the row was read."""

    @property
    def billing_id(self) -> str:
        """The `runId` under which this attempt is authorized: a released reservation cannot serve another attempt."""
        return self.id if self.attempt == 1 else f"{self.id}.{self.attempt}"

    @property
    def overdue(self) -> bool:
        """Whether the process that worked on it is taken for dead."""
        return self.lease_until_us is not None and self.lease_until_us <= self.now_us


def run_of(row: Mapping[str, Any]) -> Run:
    """The run of a row."""
    return Run(**{**row, "state": RunState(row["state"]), "billing": Billing(row["billing"])})


def run_key(user_id: str, instance_id: str, client_run_id: str) -> str:
    """The idempotency key of a request that a person made."""
    return f"ui:{user_id}:{instance_id}:{client_run_id}"


def input_hash(text: str) -> str:
    """What tells two inputs apart."""
    return digest(text)


def kept(failure: Failure) -> str:
    """A failure as its run keeps it."""
    return encode({"code": failure.code, "details": dict(failure.details)})


def told(text: str) -> Failure:
    """The failure that a run has kept, for a repeat of the request."""
    read: Json = decode(text)
    assert isinstance(read, dict)
    details = read.get("details")
    return COMMERCE[str(read["code"])].occur(**(details if isinstance(details, dict) else {}))


def code_of(text: str | None) -> str | None:
    """The code of the failure that a run has kept."""
    read = None if text is None else decode(text)
    return str(read["code"]) if isinstance(read, dict) else None


def answer_of(run: Run) -> dict[str, Any]:
    """What the caller of a run is told once it has an answer. What is not settled yet says what will be charged."""
    charged = run.charged
    if charged is None:
        charged = 0 if run.billing is Billing.DEFERRED else run.credits
    return {
        "runId": run.id,
        "output": run.output,
        "charged": charged,
        "billing": billing_word(run.state, run.billing),
    }


def billing_word(state: RunState, billing: Billing) -> str:
    """What became of the charge, in one word."""
    if state is RunState.ANSWERED:
        return "deferred" if billing is Billing.DEFERRED else "pending"
    return {RunState.SETTLED: "settled", RunState.WRITTEN_OFF: "written_off"}.get(state, "none")
