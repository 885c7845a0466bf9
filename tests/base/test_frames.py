"""The stack of another thread, while garbage is collected."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

from holdfast.base.frames import frame_of

LOOKS = """
import gc, sys, threading
from holdfast.base.frames import frame_of

class Held:
    pass

gc.set_threshold(1)
for _ in range(2_000):
    held = Held()
    held.itself, held.local = held, threading.local()
    held.local.value = 1
    del held
    assert frame_of(threading.get_ident()) is not None
print("looked")
"""


def test_a_collection_of_thread_locals_does_not_stop_the_process() -> None:
    looked = subprocess.run([sys.executable, "-c", LOOKS], capture_output=True, text=True, timeout=60, check=True)
    assert looked.stdout == "looked\n"


def test_the_frame_of_another_thread_is_found() -> None:
    inside, leave = threading.Event(), threading.Event()

    def stay_here() -> None:
        inside.set()
        leave.wait(10)

    thread = threading.Thread(target=stay_here)
    thread.start()
    assert inside.wait(10)
    frame = frame_of(thread.ident or 0)
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    assert "stay_here" in names
    leave.set()
    thread.join()
    assert frame_of(thread.ident or 0) is None
    assert gc.isenabled()
