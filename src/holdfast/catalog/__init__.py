"""What can go wrong: faults, failures, dialects, and how foreign errors are read."""

from holdfast.catalog.catalog import Catalog, CodeTaken
from holdfast.catalog.context import Context, continued, current_context, enriched, new_request_id, obfuscated
from holdfast.catalog.core import CORE
from holdfast.catalog.dialect import Dialect, Rendered, document, render
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import Blame, Fault, FaultInvalid, RetryRule, Severity
from holdfast.catalog.parse import Received, dialect_of, parse
from holdfast.catalog.retry_after import retry_after_s

__all__ = [
    "COMMIT_UNKNOWN",
    "CORE",
    "Blame",
    "Catalog",
    "CodeTaken",
    "Context",
    "Dialect",
    "Failure",
    "Fault",
    "FaultInvalid",
    "Received",
    "Rendered",
    "RetryRule",
    "Severity",
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
