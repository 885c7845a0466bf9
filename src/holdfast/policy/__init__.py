"""What to do about it: backoff, retry, breaker, rate limit, budget, deadline. Pure: time and chance are arguments."""

from holdfast.policy.backoff import Backoff, PolicyInvalid
from holdfast.policy.decide import decide
from holdfast.policy.jitter import Between, Decorrelated, Dice, Equal, Extra, Full, Jitter, Spread
from holdfast.policy.retry import NEVER, Retry

__all__ = [
    "NEVER",
    "Backoff",
    "Between",
    "Decorrelated",
    "Dice",
    "Equal",
    "Extra",
    "Full",
    "Jitter",
    "PolicyInvalid",
    "Retry",
    "Spread",
    "decide",
]
