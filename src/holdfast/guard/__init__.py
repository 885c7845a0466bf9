"""One protected call, here and now."""

from holdfast.guard.attempts import Attempt, Attempts
from holdfast.guard.events import LinkEvent, LinkVerb, Listener
from holdfast.guard.key import current_key, under_key
from holdfast.guard.link import Keyed, Link
from holdfast.guard.stamp import Stamp, stamp_of

__all__ = [
    "Attempt",
    "Attempts",
    "Keyed",
    "Link",
    "LinkEvent",
    "LinkVerb",
    "Listener",
    "Stamp",
    "current_key",
    "stamp_of",
    "under_key",
]
