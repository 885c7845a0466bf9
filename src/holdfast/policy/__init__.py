"""What to do about it: backoff, retry, breaker, rate limit, budget, deadline. Time and chance are arguments."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily
from holdfast.policy.backoff import Backoff, PolicyInvalid
from holdfast.policy.deadline import (
    DEADLINE_HEADER,
    Deadline,
    current_deadline,
    deadline_at,
    from_header,
    left_s,
    to_header,
    within,
)
from holdfast.policy.decide import decide
from holdfast.policy.jitter import Between, Decorrelated, Dice, Equal, Extra, Full, Jitter, Spread
from holdfast.policy.retry import NEVER, Retry

if TYPE_CHECKING:
    from holdfast.policy.breaker import Breaker
    from holdfast.policy.budget import Budget, Purse
    from holdfast.policy.circuit import Circuit, Rejected
    from holdfast.policy.cron import Cron, CronInvalid, Every, read_schedule
    from holdfast.policy.overlay import OverlayInvalid, apply_overlay, load_overlay
    from holdfast.policy.rate_limit import Allowed, Bucket, Concurrency, Limited, RateLimit, Slots

# Not every link has these, and few services all of them: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    {"Breaker": "holdfast.policy.breaker"}
    | dict.fromkeys(("Circuit", "Rejected"), "holdfast.policy.circuit")
    | dict.fromkeys(("Budget", "Purse"), "holdfast.policy.budget")
    | dict.fromkeys(("Allowed", "Bucket", "Concurrency", "Limited", "RateLimit", "Slots"), "holdfast.policy.rate_limit")
    | dict.fromkeys(("Cron", "CronInvalid", "Every", "read_schedule"), "holdfast.policy.cron")
    | dict.fromkeys(("OverlayInvalid", "apply_overlay", "load_overlay"), "holdfast.policy.overlay"),
)

__all__ = [
    "DEADLINE_HEADER",
    "NEVER",
    "Allowed",
    "Backoff",
    "Between",
    "Breaker",
    "Bucket",
    "Budget",
    "Circuit",
    "Concurrency",
    "Cron",
    "CronInvalid",
    "Deadline",
    "Decorrelated",
    "Dice",
    "Equal",
    "Every",
    "Extra",
    "Full",
    "Jitter",
    "Limited",
    "OverlayInvalid",
    "PolicyInvalid",
    "Purse",
    "RateLimit",
    "Rejected",
    "Retry",
    "Slots",
    "Spread",
    "apply_overlay",
    "current_deadline",
    "deadline_at",
    "decide",
    "from_header",
    "left_s",
    "load_overlay",
    "read_schedule",
    "to_header",
    "within",
]
