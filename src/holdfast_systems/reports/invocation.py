"""One invocation: pick a ready step, claim it, work on it, finalise it.

Always true: a step is worked on only after a claim whose precondition held; a step is finalised only by the invocation
that holds it; what has succeeded is never overwritten. Dying between any two lines leaves something that a later
invocation or the reaper takes up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.base import bus, monotonic_s, new_id, utc_text, world
from holdfast.catalog import CORE, Failure
from holdfast.policy import within
from holdfast_systems.reports.artifacts import Kept
from holdfast_systems.reports.documents import check_run
from holdfast_systems.reports.faults import (
    ARTIFACT_CONFLICT,
    DEPENDENCY_NOT_SUCCEEDED,
    FIRESTORE_CLAIM_FAILED,
    FIRESTORE_FINALIZE_FAILED,
    FIRESTORE_UNAVAILABLE,
    FLOW_RUN_INVALID,
    FLOW_RUN_NOT_FOUND,
    NO_READY_STEP,
    STEP_CLAIM_CONFLICT,
    STEP_FINALIZE_CONFLICT,
)
from holdfast_systems.reports.links import Links
from holdfast_systems.reports.model import (
    ABSENT,
    RunStatus,
    StepState,
    followed,
    is_terminal,
    move,
    ready,
    step_of,
    time_us,
    unfinalised,
    unmet,
)
from holdfast_systems.reports.ports import FlowRuns, ModelClosed, Snapshot
from holdfast_systems.reports.reaper import Reaper
from holdfast_systems.reports.settings import Settings
from holdfast_systems.reports.work import Task, Work

FOLLOWED = "FOLLOWED"
"""Dependants were made ready; the steps themselves are for another invocation."""
LATER = 1 << 62
CROWD = 3
"""Number of lost attempts after which the waits grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an invocation."""

    result: str
    """SUCCEEDED, FAILED, or why nothing was to be done."""
    step_id: str | None = None
    code: str | None = None
    """What the step failed with."""
    failure: Failure | None = None
    """Set when the step is to be tried again: the sender of the event delivers it again."""

    def document(self) -> dict[str, Any]:
        """As it is answered."""
        said = {"result": self.result, "stepId": self.step_id, "code": self.code}
        return {name: value for name, value in said.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A step that this invocation holds."""

    snapshot: Snapshot
    step_id: str
    token: str
    claimed_s: float = field(default_factory=monotonic_s)

    @property
    def now_us(self) -> int:
        """The time by the store's clock: when the run was read, and what has passed since."""
        return self.snapshot.read_us + int((monotonic_s() - self.claimed_s) * 1_000_000)


class Invocations:
    """Runs invocations; threads may share it."""

    def __init__(self, runs: FlowRuns, work: Work, reaper: Reaper, links: Links, settings: Settings) -> None:
        self._runs = runs
        self._work = work
        self._reaper = reaper
        self._links = links
        self._settings = settings

    def run(self, run_id: str, *, owner: str, is_event: bool = True) -> Outcome:
        """Do what is to be done next for a run.

        Args:
            owner: who asks. A job runs once at a time, so a step that an earlier attempt of the job holds has been left
                behind; the same event may well be delivered twice at once.
            is_event: whether an event asks, and not a job. It is delivered once for a change, so it goes on with a step
                after it has made it ready, and does not wait for the time of a retry.

        Raises:
            Failure: FIRESTORE_UNAVAILABLE, FIRESTORE_CLAIM_FAILED, FIRESTORE_FINALIZE_FAILED, GCS_READ_FAILED, or
                SERVICE_UNAVAILABLE while the process stops: the event is to be delivered again.
        """
        with within(self._settings.invocation_timeout_s):
            snapshot = self._get(run_id)
            if snapshot is None:
                return Outcome(result=FLOW_RUN_NOT_FOUND.code)
            try:
                check_run(snapshot.document)
            except Failure as failure:
                return self._refuse(snapshot, failure)
            if not is_event:
                snapshot = self._recovered(snapshot, owner)
            patch = followed(snapshot.document, at_us=snapshot.read_us)
            if patch:
                # A faster invocation may have changed the document, and its change has an event of its own.
                following = self._links.runs.call(self._runs.patch, snapshot, patch) or self._get(run_id)
                if not is_event or following is None:
                    return Outcome(result=FOLLOWED)
                snapshot = following
            return self._invoked(snapshot, owner, LATER if is_event else None)

    def _invoked(self, snapshot: Snapshot, owner: str, at_us: int | None) -> Outcome:
        claimed = self._claim(snapshot, owner, at_us)
        if isinstance(claimed, Outcome):
            return claimed
        task = Task(run_id=snapshot.run_id, step_id=claimed.step_id, document=claimed.snapshot.document)
        try:
            kept = self._work.do(task)
        except Failure as failure:
            return self._fail(claimed, task, failure)
        except ModelClosed as closed:
            # The step stays as it is: the next attempt of the job, or the reaper, takes it up.
            raise CORE["SERVICE_UNAVAILABLE"]() from closed
        except Exception as error:  # noqa: BLE001 - whatever it was, the step ends
            unknown = CORE["INTERNAL_ERROR"]()
            unknown.__cause__ = error
            return self._fail(claimed, task, unknown)
        return self._succeed(claimed, task, kept)

    # -- claim -----------------------------------------------------------------------------------------------------

    def _claim(self, snapshot: Snapshot, owner: str, at_us: int | None) -> Claimed | Outcome:
        token, wanted = new_id(), ""
        current: Snapshot | None = snapshot
        for attempt in range(self._settings.claim_tries):
            if attempt:
                self._wait()
                current = self._get(snapshot.run_id)
            if current is None:
                return Outcome(result=FLOW_RUN_NOT_FOUND.code)
            if wanted and (step_of(current.document, wanted) or {}).get("invocationId") == token:
                return Claimed(snapshot=current, step_id=wanted, token=token)  # only the reply was lost
            free = self._free(current, at_us)
            if not free:
                return Outcome(result=STEP_CLAIM_CONFLICT.code) if wanted else self._idle(current, at_us)
            # Not always the first: those who race for several steps need not meet.
            wanted = free[int(world().dice() * len(free))]
            written = self._claim_once(current, wanted, token, owner)
            if written is not None:
                self._tell("step.claimed", written, wanted)
                return Claimed(snapshot=written, step_id=wanted, token=token)
        return Outcome(result=STEP_CLAIM_CONFLICT.code, step_id=wanted)

    def _claim_once(self, snapshot: Snapshot, step_id: str, token: str, owner: str) -> Snapshot | None:
        step = step_of(snapshot.document, step_id) or {}
        place = ("steps", step_id)
        attempts = step.get("attempts")
        patch: dict[tuple[str, ...], Any] = {
            (*place, "state"): move(step, "claim"),
            (*place, "startedAt"): utc_text(snapshot.read_us),
            (*place, "finishedAt"): ABSENT,
            (*place, "attempts"): (attempts if type(attempts) is int else 0) + 1,
            (*place, "invocationId"): token,
            (*place, "leaseOwner"): owner,
            (*place, "leaseUntil"): utc_text(snapshot.read_us + int(self._settings.lease_s * 1_000_000)),
            (*place, "retryAt"): ABSENT,
            (*place, "error"): ABSENT,
        }
        try:
            return self._links.runs.call(self._runs.patch, snapshot, patch)
        except Failure as failure:
            raise FIRESTORE_CLAIM_FAILED(step_id=step_id, reason=_reason(failure)) from failure

    def _free(self, snapshot: Snapshot, at_us: int | None) -> list[str]:
        """Steps that are ready, known here, and have what they need."""
        return [step_id for step_id in self._ready(snapshot, at_us) if not unmet(snapshot.document, step_id)]

    def _ready(self, snapshot: Snapshot, at_us: int | None) -> list[str]:
        found = ready(snapshot.document, at_us=snapshot.read_us if at_us is None else at_us)
        return [step_id for step_id in found if self._work.knows(step_of(snapshot.document, step_id) or {})]

    def _idle(self, snapshot: Snapshot, at_us: int | None) -> Outcome:
        """Nothing can be claimed; a step may still have its artifact and not be finalised."""
        blocked = self._ready(snapshot, at_us)
        if blocked:
            return Outcome(result=DEPENDENCY_NOT_SUCCEEDED.code, step_id=blocked[0])
        for step_id in unfinalised(snapshot.document):
            task = Task(run_id=snapshot.run_id, step_id=step_id, document=snapshot.document)
            kept = self._found(task)
            if kept is not None:
                token = task.step.get("invocationId")
                claimed = Claimed(snapshot=snapshot, step_id=step_id, token=str(token))
                return self._succeed(claimed, task, kept)
        return Outcome(result=NO_READY_STEP.code)

    def _found(self, task: Task) -> Kept | None:
        if not self._work.knows(task.step):
            return None
        try:
            return self._work.found(task)
        except Failure as failure:
            if failure.code != ARTIFACT_CONFLICT.code:
                raise
            return None  # its own invocation meets the conflict, and fails with it

    # -- ends ------------------------------------------------------------------------------------------------------

    def _succeed(self, claimed: Claimed, task: Task, kept: Kept) -> Outcome:
        ending = {"state": StepState.SUCCEEDED.value, "outputs": {"gcs_uri": kept.uri}, "error": ABSENT}
        # What the artifact says it has cost is what an invocation before this one has paid.
        done = self._finalise(claimed, {**ending, "usage": (task.usage if task.usage.calls else kept.usage).field()})
        return Outcome(result=RunStatus.SUCCEEDED if done else STEP_FINALIZE_CONFLICT.code, step_id=claimed.step_id)

    def _fail(self, claimed: Claimed, task: Task, failure: Failure) -> Outcome:
        used = {"usage": task.usage.document()} if task.usage.calls else {}
        error = {"code": failure.code, "message": failure.message}
        lost = task.step.get("lost")
        failures = int(task.step.get("attempts") or 1) - (lost if type(lost) is int else 0)
        if not is_terminal(failure.code) and failures < self._settings.step_attempts_max:
            delay_s = failure.retry_after_s or self._backoff_s(failures)
            retry_us = claimed.now_us + int(delay_s * 1_000_000)
            ending = {"state": StepState.READY.value, "retryAt": utc_text(retry_us), "error": error, **used}
            done = self._finalise(claimed, ending, failure)
            result = StepState.READY.value
        else:
            done = self._finalise(claimed, {"state": StepState.FAILED.value, "error": error, **used}, failure)
            result, failure = RunStatus.FAILED.value, None  # type: ignore[assignment]  # it has ended for good
        if not done:
            return Outcome(result=STEP_FINALIZE_CONFLICT.code, step_id=claimed.step_id)
        return Outcome(result=result, step_id=claimed.step_id, code=error["code"], failure=failure)

    def _finalise(self, claimed: Claimed, ending: Mapping[str, Any], failure: Failure | None = None) -> bool:
        """Write the end of a step down; False when somebody else has ended or taken it."""
        try:
            return self._finalised(claimed, ending, failure)
        except Failure as broken:
            raise FIRESTORE_FINALIZE_FAILED(step_id=claimed.step_id, reason=_reason(broken)) from broken

    def _finalised(self, claimed: Claimed, ending: Mapping[str, Any], failure: Failure | None) -> bool:
        snapshot: Snapshot | None = claimed.snapshot
        fields = _ended(claimed, ending)
        patch: dict[tuple[str, ...], Any] = {("steps", claimed.step_id, name): one for name, one in fields.items()}
        for attempt in range(self._settings.finalize_tries):
            if attempt:
                self._wait(attempt)
                snapshot = self._get(claimed.snapshot.run_id)
            step = step_of(snapshot.document, claimed.step_id) if snapshot is not None else None
            if snapshot is None or step is None:
                return False
            if attempt and all(step.get(name, ABSENT) == value for name, value in fields.items()):
                return True  # only the reply was lost
            if not _is_held(step, claimed, ending):
                return False
            written = self._links.runs.call(self._runs.patch, snapshot, patch)
            if written is not None:
                self._tell(f"step.{str(ending['state']).lower()}", written, claimed.step_id, failure)
                return True
        raise CORE["CONFLICT"]("The run is changed all the time.")

    def _refuse(self, snapshot: Snapshot, failure: Failure) -> Outcome:
        """The whole run is invalid: this is the one error that stands on the run."""
        if snapshot.document.get("status") not in (RunStatus.FAILED, RunStatus.SUCCEEDED):
            error = {"code": failure.code, "message": failure.message}
            ending: dict[tuple[str, ...], Any] = {
                ("status",): RunStatus.FAILED.value,
                ("error",): error,
                ("finishedAt",): utc_text(snapshot.read_us),
            }
            self._links.runs.call(self._runs.patch, snapshot, ending)
        return Outcome(result=FLOW_RUN_INVALID.code, code=failure.code)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _recovered(self, snapshot: Snapshot, owner: str) -> Snapshot:
        """The run, with steps that an earlier invocation of the same owner left behind taken up again.

        Raises:
            Failure: FIRESTORE_UNAVAILABLE, when the run is changed all the time: to go on would leave the step behind.
        """
        for attempt in range(self._settings.finalize_tries):
            left = [
                step_id
                for step_id, step in snapshot.document["steps"].items()
                if step.get("state") == StepState.RUNNING and step.get("leaseOwner") == owner
            ]
            if not left:
                return snapshot
            written = self._reaper.recover(snapshot, left[0])
            if written is None:
                self._wait(attempt)
                written = self._get(snapshot.run_id)
            snapshot = written or snapshot
        raise FIRESTORE_UNAVAILABLE(reason="the run is changed all the time")

    def _get(self, run_id: str) -> Snapshot | None:
        return self._links.runs.call(self._runs.get, run_id)

    def _wait(self, attempt: int = 1) -> None:
        """Wait before another attempt against others; many of them at once need more room."""
        here, settings = world(), self._settings
        span = settings.claim_delay_max_s - settings.claim_delay_min_s
        here.sleep((settings.claim_delay_min_s + here.dice() * span) * max(1.0, attempt / CROWD))

    def _backoff_s(self, failures: int) -> float:
        settings = self._settings
        return float(min(settings.retry_max_s, settings.retry_base_s * settings.retry_factor ** (failures - 1)))

    @staticmethod
    def _tell(name: str, snapshot: Snapshot, step_id: str, failure: Failure | None = None) -> None:
        if not bus.listeners:
            return
        step = step_of(snapshot.document, step_id) or {}
        began = time_us(step.get("startedAt"))
        bus.tell(
            name,
            system="reports",
            run_id=snapshot.run_id,
            step_id=step_id,
            step_type=step.get("stepType"),
            attempt=step.get("attempts"),
            **({} if failure is None else {**failure.fault.facts, "technical": failure.technical}),
            duration_us=None if began is None or name == "step.claimed" else max(0, snapshot.read_us - began),
        )


def _ended(claimed: Claimed, ending: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that end a step: only what changes. The time tells our own end from that of another."""
    fields = {**ending, "leaseUntil": ABSENT, "leaseOwner": ABSENT}
    if ending["state"] in (StepState.SUCCEEDED, StepState.FAILED):
        fields["finishedAt"] = utc_text(claimed.now_us)
    return fields


def _is_held(step: Mapping[str, Any], claimed: Claimed, ending: Mapping[str, Any]) -> bool:
    """Whether the step may be ended by this invocation."""
    if step.get("state") == StepState.SUCCEEDED:
        # Somebody wrote the state and died before the outputs; the artifact is there.
        return not (step.get("outputs") or {}).get("gcs_uri") and ending["state"] == StepState.SUCCEEDED
    return step.get("state") == StepState.RUNNING and str(step.get("invocationId")) == claimed.token


def _reason(failure: Failure) -> str:
    return str(failure.details.get("reason") or failure.code)
