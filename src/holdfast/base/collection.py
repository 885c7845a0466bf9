"""Times without a garbage collection.

CPython collects whenever many containers are new. While a large value is built, none of it is garbage, and each
collection walks through all of it: the whole process stands still for longer than building the value takes.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_pausing = threading.Lock()
_paused = False
"""Whether collection was switched off here, and is to be switched on again."""


@contextmanager
def no_collection() -> Iterator[None]:
    """Garbage is not collected meanwhile, unless the program asks for it by `gc.collect()`."""
    with _pausing:
        _pause()
        try:
            yield
        finally:
            _resume()


@contextmanager
def fewer_collections() -> Iterator[None]:
    """The same, except while another thread does it: threads that take turns cannot put it off for ever."""
    if not _pausing.acquire(blocking=False):
        yield
        return
    _pause()
    try:
        yield
    finally:
        _resume()
        _pausing.release()


def _pause() -> None:
    global _paused
    _paused = gc.isenabled()
    gc.disable()


def _resume() -> None:
    global _paused
    if _paused:
        _paused = False
        gc.enable()


def _begin_anew() -> None:
    """In a forked process, a thread that it does not have may have held the lock."""
    global _pausing
    _pausing = threading.Lock()
    _resume()


os.register_at_fork(after_in_child=_begin_anew)
