"""What can go wrong in commerce: one catalog for the five services.

Always true: what an upstream says never becomes ours; each of its failures has a code here.
"""

from __future__ import annotations

from holdfast.catalog import Blame, Catalog, Fault, Severity
from holdfast.http import EDGE_FAULTS

NAME = "commerce"
COMMERCE = Catalog(NAME, docs="/errors/", extends=(EDGE_FAULTS,))
_fault = COMMERCE.fault
_refine = COMMERCE.refine

# -- requests ------------------------------------------------------------------------------------------------------

INVALID_REQUEST = _fault(
    "INVALID_REQUEST",
    status=400,
    says="The request is not valid.",
    causes=("the body is not JSON", "a field is missing, unknown or has the wrong type"),
    remedy="Correct the fields that the details name.",
    examples=({"errors": [{"field": "quantity", "constraint": "greater_than_equal", "message": "at least 1"}]},),
)
KEY_FORMATS = "saleor:<orderId>:<lineId>, or ui:<userId>:<instanceId>:<clientRunId>, or a UUID"
IDEMPOTENCY_KEY_REQUIRED = _refine(
    "IDEMPOTENCY_KEY_REQUIRED",
    says="This request needs the header Idempotency-Key.",
    remedy=f"Send `Idempotency-Key: {KEY_FORMATS}`, and the same key with every repeat.",
)
IDEMPOTENCY_KEY_MALFORMED = _fault(
    "IDEMPOTENCY_KEY_MALFORMED",
    status=400,
    says="This Idempotency-Key does not fit the request.",
    causes=("a key of the shop that names another order or line than the body",),
    remedy=f"Send a key of one of these forms: {KEY_FORMATS}.",
    examples=({"expected": "saleor:O1:L1"},),
    related=("IDEMPOTENCY_KEY_REQUIRED",),
)
_refine(
    "IDEMPOTENCY_PAYLOAD_MISMATCH",
    says="This was asked for before with another payload.",
    remedy="Repeat a request with exactly the same body, or use a new key.",
)
INVALID_SIGNATURE = _fault(
    "INVALID_SIGNATURE",
    status=401,
    says="The signature of this message is not valid.",
    blame=Blame.CLIENT,
    causes=("the message was changed on its way", "the sender signs with another key", "the signature is missing"),
    remedy="Sign the exact bytes of the body with a key that the shop publishes, or with the shared secret.",
    severity=Severity.WARNING,
)

# -- who may ----------------------------------------------------------------------------------------------------------

UNAUTHORIZED = _refine(
    "UNAUTHORIZED", says="A valid token is needed.", remedy="Send `Authorization: Bearer …` with a token in force."
)
NOT_ENTITLED = _fault(
    "NOT_ENTITLED",
    status=403,
    says="This token or plan does not allow that.",
    causes=("a buyer's token was used for something that only services may do", "the plan lacks the capability"),
    remedy="Use a token of the right kind, or upgrade the plan.",
    examples=({"capability": "rag"},),
)
INSUFFICIENT_CREDITS = _fault(
    "INSUFFICIENT_CREDITS",
    status=403,
    says="Not enough credits to run this instance.",
    blame=Blame.CLIENT,
    causes=("the wallet is empty", "other runs hold what is left"),
    remedy="Top up the wallet, or wait until running runs are settled.",
    examples=({"instanceId": "inst_1", "balance": 12, "requiredBudget": 25},),
)
INSTANCE_PAUSED = _fault(
    "INSTANCE_PAUSED",
    status=403,
    says="This instance is paused.",
    causes=("its owner or an operator paused it",),
    remedy="Resume the instance.",
    examples=({"instanceId": "inst_1"},),
)
ORIGIN_NOT_ALLOWED = _fault(
    "ORIGIN_NOT_ALLOWED",
    status=403,
    says="This website may not embed the instance.",
    causes=("the page's origin is not on the allowlist of the instance",),
    remedy="Add the origin to the allowlist of the instance.",
    examples=({"instanceId": "inst_1", "origin": "https://shop.example"},),
)
TOOL_NOT_ALLOWED = _fault(
    "TOOL_NOT_ALLOWED",
    status=403,
    says="This instance may not use that tool.",
    causes=("the tool is not on the allowlist of the instance", "its binding is disabled"),
    remedy="Add the tool to the allowlist of the instance and activate its binding.",
    examples=({"instanceId": "inst_1", "tool": "crm.note"},),
)

# -- what is not there ---------------------------------------------------------------------------------------------


def _missing(code: str, thing: str) -> Fault:
    return _fault(
        code,
        status=404,
        says=f"There is no such {thing}.",
        causes=("a wrong id", f"the {thing} belongs to another tenant"),
        remedy="Check the id.",
    )


INSTANCE_NOT_FOUND = _missing("INSTANCE_NOT_FOUND", "instance")
OFFERING_NOT_FOUND = _missing("OFFERING_NOT_FOUND", "offering")
PLAN_NOT_FOUND = _missing("PLAN_NOT_FOUND", "plan")
BINDING_NOT_FOUND = _missing("BINDING_NOT_FOUND", "binding")
WALLET_NOT_FOUND = _missing("WALLET_NOT_FOUND", "wallet")
RUN_NOT_FOUND = _missing("RUN_NOT_FOUND", "run")
RESERVATION_NOT_FOUND = _missing("RESERVATION_NOT_FOUND", "reservation")
TOOL_NOT_FOUND = _missing("TOOL_NOT_FOUND", "tool")
INGESTION_NOT_FOUND = _missing("INGESTION_NOT_FOUND", "ingestion")

# -- what contradicts ----------------------------------------------------------------------------------------------

ALREADY_EXISTS = _fault(
    "ALREADY_EXISTS",
    status=409,
    says="This exists already, and is different.",
    causes=("it was created before with other values",),
    remedy="Read what exists, or choose another id.",
)
RESERVATION_RELEASED = _fault(
    "RESERVATION_RELEASED",
    status=409,
    says="This reservation was released; nothing can be charged to it.",
    causes=("the run was released before it was settled",),
    remedy="Authorize a new run.",
    examples=({"reservationId": "res_1"},),
)
RESERVATION_SETTLED = _fault(
    "RESERVATION_SETTLED",
    status=409,
    says="This reservation was settled; it cannot be released.",
    causes=("the run was charged before it was released",),
    remedy="Read the wallet's entries; the charge stands.",
    examples=({"reservationId": "res_1", "ledgerEntryId": "led_1"},),
)
BINDING_INCOMPLETE = _fault(
    "BINDING_INCOMPLETE",
    status=422,
    says="The binding of this tool lacks fields that it needs.",
    causes=("the tool was bound before all its fields were known",),
    remedy="Set the fields that the details name.",
    examples=({"tool": "weather.read", "missing": ["secretPath"]},),
)
UNKNOWN_SKU = _fault(
    "UNKNOWN_SKU",
    status=422,
    says="No plan is sold under this product code.",
    causes=("a product of the shop that is not a plan or a top-up", "the plan was not created yet"),
    remedy="Create the plan with PUT /plans/{sku}; the shop sends the order again.",
    examples=({"productSku": "agent-gold"},),
    # The plan may be there by the time the same order comes again.
    replayed=False,
    severity=Severity.WARNING,
)
SETTLE_EXCEEDS_RESERVATION = _fault(
    "SETTLE_EXCEEDS_RESERVATION",
    status=422,
    says="More was to be charged than is reserved. Nothing was charged.",
    causes=("a run that used more than its budget",),
    remedy="Settle at most the reserved amount.",
    examples=({"reservationId": "res_1", "reserved": 5, "amount": 6},),
)

# -- limits ------------------------------------------------------------------------------------------------------------

RATE_LIMITED = _fault(
    "RATE_LIMITED",
    status=429,
    says="Too many requests. Wait a moment.",
    retry=True,
    blame=Blame.CLIENT,
    causes=("more requests in a minute than the instance or the website may send",),
    remedy="Wait for the time in Retry-After.",
)
CONCURRENT_RUNS_EXCEEDED = _fault(
    "CONCURRENT_RUNS_EXCEEDED",
    status=429,
    says="Too many runs of this instance are under way.",
    retry=True,
    blame=Blame.CLIENT,
    causes=("more runs at once than the plan allows",),
    remedy="Wait for the time in Retry-After, or for a run to end.",
    related=("RATE_LIMITED",),
)

# -- what is needed and away -----------------------------------------------------------------------------------------

PROVISIONING_INCOMPLETE = _fault(
    "PROVISIONING_INCOMPLETE",
    status=500,
    says="Not every line of the order was provisioned yet. Send the order again.",
    retry=True,
    causes=("the control plane is away or busy", "a line names a product that is not sold here"),
    remedy="The shop sends the order again; what is done stays done. The details name the lines that wait.",
    examples=({"orderId": "O1", "pending": [{"lineId": "L2", "code": "CONTROL_PLANE_UNAVAILABLE"}]},),
    replayed=False,
    severity=Severity.WARNING,
)
LINE_REFUSED = _fault(
    "LINE_REFUSED",
    status=502,
    says="The control plane did not accept a line of the order.",
    blame=Blame.SERVER,
    causes=("the line names a product that is not sold here", "the line was provisioned as something else before"),
    remedy="The details hold the control plane's own code; correct the plan, and the order is provisioned.",
    examples=({"lineId": "L1", "code": "UNKNOWN_SKU"},),
    replayed=False,
    severity=Severity.WARNING,
)
INSTALLATION_REFUSED = _fault(
    "INSTALLATION_REFUSED",
    status=401,
    says="This installation cannot be verified with the shop.",
    blame=Blame.CLIENT,
    causes=("the request names another shop than the settings", "the shop does not know the token"),
    remedy="Install the app from the shop that HOLDFAST_COMMERCE_SALEOR_URL names.",
    severity=Severity.WARNING,
)
UPSTREAM_ERROR = _refine("UPSTREAM_ERROR", remedy="Try again; what was asked for may have happened.")


def _away(code: str, says: str, remedy: str, *, severity: Severity = Severity.WARNING) -> Fault:
    return _fault(
        code,
        status=503,
        says=says,
        retry=True,
        blame=Blame.UPSTREAM,
        causes=("the service is down or does not answer", "its breaker is open after too many failures"),
        remedy=remedy,
        replayed=False,
        severity=severity,
    )


BILLING_UNAVAILABLE = _away(
    "BILLING_UNAVAILABLE",
    "Runs cannot be billed at the moment, so none is started.",
    "Wait until the control plane answers again; nothing was charged.",
    severity=Severity.CRITICAL,
)
EXECUTION_UNAVAILABLE = _away(
    "EXECUTION_UNAVAILABLE", "The agent cannot run at the moment.", "Wait; nothing was charged for this run."
)
VAULT_UNAVAILABLE = _away(
    "VAULT_UNAVAILABLE",
    "Secrets cannot be read at the moment, so the tool was not run.",
    "Wait until the vault answers again.",
    severity=Severity.CRITICAL,
)
CONNECTORS_UNAVAILABLE = _away(
    "CONNECTORS_UNAVAILABLE", "Tools cannot be used at the moment.", "Wait; no tool was run."
)
RAG_UNAVAILABLE = _away(
    "RAG_UNAVAILABLE",
    "The knowledge base cannot be asked at the moment.",
    "Wait; ingestions are retried by themselves.",
)
STORAGE_UNAVAILABLE = _away(
    "STORAGE_UNAVAILABLE", "Files cannot be stored or read at the moment.", "Wait until the object store answers again."
)
RUN_TIMEOUT = _fault(
    "RUN_TIMEOUT",
    status=504,
    says="The agent did not finish in time.",
    causes=("the run takes longer than the plan allows",),
    remedy="Ask for less in one run, or raise the run's time limit on the plan.",
    related=("EXECUTION_UNAVAILABLE",),
)
RUN_INTERRUPTED = _fault(
    "RUN_INTERRUPTED",
    status=502,
    says="The run was interrupted. Nothing was charged.",
    blame=Blame.SERVER,
    causes=("the process that executed it died", "it took longer than its lease"),
    remedy="Where `mayHaveRun` is true, check what the run has done, then send it again under a new clientRunId.",
    examples=({"runId": "run_1", "mayHaveRun": True},),
    related=("RUN_TIMEOUT", "EXECUTION_UNAVAILABLE"),
    severity=Severity.WARNING,
)
TOOL_TIMEOUT = _fault(
    "TOOL_TIMEOUT",
    status=504,
    says="The tool did not answer in time.",
    causes=("the tool's service is slow or gone",),
    remedy="Try again; what a writing tool was asked for may have happened.",
)

REMAP: dict[str, Fault] = {
    "VALIDATION_ERROR": INVALID_REQUEST,
    "INVALID_JSON": INVALID_REQUEST,
    "BAD_REQUEST": INVALID_REQUEST,
    "FORBIDDEN": NOT_ENTITLED,
    "RATE_LIMIT_EXCEEDED": RATE_LIMITED,
}
"""Codes of the edge, and the faults that stand for them in every service: `Edge(…, remap=REMAP)`."""


def catalog_at(root: str) -> Catalog:
    """The same catalog with addresses of its pages that can be opened from anywhere; `root` has no slash at the end."""
    return Catalog(NAME, docs=f"{root}/errors/", extends=(COMMERCE,))


# Declared in a file of its own; imported here so that a reader of this catalog sees all of it.
from holdfast_systems.commerce import faults_outside as _faults_outside  # noqa: E402, F401
