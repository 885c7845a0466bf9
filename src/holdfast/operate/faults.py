"""What an operator's action is refused for, beyond what the parts themselves refuse."""

from __future__ import annotations

from holdfast.catalog import Blame, Catalog

OPERATE = Catalog("operate", docs="/errors/")

NOTHING_CHANGED = OPERATE.fault(
    "NOTHING_CHANGED",
    status=409,
    says="Nothing was changed: it is in that state already, or another operator was faster.",
    blame=Blame.NO_OP,
    remedy="Look at its present state.",
)
JOB_ENDED = OPERATE.fault(
    "JOB_ENDED",
    status=409,
    says="The job has ended already: it is {state}.",
    blame=Blame.NO_OP,
    remedy="There is nothing left to cancel.",
)
ID_AMBIGUOUS = OPERATE.fault(
    "ID_AMBIGUOUS",
    status=409,
    says="Several jobs have an id that begins with {prefix}: {candidates}.",
    blame=Blame.CLIENT,
    causes=("the first digits of an id are the time at which the job was enqueued",),
    remedy="Give more of the id.",
)
QUEUE_NOT_FOUND = OPERATE.fault(
    "QUEUE_NOT_FOUND",
    status=404,
    says="There is no queue named {name}.",
    causes=("a misspelt name", "no job was ever enqueued there and no worker serves it"),
    remedy="`holdfast queues status` lists every queue.",
)
BREAKER_NOT_FOUND = OPERATE.fault(
    "BREAKER_NOT_FOUND",
    status=404,
    says="There is no breaker named {name}.",
    causes=("a misspelt name", "no breaker of this name has ever moved"),
    remedy="`holdfast breakers list` lists every breaker.",
)
API_KEY_NOT_FOUND = OPERATE.fault(
    "API_KEY_NOT_FOUND",
    status=404,
    says="There is no API key with this id.",
    causes=("a wrong id",),
    remedy="`holdfast keys list` lists every key.",
)
ACTION_NOT_FOUND = OPERATE.fault(
    "ACTION_NOT_FOUND",
    status=404,
    says="There is no such entry in the audit.",
    causes=("a wrong id", "the entry was pruned"),
    remedy="`holdfast audit` lists the entries.",
)
ACTION_NOT_RESUMABLE = OPERATE.fault(
    "ACTION_NOT_RESUMABLE",
    status=409,
    says="This work cannot be resumed: it is {state}.",
    blame=Blame.CONFLICT,
    causes=("it has ended", "another process is doing it right now", "it was not work on many dead letters"),
    remedy="Begin it anew with the same filter.",
)
