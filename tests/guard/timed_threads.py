"""The threads of calls with a time limit, which wait for the next call when one has ended."""

from __future__ import annotations

import threading
from types import FrameType

from holdfast.base.frames import frame_of
from holdfast.guard import timed
from holdfast.testing.processes import wait_until

NAME = "holdfast-timed"


def wait_until_idle() -> None:
    """Return when no thread has a call, nor any frame left that could keep something of its last one."""
    wait_until(_idle, within_s=60, what="the threads of timed calls are idle")


def _idle() -> bool:
    living = [thread for thread in threading.enumerate() if thread.name == NAME]
    busy = [thread for thread in living if _answers(frame_of(thread.ident or 0))]
    return not busy and len(living) <= len(timed._idle)


def _answers(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is timed._Thread._answer.__code__:
            return True
        frame = frame.f_back
    return False
