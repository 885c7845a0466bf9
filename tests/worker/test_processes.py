"""The parent of worker processes, with small programs as its children and a clock that runs by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count

import pytest

from holdfast.base import World, replaced
from holdfast.worker import processes
from holdfast.worker.processes import Processes
from holdfast.worker.signals import STOPPING, Bell, Words


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes on only when somebody looks."""
    monkeypatch.setattr(processes, "LOOK_S", 0.01)


def kept(
    command: list[str],
    *,
    step_s: float,
    until: Callable[[list[str]], bool],
    child_step_s: float | None = None,
    grace_s: float = 0.0,
) -> tuple[int, list[str]]:
    """Keep one child until enough was said; the exit code, and what was said.

    Whenever somebody looks, the clock goes on by a step, or by the child's own step while the child runs.
    """
    said: list[str] = []
    parent = Processes(command, 1, grace_s=grace_s, say=said.append)
    now_s = 0.0

    def look() -> float:
        nonlocal now_s
        if until(said):
            os.kill(os.getpid(), signal.SIGTERM)
        running = any(child.process is not None for child in parent._children)
        now_s += child_step_s if running and child_step_s is not None else step_s
        return now_s

    with replaced(World(monotonic_s=look)):
        return parent.run(), said


def pauses(said: list[str]) -> list[str]:
    return [line.rpartition(" in ")[2] for line in said if "a new one starts" in line]


def test_the_pause_before_a_restart_doubles_up_to_ten_seconds() -> None:
    # However long the machine takes to run it, the child ends at once.
    _, said = kept(["false"], step_s=0.2, child_step_s=0.0, until=lambda said: len(said) >= 7)
    assert pauses(said)[:7] == ["0.5 s", "1 s", "2 s", "4 s", "8 s", "10 s", "10 s"]
    assert "ended with code 1; " in said[0]


def test_a_child_that_ran_for_a_minute_starts_over_with_the_shortest_pause() -> None:
    _, said = kept(["false"], step_s=60.0, until=lambda said: len(said) >= 3)
    assert pauses(said)[:3] == ["0.5 s", "0.5 s", "0.5 s"]


def test_a_program_that_cannot_be_started_is_tried_again() -> None:
    code, said = kept(["/no/such/program"], step_s=1.0, until=lambda said: len(said) >= 2)
    assert code == 0
    assert said[0] == "a worker process could not be started (No such file or directory); a new one starts in 0.5 s"


def test_a_child_that_cannot_use_its_words_ends_the_parent_with_the_same_code() -> None:
    code, said = kept(["sh", "-c", "exit 2"], step_s=0.0, until=lambda said: False)
    assert (code, said) == (2, [])


def test_a_child_that_does_not_stop_in_time_is_killed() -> None:
    looks = count()
    code, said = kept(["sleep", "600"], step_s=1.0, until=lambda said: next(looks) == 5)
    assert code == 1
    assert len(said) == 1
    assert said[0].endswith("did not stop in time and was killed")


def test_a_signal_that_follows_at_once_is_the_same_word() -> None:
    now_s = 0.0
    with replaced(World(monotonic_s=lambda: now_s)):
        words = Words()
        assert not words.said
        words.hear([signal.SIGTERM, signal.SIGTERM])
        now_s = 0.4
        words.hear([signal.SIGTERM])
        assert (words.said, words.again) == (True, False)
        now_s = 0.6
        words.hear([signal.SIGCHLD])
        assert not words.again
        words.hear([signal.SIGINT])
        assert words.again


@pytest.mark.parametrize("number", STOPPING)
def test_a_bell_tells_which_signals_came_and_leaves_everything_as_it_was(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Bell(STOPPING) as bell:
        assert bell.rung() == []
        os.kill(os.getpid(), number)
        bell.wait(10.0)
        assert bell.rung() == [number]
        assert bell.rung() == []
    assert signal.getsignal(number) is before
    assert signal.set_wakeup_fd(-1) == -1
