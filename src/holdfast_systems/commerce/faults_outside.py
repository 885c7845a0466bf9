"""What can go wrong with tools, secrets, uploads and ingestions: the rest of the catalog of commerce."""

from __future__ import annotations

from holdfast.catalog import Blame, Severity
from holdfast_systems.commerce.faults import COMMERCE

_fault = COMMERCE.fault

CONTROL_PLANE_UNAVAILABLE = _fault(
    "CONTROL_PLANE_UNAVAILABLE",
    status=503,
    says="The control plane does not answer at the moment, so nothing was done.",
    retry=True,
    blame=Blame.UPSTREAM,
    causes=("the control plane is down or overloaded", "the network to it is down"),
    remedy="Wait until the control plane answers again.",
    examples=({"reason": "http_503"},),
    replayed=False,
    severity=Severity.CRITICAL,
    related=("BILLING_UNAVAILABLE",),
)

# -- tools -----------------------------------------------------------------------------------------------------------

TOOL_UNAVAILABLE = _fault(
    "TOOL_UNAVAILABLE",
    status=503,
    says="The tool's service does not answer at the moment.",
    technical="the tool {tool} is unavailable: {reason}",
    retry=True,
    blame=Blame.UPSTREAM,
    causes=("the tool's service is down or overloaded", "the connection broke before it answered"),
    remedy="Try again later. When `outcome` is `unknown`, what a writing tool was asked for may have happened.",
    examples=({"tool": "weather.read", "reason": "http_503", "outcome": "not_run"},),
    replayed=False,
    severity=Severity.WARNING,
    related=("TOOL_TIMEOUT", "TOOL_REFUSED"),
)
TOOL_REFUSED = _fault(
    "TOOL_REFUSED",
    status=422,
    says="The tool refused the call.",
    technical="the tool {tool} refused the call: {reason}",
    blame=Blame.CLIENT,
    causes=("the arguments are not what the tool takes", "the object that the arguments name does not exist"),
    remedy="Correct the arguments; the tool's own documentation says what it takes.",
    examples=({"tool": "crm.order", "reason": "http_400"},),
    related=("TOOL_UNAVAILABLE",),
)
SECRET_NOT_FOUND = _fault(
    "SECRET_NOT_FOUND",
    status=422,
    says="The secret of this tool is not in the vault, so the tool was not run.",
    technical="the vault has no secret for the tool {tool} at the path of its binding, or it lacks the field {field}",
    blame=Blame.SERVER,
    causes=("the secret was never stored, or was deleted", "the binding names a wrong path"),
    remedy="Store the secret in the vault at the path of the binding, under the field that the details name.",
    examples=({"tool": "weather.read", "field": "token"},),
    severity=Severity.WARNING,
    related=("VAULT_REFUSED", "VAULT_UNAVAILABLE"),
)
VAULT_REFUSED = _fault(
    "VAULT_REFUSED",
    status=502,
    says="The vault refuses our token, so the tool was not run.",
    technical="the vault refuses to read the secret of the tool {tool}: {reason}",
    blame=Blame.SERVER,
    causes=("the token of the connectors has expired", "its policy does not allow the path of the binding"),
    remedy="Set HOLDFAST_COMMERCE_VAULT_TOKEN to a token whose policy may read the path.",
    examples=({"tool": "weather.read", "reason": "http_403"},),
    severity=Severity.CRITICAL,
    related=("SECRET_NOT_FOUND", "VAULT_UNAVAILABLE"),
)

# -- uploads and ingestions --------------------------------------------------------------------------------------------

UPLOAD_NOT_FOUND = _fault(
    "UPLOAD_NOT_FOUND",
    status=404,
    says="There is no such upload.",
    causes=("a wrong id", "the upload belongs to another tenant"),
    remedy="Check the id.",
)
UPLOADS_EXCEEDED = _fault(
    "UPLOADS_EXCEEDED",
    status=403,
    says="This instance has as many files as it may have.",
    causes=("more uploads than the limit allows",),
    remedy="Raise HOLDFAST_COMMERCE_UPLOADS_MAX, or wait a day for files that were announced and never ingested.",
    examples=({"instanceId": "inst_1", "limit": 1_000},),
)
UPLOAD_EXPIRED = _fault(
    "UPLOAD_EXPIRED",
    status=403,
    says="This upload address is not valid, or no longer.",
    causes=("the address was used after its time", "the address was changed"),
    remedy="Ask for a new upload and use its address in time, with exactly the headers that come with it.",
)
UPLOAD_MISMATCH = _fault(
    "UPLOAD_MISMATCH",
    status=400,
    says="The file is not the one that was announced: {reason}.",
    causes=("another size or content type than in the request for the upload",),
    remedy="Send exactly the announced number of bytes with the announced content type.",
    examples=({"reason": "it has 3 bytes, not 12"},),
)
UPLOAD_INCOMPLETE = _fault(
    "UPLOAD_INCOMPLETE",
    status=409,
    says="The file of this upload has not arrived.",
    retry=True,
    blame=Blame.CLIENT,
    causes=("the file was not sent to the address of the upload, or the sending failed",),
    remedy="Send the file to the upload's address, then ask for the ingestion again.",
    examples=({"uploadId": "upl_1"},),
    replayed=False,
)
INGESTION_REFUSED = _fault(
    "INGESTION_REFUSED",
    status=422,
    says="The knowledge base does not take this file.",
    technical="RAGFlow refused the document: code {rag_code}",
    blame=Blame.CLIENT,
    causes=("a file type that is not supported", "a file that cannot be read"),
    remedy="Upload the content as another type of file.",
    examples=({"rag_code": 102},),
)
INGESTION_EXPIRED = _fault(
    "INGESTION_EXPIRED",
    status=503,
    says="The file could not be ingested in the time that an ingestion has.",
    blame=Blame.UPSTREAM,
    causes=("the knowledge base or the object store was away for too long", "the file could not be parsed"),
    remedy="When they are back, ask for a new ingestion of the same file with a new upload.",
    severity=Severity.WARNING,
)
RAG_PARSING_FAILED = _fault(
    "RAG_PARSING_FAILED",
    status=502,
    says="The knowledge base could not read the file.",
    retry=True,
    blame=Blame.UPSTREAM,
    causes=("a damaged file", "the models that RAGFlow uses are away"),
    remedy="It is tried again by itself; look at the document in RAGFlow when it does not succeed.",
    severity=Severity.WARNING,
)
