"""One protected call, here and now."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily
from holdfast.guard.attempts import Attempt, Attempts
from holdfast.guard.key import current_key, under_key
from holdfast.guard.link import Keyed, Link
from holdfast.guard.live import links
from holdfast.guard.stamp import Stamp, stamp_of

if TYPE_CHECKING:
    from holdfast.guard.events import LinkEvent, LinkVerb, Listener
    from holdfast.guard.idempotency import (
        Answer,
        Answered,
        InProgress,
        Keys,
        Mismatch,
        Replay,
        Started,
        request_hash,
    )

# Calls without keys and listeners need none of this: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    dict.fromkeys(
        ("Answer", "Answered", "InProgress", "Keys", "Mismatch", "Replay", "Started", "request_hash"),
        "holdfast.guard.idempotency",
    )
    | dict.fromkeys(("LinkEvent", "LinkVerb", "Listener"), "holdfast.guard.events"),
)

__all__ = [
    "Answer",
    "Answered",
    "Attempt",
    "Attempts",
    "InProgress",
    "Keyed",
    "Keys",
    "Link",
    "LinkEvent",
    "LinkVerb",
    "Listener",
    "Mismatch",
    "Replay",
    "Stamp",
    "Started",
    "current_key",
    "links",
    "request_hash",
    "stamp_of",
    "under_key",
]
