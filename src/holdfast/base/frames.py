"""The frame that another thread is in.

CPython 3.11 holds a lock of its own while it lists the frames of all threads. A garbage collection in this very moment
that frees a `threading.local` asks for the same lock, and the whole process stands still for ever. So nothing is
collected meanwhile.
"""

from __future__ import annotations

import sys
from types import FrameType

from holdfast.base.collection import no_collection


def frame_of(thread: int) -> FrameType | None:
    """The innermost frame of the thread with this identifier; None when it has ended."""
    with no_collection():
        return sys._current_frames().get(thread)
