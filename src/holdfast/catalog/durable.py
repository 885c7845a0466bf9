"""The faults of durable work: transactions, jobs and idempotency keys. They belong to the core catalog."""

from __future__ import annotations

from holdfast.catalog.core import CORE
from holdfast.catalog.fault import Blame, Severity

_fault = CORE.fault

COMMIT_UNKNOWN = _fault(
    "COMMIT_UNKNOWN",
    status=503,
    says="It is not certain whether this was saved. Check before you try again.",
    technical="the connection was lost while committing",
    replayed=False,
    blame=Blame.SERVER,
    causes=("the database restarted or failed over in the moment of the commit",),
    remedy="Read the state and repeat what is missing, or repeat the request under the same idempotency key.",
    severity=Severity.WARNING,
    related=("DATABASE_CONNECTION_ERROR",),
)
TABLE_NAME_TAKEN = _fault(
    "TABLE_NAME_TAKEN",
    status=500,
    says="The database already has a table {table} that Holdfast did not create.",
    causes=("another program uses the same name", "the tables were copied without the list of migrations"),
    remedy="Rename that table, or keep ours apart: ?schema=holdfast in a PostgreSQL address, or another file.",
)

# -- jobs --------------------------------------------------------------------------------------------------------

JOB_NOT_FOUND = _fault(
    "JOB_NOT_FOUND",
    status=404,
    says="There is no such job.",
    causes=("a wrong id", "the job was discarded or pruned"),
    remedy="Check the id; finished jobs are kept for the retention time only.",
)
JOB_TIMEOUT = _fault(
    "JOB_TIMEOUT",
    status=504,
    says="This took too long.",
    says_retrying="This is taking too long. We’ll retry.",
    technical="the handler of {kind} ran longer than {timeout_s} s",
    retry=True,
    blame=Blame.SERVER,
    causes=("the handler waits for something that does not answer", "the time limit is too short for the work"),
    remedy="Look at the attempt's timeline; give the handler's calls time limits of their own.",
)
JOB_CANCELLED = _fault(
    "JOB_CANCELLED",
    status=409,
    says="This was cancelled.",
    blame=Blame.NO_OP,
    causes=("somebody cancelled the job", "the handler returned Cancel"),
    remedy="Revive the job if it should run after all.",
)
WORKER_LOST = _fault(
    "WORKER_LOST",
    status=503,
    says="This was interrupted.",
    says_retrying="This was interrupted. We’ll retry.",
    technical="the worker that held the job stopped renewing its lease",
    retry=True,
    blame=Blame.SERVER,
    causes=("the process was killed", "the job itself kills its worker", "the machine lost its network"),
    remedy="Look at what the worker logged last; a job that does this every time ends as a dead letter.",
    severity=Severity.WARNING,
)
HANDLERS_STUCK = _fault(
    "HANDLERS_STUCK",
    status=503,
    says="This is taking longer than usual.",
    technical="{count} handlers of {queue} ran out of time and never returned: this process takes no more of its jobs",
    retry=True,
    blame=Blame.SERVER,
    causes=("handlers wait without a time limit for something that does not answer", "handlers that never end"),
    remedy="Give the handlers' calls time limits of their own; until then, restart the worker to end its threads.",
    severity=Severity.CRITICAL,
    related=("JOB_TIMEOUT",),
)
KIND_UNKNOWN = _fault(
    "KIND_UNKNOWN",
    status=500,
    says="Something went wrong on our side.",
    technical="no handler is registered for {kind}",
    blame=Blame.SERVER,
    causes=("the worker runs older code than the one that enqueued", "a misspelt kind"),
    remedy="Deploy the handler, then revive the job.",
    severity=Severity.WARNING,
)
JOB_PAYLOAD_TOO_LARGE = _fault(
    "JOB_PAYLOAD_TOO_LARGE",
    status=413,
    says="The job's payload has {bytes} bytes; at most {bytes_max} are allowed.",
    causes=("a file or a document was put into the payload",),
    remedy="Store it as an artifact and put its name into the payload.",
)
JOB_RESULT_INVALID = _fault(
    "JOB_RESULT_INVALID",
    status=500,
    says="Something went wrong on our side.",
    technical="the work was done, but what the handler returned cannot be kept",
    blame=Blame.SERVER,
    causes=("the result has no JSON form", "the result is too large", "there is a secret in the result"),
    remedy="Return what JSON can say; store what is large as an artifact and return its name.",
    severity=Severity.WARNING,
    related=("JOB_PAYLOAD_TOO_LARGE",),
)
JOB_NOT_READY = _fault(
    "JOB_NOT_READY",
    status=409,
    says="The job has not finished yet.",
    retry=True,
    remedy="Ask again in a moment.",
)
JOB_NOT_DEAD = _fault(
    "JOB_NOT_DEAD",
    status=409,
    says="The job is {state}; only one that has failed can be revived or discarded.",
    causes=("somebody else has revived it", "it has not used its attempts yet"),
    remedy="Look at the job; cancel it first if it should end.",
    related=("JOB_NOT_FOUND",),
)
NO_DEAD_LETTER = frozenset({JOB_NOT_FOUND.code, JOB_NOT_DEAD.code})
"""Codes of a request to move a dead letter that does not exist, or no longer does: another request was faster."""
JOB_TWIN_EXISTS = _fault(
    "JOB_TWIN_EXISTS",
    status=409,
    says="A newer job does the same work already.",
    technical="the dedupe key is held by another job",
    causes=("the same work was enqueued again after this job failed",),
    remedy="Discard this one; the newer job has taken its place.",
)

# -- stored secrets ------------------------------------------------------------------------------------------------

SECRET_UNREADABLE = _fault(
    "SECRET_UNREADABLE",
    status=500,
    says="Something went wrong on our side.",
    technical="the stored secret of {place} cannot be decrypted with the key {key}: {reason}",
    retry=True,
    blame=Blame.SERVER,
    causes=("HOLDFAST_SECRET_KEY does not hold the key it was encrypted with", "the row was changed by hand"),
    remedy="Add the key to HOLDFAST_SECRET_KEY and start again, or give the endpoint a new secret.",
    severity=Severity.CRITICAL,
)

# -- idempotency keys ----------------------------------------------------------------------------------------------

IDEMPOTENCY_IN_PROGRESS = _fault(
    "IDEMPOTENCY_IN_PROGRESS",
    status=409,
    says="The same request is being worked on right now.",
    retry=True,
    blame=Blame.CONFLICT,
    causes=("the request was sent twice at the same time",),
    remedy="Ask again after the time in Retry-After; the answer will be the first one's.",
    related=("IDEMPOTENCY_PAYLOAD_MISMATCH",),
)
IDEMPOTENCY_PAYLOAD_MISMATCH = _fault(
    "IDEMPOTENCY_PAYLOAD_MISMATCH",
    status=409,
    says="This idempotency key was used for a different request.",
    blame=Blame.CONFLICT,
    causes=("a key was reused for other content",),
    remedy="Use a new key for a new request.",
    related=("IDEMPOTENCY_IN_PROGRESS",),
)
IDEMPOTENCY_KEY_INVALID = _fault(
    "IDEMPOTENCY_KEY_INVALID",
    status=400,
    says="An idempotency key has 1 to 255 printable characters.",
    causes=("an empty key", "a key that is too long", "control characters in the key"),
    remedy="Send a key of 1 to 255 printable characters, such as a UUID.",
)
IDEMPOTENCY_LOST = _fault(
    "IDEMPOTENCY_LOST",
    status=409,
    says="Another request has taken over this key.",
    technical="the lease on the key ran out before the work was done",
    replayed=False,
    blame=Blame.CONFLICT,
    causes=("the process was paused longer than the lease",),
    remedy="Roll back what belongs to this attempt; the other holder's answer counts.",
)
