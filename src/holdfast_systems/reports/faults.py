"""What can go wrong with a flow run: one set of codes for steps, runs, answers and logs."""

from __future__ import annotations

from holdfast.artifact import ARTIFACT_FAULTS
from holdfast.catalog import Blame, Catalog, Severity

REPORTS = Catalog("reports", docs="/errors/")
_fault = REPORTS.fault

# -- configuration and contract: the same again ends the same ----------------------------------------------------

FLOW_RUN_NOT_FOUND = _fault(
    "FLOW_RUN_NOT_FOUND",
    status=404,
    says="There is no such flow run.",
    technical="there is no flow run {run_id}",
    causes=("an event of a run that was deleted", "a mistyped run id"),
    remedy="Check the run id. A stale event needs nothing.",
    examples=({"run_id": "run_7"},),
)
FLOW_RUN_INVALID = _fault(
    "FLOW_RUN_INVALID",
    status=422,
    says="This is not a flow run: {reason}.",
    technical="the document is not a flow run: {reason} ({field})",
    causes=("no steps, or steps of an unknown type", "dependencies that do not exist or form a cycle"),
    remedy="Correct the field that is named and submit the run under a new id.",
    examples=({"field": "steps", "reason": "it has no steps"},),
)
STEP_NOT_FOUND = _fault(
    "STEP_NOT_FOUND",
    status=404,
    says="The flow run has no such step.",
    technical="the run {run_id} has no step {step_id}",
    causes=("a mistyped step id",),
    remedy="Look at the run: its steps are listed there.",
    examples=({"run_id": "run_7", "step_id": "report"},),
)
RUN_ID_TAKEN = _fault(
    "RUN_ID_TAKEN",
    status=409,
    says="Another flow run has this id already.",
    technical="the run {run_id} was submitted with another body",
    causes=("the id was used for another run", "a client that makes the same id twice"),
    remedy="Submit the run under an id of its own.",
    examples=({"run_id": "run_7"},),
)
REPORT_NOT_READY = _fault(
    "REPORT_NOT_READY",
    status=409,
    says="This step has no report yet.",
    technical="the step {step_id} is {state} and has no artifact",
    retry=True,
    blame=Blame.CLIENT,
    causes=("the step has not ended", "the step has failed"),
    remedy="Wait until the step has succeeded.",
    examples=({"step_id": "report", "state": "RUNNING"},),
)
RERUN_REFUSED = _fault(
    "RERUN_REFUSED",
    status=409,
    says="This step cannot be run again: {reason}.",
    technical="the step {step_id} cannot be run again: {reason}",
    causes=("the step has not ended", "the run has as many steps as it may have"),
    remedy="Wait until the step has ended, or submit a new run.",
    examples=({"step_id": "report", "reason": "it is RUNNING"},),
)
PROMPT_NOT_FOUND = _fault(
    "PROMPT_NOT_FOUND",
    status=404,
    says="The prompt {prompt_id} does not exist.",
    causes=("the prompt was never stored", "a mistyped prompt id"),
    remedy="Store the prompt, then run the step again.",
    examples=({"prompt_id": "daily"},),
)
SCHEMA_NOT_FOUND = _fault(
    "SCHEMA_NOT_FOUND",
    status=404,
    says="The schema {schema_id} does not exist.",
    causes=("the schema was never stored", "a mistyped schema id"),
    remedy="Store the schema under this id.",
    examples=({"schema_id": "llm_report_output_v1"},),
)
LLM_PROFILE_INVALID = _fault(
    "LLM_PROFILE_INVALID",
    status=422,
    says="The model's settings cannot be used: {reason}.",
    technical="inputs.llm.llmProfile cannot be used: {reason}",
    causes=(
        "a field of the profile is missing or has a value that is not supported",
        "the schema is missing, broken, or does not require summary.markdown and details",
        "the model or the endpoint has no structured output, or refuses the credentials",
    ),
    remedy="Correct the profile or the schema, then run the step again.",
    examples=({"reason": "candidateCount is 2, not 1"},),
)
INVALID_STEP_INPUTS = _fault(
    "INVALID_STEP_INPUTS",
    status=422,
    says="The step's inputs cannot be used: {reason}.",
    technical="the inputs of the step {step_id} cannot be used: {reason}",
    causes=(
        "a reference to a step is missing or wrong",
        "a referenced step has no outputs.gcs_uri",
        "data that is not OHLCV",
    ),
    remedy="Correct the inputs in a new run.",
    examples=({"step_id": "report", "reason": "inputs.ohlcvStepId is missing"},),
)
LLM_SAFETY_BLOCK = _fault(
    "LLM_SAFETY_BLOCK",
    status=422,
    says="The model's safety filters refused to write this report.",
    technical="the model blocked the generation: {reason}",
    blame=Blame.CLIENT,
    causes=("the prompt or the data met a safety filter of the provider",),
    remedy="Change the prompt. The same prompt meets the same filter.",
    examples=({"reason": "SAFETY"},),
)
INVALID_STRUCTURED_OUTPUT = _fault(
    "INVALID_STRUCTURED_OUTPUT",
    status=502,
    says="The model's answer does not have the required form.",
    technical="the structured output is invalid: {reason}",
    blame=Blame.UPSTREAM,
    causes=("the answer is not JSON, is cut off, or violates the schema", "the repair attempt did not help"),
    remedy="Look at the prompt and the schema, then rerun the step by hand: a rerun is a new step.",
    examples=({"reason": "summary: 'markdown' is a required property"},),
    severity=Severity.WARNING,
)
BUDGET_EXCEEDED = _fault(
    "BUDGET_EXCEEDED",
    status=402,
    says="The run's budget is used up.",
    technical="the run has cost {spent_usd} USD of {budget_usd} USD; the next call is refused",
    blame=Blame.CLIENT,
    causes=("earlier calls of the run have cost as much as the run may cost",),
    remedy="Submit a run with a larger budget, or raise HOLDFAST_REPORTS_BUDGET_USD.",
    examples=({"spent_usd": 0.52, "budget_usd": 0.5},),
)
DEPENDENCY_FAILED = _fault(
    "DEPENDENCY_FAILED",
    status=424,
    says="A step that this one needs has failed.",
    technical="the step depends on {dependency}, which has failed",
    causes=("a step before this one failed for good",),
    remedy="Rerun the failed step, then this one.",
    examples=({"dependency": "ohlcv"},),
)
STEP_LEASE_EXPIRED = _fault(
    "STEP_LEASE_EXPIRED",
    status=500,
    says="The step was started and never finished.",
    technical="the lease of the step ended {lost} times without a result",
    causes=("the process died or was cut off while it worked on the step",),
    remedy="Look at why processes end in the middle of this step, then rerun it.",
    examples=({"lost": 2},),
    severity=Severity.WARNING,
)
CHART_FAILED = _fault(
    "CHART_FAILED",
    status=500,
    says="The charts could not be drawn.",
    technical="the charts could not be drawn: {reason}",
    causes=("a bug", "a chart library that is not installed"),
    remedy="The log has the traceback.",
    examples=({"reason": "ModuleNotFoundError"},),
    severity=Severity.WARNING,
)
ARTIFACT_CONFLICT = ARTIFACT_FAULTS["ARTIFACT_CONFLICT"]

# -- transient ---------------------------------------------------------------------------------------------------

FIRESTORE_UNAVAILABLE = _fault(
    "FIRESTORE_UNAVAILABLE",
    status=503,
    says="The run cannot be read or written at the moment.",
    technical="the store of flow runs is unavailable: {reason}",
    retry=True,
    blame=Blame.SERVER,
    causes=("the store is restarting, overloaded or cannot be reached",),
    remedy="Nothing is lost; the event is delivered again.",
    examples=({"reason": "UNAVAILABLE"},),
    severity=Severity.WARNING,
    related=("FIRESTORE_CLAIM_FAILED", "FIRESTORE_FINALIZE_FAILED"),
)
FIRESTORE_CLAIM_FAILED = _fault(
    "FIRESTORE_CLAIM_FAILED",
    status=503,
    says="The step could not be started.",
    technical="the claim of the step {step_id} failed: {reason}",
    retry=True,
    blame=Blame.SERVER,
    causes=("the store failed in the middle of a claim; this is not a lost race",),
    remedy="Nothing is lost; the event is delivered again.",
    examples=({"step_id": "report", "reason": "UNAVAILABLE"},),
    severity=Severity.WARNING,
)
FIRESTORE_FINALIZE_FAILED = _fault(
    "FIRESTORE_FINALIZE_FAILED",
    status=503,
    says="The step has ended, but its end could not be written down yet.",
    technical="the final patch of the step {step_id} failed: {reason}",
    retry=True,
    blame=Blame.SERVER,
    causes=("the store failed after the artifact was written",),
    remedy="The next event finds the artifact and finalises the step without another call of the model.",
    examples=({"step_id": "report", "reason": "UNAVAILABLE"},),
    severity=Severity.WARNING,
)
GCS_WRITE_FAILED = _fault(
    "GCS_WRITE_FAILED",
    status=503,
    says="The result could not be stored.",
    technical="the artifact {name} could not be written: {reason}",
    retry=True,
    blame=Blame.SERVER,
    causes=("the storage is down, full, or refuses the credentials",),
    remedy="Check the storage, then rerun the step.",
    examples=({"name": "runs/run_7/report.json", "reason": "STORAGE_UNAVAILABLE"},),
    severity=Severity.CRITICAL,
)
GCS_READ_FAILED = _fault(
    "GCS_READ_FAILED",
    status=503,
    says="The step's inputs could not be read at the moment.",
    technical="the artifact {name} could not be read: {reason}",
    retry=True,
    blame=Blame.SERVER,
    causes=("the storage is down or refuses the credentials",),
    remedy="Check the storage, then rerun the step.",
    examples=({"name": "runs/run_7/ohlcv.json", "reason": "STORAGE_UNAVAILABLE"},),
    severity=Severity.WARNING,
)
GEMINI_REQUEST_FAILED = _fault(
    "GEMINI_REQUEST_FAILED",
    status=502,
    says="The model did not answer.",
    technical="the call of the model failed: {reason}",
    retry=True,
    causes=("the model's service is down or overloaded", "the connection broke", "there was no answer in time"),
    remedy="Rerun the step when the service is well again.",
    examples=({"reason": "HTTP 500"},),
    severity=Severity.WARNING,
    related=("RATE_LIMITED",),
)
RATE_LIMITED = _fault(
    "RATE_LIMITED",
    status=429,
    says="The model's quota is used up at the moment.",
    technical="the model answered 429: {reason}",
    retry=True,
    blame=Blame.UPSTREAM,
    causes=("more calls or tokens per minute than the quota allows",),
    remedy="Wait, ask for a larger quota, or lower HOLDFAST_REPORTS_MODEL_CONCURRENCY.",
    examples=({"reason": "RESOURCE_EXHAUSTED"},),
    severity=Severity.WARNING,
    related=("GEMINI_REQUEST_FAILED",),
)

# -- not a failure: nothing was to be done, or another invocation did it -------------------------------------------

NO_READY_STEP = _fault(
    "NO_READY_STEP",
    status=200,
    says="No step of the run is ready.",
    blame=Blame.NO_OP,
    causes=("an event that comes twice or late", "all steps have ended or wait for others"),
    remedy="Nothing needs to be done.",
)
DEPENDENCY_NOT_SUCCEEDED = _fault(
    "DEPENDENCY_NOT_SUCCEEDED",
    status=200,
    says="The step waits for a step that has not succeeded.",
    blame=Blame.NO_OP,
    causes=("the step was marked as ready before the steps that it needs had succeeded",),
    remedy="Nothing needs to be done.",
)
STEP_CLAIM_CONFLICT = _fault(
    "STEP_CLAIM_CONFLICT",
    status=200,
    says="Another invocation has started the step.",
    blame=Blame.NO_OP,
    causes=("two events of one run at the same time",),
    remedy="Nothing needs to be done.",
    related=("STEP_FINALIZE_CONFLICT",),
)
STEP_FINALIZE_CONFLICT = _fault(
    "STEP_FINALIZE_CONFLICT",
    status=200,
    says="Another invocation has ended the step.",
    blame=Blame.NO_OP,
    causes=("two invocations worked on one step, for example because the lease of the first had expired",),
    remedy="Nothing needs to be done.",
    related=("STEP_CLAIM_CONFLICT",),
)
