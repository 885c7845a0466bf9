"""A typical occurrence of a fault, the same at every look, for pages and API descriptions."""

from __future__ import annotations

from holdfast.catalog import Context, Failure, Fault

CONTEXT = Context(request_id="req_9f8e7d6c5b4a392817065f4e", trace_id="4bf92f3577b34da6a3ce929d0e0e4736")
AT_US = 1_767_265_200_000_000
RETRY_AFTER_S = 30.0


def example(fault: Fault) -> Failure:
    """The fault's first example as a failure."""
    failure = Failure(
        fault,
        details=fault.examples[0] if fault.examples else {},
        context=CONTEXT,
        retry_after_s=RETRY_AFTER_S if fault.retryable else None,
    )
    failure.at_us = AT_US
    return failure
