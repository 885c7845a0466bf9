"""Pauses of the garbage collection, and that each of them ends."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.base import CodecError, decode
from holdfast.base.collection import fewer_collections, no_collection

MANY = 100_000
LISTS = f"[{','.join(['[]'] * MANY)}]"


@pytest.fixture
def collected() -> Iterator[list[str]]:
    """A note for each collection that begins."""
    seen: list[str] = []

    def note(phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            seen.append(phase)

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_nothing_is_collected_while_a_large_text_is_decoded(collected: list[str]) -> None:
    assert len(decode(LISTS)) == MANY
    # Perhaps once before the pause and once after it; without the pause it is more than a hundred times.
    assert len(collected) <= 2
    assert gc.isenabled()
    assert [[] for _ in range(MANY)]
    assert len(collected) > 2, "it goes on afterwards"


def test_it_goes_on_after_a_text_that_is_not_json() -> None:
    with pytest.raises(CodecError):
        decode(LISTS[:-1])
    assert gc.isenabled()


def test_a_program_that_switched_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with fewer_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_threads_in_turn_do_not_stop_it_for_ever() -> None:
    second, over = threading.Event(), threading.Event()

    def decode_meanwhile() -> None:
        with fewer_collections():
            second.set()
            over.wait(10)

    with fewer_collections():
        thread = threading.Thread(target=decode_meanwhile)
        thread.start()
        assert second.wait(10)
    # The one that came second is still at work, and does not carry the pause on.
    assert gc.isenabled()
    over.set()
    thread.join()


def test_whoever_needs_a_pause_waits_for_its_own() -> None:
    inside, leave = threading.Event(), threading.Event()
    states: list[bool] = []

    def pause() -> None:
        with fewer_collections():
            inside.set()
            leave.wait(10)

    def pause_too() -> None:
        with no_collection():
            states.append(gc.isenabled())

    first, other = threading.Thread(target=pause), threading.Thread(target=pause_too)
    first.start()
    assert inside.wait(10)
    other.start()
    leave.set()
    first.join()
    other.join()
    assert states == [False]
    assert gc.isenabled()


def test_a_process_that_was_forked_meanwhile_collects() -> None:
    inside, leave = threading.Event(), threading.Event()

    def pause() -> None:
        with no_collection():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=pause)
    thread.start()
    assert inside.wait(10)
    child = os.fork()
    if child == 0:
        with no_collection():  # its lock is free
            pass
        os._exit(0 if gc.isenabled() else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
