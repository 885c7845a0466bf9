"""What can go wrong: faults, failures, dialects, and how foreign errors are read."""

from holdfast.catalog.catalog import Catalog, CodeTaken
from holdfast.catalog.context import Context, continued, current_context, enriched, new_request_id, obfuscated
from holdfast.catalog.core import CORE
from holdfast.catalog.failure import Failure
from holdfast.catalog.fault import Blame, Fault, FaultInvalid, RetryRule, Severity

__all__ = [
    "CORE",
    "Blame",
    "Catalog",
    "CodeTaken",
    "Context",
    "Failure",
    "Fault",
    "FaultInvalid",
    "RetryRule",
    "Severity",
    "continued",
    "current_context",
    "enriched",
    "new_request_id",
    "obfuscated",
]
