"""What can go wrong: faults, failures, dialects, and how foreign errors are read."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily
from holdfast.catalog.catalog import Catalog, CodeTaken
from holdfast.catalog.classify import DEFAULT_CLASSIFIER, Classifier, Reader, Reading, Readings
from holdfast.catalog.context import Context, continued, current_context, enriched, new_request_id, obfuscated
from holdfast.catalog.core import CORE
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.catalog.edge_faults import ADDRESS_REFUSED, REDIRECT_REFUSED, RESPONSE_TOO_LARGE
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import Blame, Fault, FaultInvalid, RetryRule, Severity
from holdfast.catalog.network import NETWORK_CODES, Wrapper
from holdfast.catalog.remote import Remote
from holdfast.catalog.retry_after import retry_after_s
from holdfast.catalog.status import DEFAULT_STATUSES, HTTP_STATUSES, StatusTable

if TYPE_CHECKING:
    from holdfast.catalog.answered import classify_status
    from holdfast.catalog.dialect import Dialect, Rendered, document, render
    from holdfast.catalog.parsing import Received, dialect_of, parse

# Needed at an edge: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    dict.fromkeys(("Dialect", "Rendered", "document", "render"), "holdfast.catalog.dialect")
    | dict.fromkeys(("Received", "dialect_of", "parse"), "holdfast.catalog.parsing")
    | {"classify_status": "holdfast.catalog.answered"},
)

__all__ = [
    "ADDRESS_REFUSED",
    "COMMIT_UNKNOWN",
    "CORE",
    "DEFAULT_CLASSIFIER",
    "DEFAULT_STATUSES",
    "HTTP_STATUSES",
    "NETWORK_CODES",
    "REDIRECT_REFUSED",
    "RESPONSE_TOO_LARGE",
    "Blame",
    "Catalog",
    "Classifier",
    "CodeTaken",
    "Context",
    "Dialect",
    "Failure",
    "Fault",
    "FaultInvalid",
    "Reader",
    "Reading",
    "Readings",
    "Received",
    "Remote",
    "Rendered",
    "RetryRule",
    "Severity",
    "StatusTable",
    "Wrapper",
    "classify_status",
    "continued",
    "current_context",
    "dialect_of",
    "document",
    "enriched",
    "new_request_id",
    "obfuscated",
    "parse",
    "render",
    "retry_after_s",
]
