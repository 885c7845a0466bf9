"""The bodies of answers as JSON Schema, for the API's description."""

from __future__ import annotations

from typing import Any

from holdfast_systems.records.model import COMPANY_SHAPE, ID_SHAPE, PERSON_SHAPE, SLOT_SHAPE

Shape = dict[str, Any]

TEXT: Shape = {"type": "string"}
MOMENT: Shape = {"type": "string", "format": "date-time"}
COUNT: Shape = {"type": "integer", "minimum": 0}
COMPANY_UID: Shape = {"type": "string", "pattern": f"^{COMPANY_SHAPE}$"}
PERSON_UID: Shape = {"type": "string", "pattern": f"^{PERSON_SHAPE}$"}
SLOT_UID: Shape = {"type": "string", "pattern": f"^{SLOT_SHAPE}$"}
ID: Shape = {"type": "string", "pattern": f"^{ID_SHAPE}$"}


def optional(shape: Shape) -> Shape:
    """The shape, or null."""
    return {"anyOf": [shape, {"type": "null"}]}


def one_of(*values: str) -> Shape:
    """One of these words."""
    return {"type": "string", "enum": list(values)}


def record(title: str, /, **fields: Shape) -> Shape:
    """A body with all of these fields, and the request's id."""
    every = {**fields, "request_id": TEXT}
    return {"title": title, "type": "object", "required": list(every), "properties": every}


def listing(name: str, entry: Shape) -> Shape:
    """One page of a list."""
    return record(f"One page of {name}", **{name: {"type": "array", "items": entry}, "next_cursor": optional(TEXT)})


def inner(shape: Shape) -> Shape:
    """A record inside another body, where it has no request of its own."""
    fields = {name: value for name, value in shape["properties"].items() if name != "request_id"}
    return {"type": "object", "required": list(fields), "properties": fields}


SLOT = {
    "type": "object",
    "required": ["slot_uid", "role", "person_uid", "full_name", "assigned_at"],
    "properties": {
        "slot_uid": SLOT_UID,
        "role": one_of("CEO", "CFO", "HR"),
        "person_uid": optional(PERSON_UID),
        "full_name": optional(TEXT),
        "assigned_at": optional(MOMENT),
    },
}
CREATED_COMPANY = record(
    "The company and its slots were created",
    company_uid=COMPANY_UID,
    status=one_of("created"),
    slots_created=COUNT,
    created_at=MOMENT,
)
COMPANY = record(
    "A company with its slots",
    company_uid=COMPANY_UID,
    name=TEXT,
    website=optional(TEXT),
    industry=optional(TEXT),
    created_at=MOMENT,
    changed_at=MOMENT,
    title=optional(TEXT),
    description=optional(TEXT),
    contact_emails={"type": "array", "items": TEXT},
    social_links={"type": "array", "items": TEXT},
    enriched_at=optional(MOMENT),
    slots={"type": "array", "items": SLOT},
)
COMPANIES = listing("companies", inner(COMPANY))
REMOVED_COMPANY = record("The company was removed", company_uid=COMPANY_UID, status=one_of("deleted"))
CREATED_PERSON = record(
    "The person was created",
    person_uid=PERSON_UID,
    company_uid=COMPANY_UID,
    status=one_of("created"),
    created_at=MOMENT,
)
PERSON = record(
    "A person",
    person_uid=PERSON_UID,
    company_uid=COMPANY_UID,
    full_name=TEXT,
    email=TEXT,
    role=optional(TEXT),
    created_at=MOMENT,
    changed_at=MOMENT,
)
PEOPLE = listing("people", inner(PERSON))
REMOVED_PERSON = record(
    "The person was removed",
    person_uid=PERSON_UID,
    status=one_of("deleted"),
    slots_freed={"type": "array", "items": one_of("CEO", "CFO", "HR")},
)
ASSIGNED = record(
    "The slot as it is now",
    slot_uid=SLOT_UID,
    person_uid=optional(PERSON_UID),
    previous_occupant=optional(PERSON_UID),
    status=one_of("assigned", "reassigned", "unchanged"),
    assigned_at=optional(MOMENT),
)
FREED = record(
    "The slot is free",
    slot_uid=SLOT_UID,
    status=one_of("free"),
    person_uid={"type": "null"},
    previous_occupant=optional(PERSON_UID),
)
PENDING_REVIEW = record(
    "A person has to decide",
    review_id=ID,
    slot_uid=SLOT_UID,
    person_uid=PERSON_UID,
    current_occupant=PERSON_UID,
    status=one_of("pending_review"),
    created_at=MOMENT,
)
REVIEW = record(
    "A review",
    review_id=ID,
    slot_uid=SLOT_UID,
    company_uid=COMPANY_UID,
    person_uid=PERSON_UID,
    current_occupant=PERSON_UID,
    status=one_of("open", "approved", "rejected"),
    created_at=MOMENT,
    decided_at=optional(MOMENT),
    decided_by=optional(TEXT),
)
REVIEWS = listing("reviews", inner(REVIEW))
SCOPES: Shape = {
    "type": "array",
    "items": one_of("read", "write", "verify", "import"),
    "minItems": 1,
    "maxItems": 4,
}
ISSUED_KEY = record(
    "The key, shown this once",
    key_id=ID,
    api_key={"type": "string", "pattern": "^rdb_[0-9A-Za-z]{32}$"},
    account_id=TEXT,
    scopes=SCOPES,
    expires_at=MOMENT,
)
KEY = record(
    "A key",
    key_id=ID,
    account_id=TEXT,
    prefix=TEXT,
    scopes=SCOPES,
    created_at=MOMENT,
    expires_at=optional(MOMENT),
    revoked_at=optional(MOMENT),
)
KEYS = record("The keys of the account", keys={"type": "array", "items": inner(KEY)})
REVOKED_KEY = record("The key was revoked", key_id=TEXT, status=one_of("revoked"))
LIMIT = optional(COUNT)
QUOTA = record(
    "The quota of the account, and what it has used",
    account_id=TEXT,
    daily=LIMIT,
    monthly=LIMIT,
    per_minute=LIMIT,
    used={"type": "object", "required": ["daily", "monthly"], "properties": {"daily": COUNT, "monthly": COUNT}},
)
ACCOUNTS = record("Accounts", accounts={"type": "array", "items": TEXT})
WINDOW = record("The maintenance window", **{"from": MOMENT, "until": MOMENT})
OPEN = record("No maintenance", status=one_of("open"))
INNER_ERROR: Shape = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {
        "error_code": TEXT,
        "message": TEXT,
        "details": {"type": "object"},
        "retry_after": COUNT,
        "documentation_url": TEXT,
    },
}
STATUS = one_of("queued", "complete", "failed")
VERIFICATION = record(
    "A verification",
    verification_id=ID,
    email=TEXT,
    person_uid=optional(PERSON_UID),
    status=STATUS,
    provider=optional(TEXT),
    result=optional(one_of("valid", "invalid", "catch_all", "disposable", "risky", "unknown")),
    details=optional({"type": "object"}),
    error=optional(INNER_ERROR),
    created_at=MOMENT,
    completed_at=optional(MOMENT),
)
VERIFICATION_ASKED = record(
    "The verification that was asked for", **inner(VERIFICATION)["properties"], cached={"type": "boolean"}
)
VERIFICATIONS = listing("verifications", inner(VERIFICATION))
VERIFICATION_BODY: Shape = {
    "type": "object",
    "properties": {"email": {"type": "string", "format": "email", "maxLength": 254}, "person_uid": PERSON_UID},
    "additionalProperties": False,
    "minProperties": 1,
    "maxProperties": 1,
}
ENRICHED: Shape = {
    "type": "object",
    "required": ["title", "description", "contact_emails", "social_links"],
    "properties": {
        "title": optional(TEXT),
        "description": optional(TEXT),
        "contact_emails": {"type": "array", "items": TEXT},
        "social_links": {"type": "array", "items": TEXT},
    },
}
ENRICHMENT = record(
    "An enrichment",
    enrichment_id=ID,
    company_uid=COMPANY_UID,
    status=STATUS,
    outcome=optional(one_of("filled", "no_data")),
    reason=optional(TEXT),
    result=optional(ENRICHED),
    error=optional(INNER_ERROR),
    created_at=MOMENT,
    completed_at=optional(MOMENT),
)
IMPORT = record(
    "An import",
    import_id=ID,
    status=one_of("queued", "running", "complete", "failed"),
    format=one_of("ndjson", "csv"),
    bytes=COUNT,
    sha256=TEXT,
    rows_total=COUNT,
    rows_succeeded=COUNT,
    rows_failed=COUNT,
    progress={"type": "number", "minimum": 0, "maximum": 1},
    error=optional(INNER_ERROR),
    created_at=MOMENT,
    finished_at=optional(MOMENT),
)
IMPORTS = listing("imports", inner(IMPORT))
IMPORT_ROW: Shape = {
    "type": "object",
    "required": ["row", "status", "uid", "error_code", "message", "details"],
    "properties": {
        "row": {"type": "integer", "minimum": 1},
        "status": one_of("succeeded", "failed"),
        "uid": optional(TEXT),
        "error_code": optional(TEXT),
        "message": optional(TEXT),
        "details": optional({"type": "object"}),
    },
}
IMPORT_ROWS = listing("rows", IMPORT_ROW)
IMPORT_BODY: Shape = {"type": "string", "description": 'One row a line: {"type": "company" | "person", …}.'}
