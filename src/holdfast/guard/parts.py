"""What links, queues and handlers are put together from, looked at once when they are made: a part of the wrong type
would fail only later, in the middle of a call."""

from __future__ import annotations

import sys

from holdfast.policy.backoff import PolicyInvalid

PARTS = {
    "retry": ("holdfast.policy.retry", "Retry", "Retry(attempts={count})"),
    "breaker": ("holdfast.policy.breaker", "Breaker", "Breaker()"),
    "rate": ("holdfast.policy.rate_limit", "RateLimit", "RateLimit(count={count}, per_s=1)"),
    "concurrency": ("holdfast.policy.rate_limit", "Concurrency", "Concurrency(count={count})"),
    "budget": ("holdfast.policy.budget", "Budget", "Budget()"),
    "upstream": ("holdfast.catalog.catalog", "Catalog", "Catalog('bank')"),
    "classifier": ("holdfast.catalog.classify", "Classifier", "Classifier({{BankClosed: BANK_SILENT}})"),
}
"""The home and the name of each part's type, and how one is written."""
COUNT = 3
SHOWN_CHARS_MAX = 60


def check_parts(whole: str, /, **parts: object) -> None:
    """Refuse a part that is not of the right type.

    Raises:
        PolicyInvalid: it names the part, and how one is written.
    """
    for field, part in parts.items():
        if part is None:
            continue
        module, name, written = PARTS[field]
        # Nothing is imported for this: a caller that has such a part has loaded its module.
        kind = getattr(sys.modules.get(module), name, None)
        if kind is None or not isinstance(part, kind):
            given = f"the class {part.__name__}" if isinstance(part, type) else repr(part)[:SHOWN_CHARS_MAX]
            count = part if type(part) is int and part > 0 else COUNT
            raise PolicyInvalid(f"{whole}: {field}: {given} is not a {name}; write {written.format(count=count)}")
