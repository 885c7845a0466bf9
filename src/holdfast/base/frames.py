"""The frame that another thread is in.

CPython 3.11 holds a lock of its own while it lists the frames of all threads. A garbage collection in this very moment
that frees a `threading.local` asks for the same lock, and the whole process stands still for ever. So nothing is
collected meanwhile.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from types import FrameType

_looking = threading.Lock()


def frame_of(thread: int) -> FrameType | None:
    """The innermost frame of the thread with this identifier; None when it has ended."""
    with _looking:  # else one would enable the collection that another has just disabled
        collecting = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames().get(thread)
        finally:
            if collecting:
                gc.enable()


def _begin_anew() -> None:
    """In a forked process, a thread that it does not have may have held the lock."""
    global _looking
    _looking = threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)
