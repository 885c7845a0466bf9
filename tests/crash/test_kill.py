"""Workers and enqueuers die at random, by kill -9, and stand still for longer than their lease. Nothing is lost."""

from __future__ import annotations

import random
import sys
from collections import Counter

import pytest

from holdfast.base import REAL
from holdfast.testing.processes import wait_until

from .accounts import books, rows, states
from .fleet import Fleet, Member

LEASE_S = 2.0
WORKERS = 4
CHAOS_S = 7.0
SETTLE_S = 120.0
ENQUEUE = {"count": 1_000, "pause_ms": 3, "kinds": ["once", "plain", "coroutine"], "waits_ms": [0, 10, 40, 120]}


class Chaos:
    """Kills, pauses and replaces processes at random moments."""

    def __init__(self, fleet: Fleet, chance: random.Random) -> None:
        self.fleet = fleet
        self.chance = chance
        self.done: Counter[str] = Counter()
        self.paused: list[tuple[Member, float]] = []
        self.enqueuer = fleet.enqueuer(**ENQUEUE)
        for _ in range(WORKERS):
            self._hire()

    def run(self, seconds: float) -> None:
        """Let it rage; afterwards everyone lives and moves."""
        end_s = REAL.monotonic_s() + seconds
        while REAL.monotonic_s() < end_s or not self.done["worker killed"]:
            REAL.sleep(self.chance.uniform(0.1, 0.6))
            self._strike(self.chance.random())
            self._wake(REAL.monotonic_s())
        self._wake(float("inf"))

    def finish_enqueueing(self) -> None:
        """Start the enqueuer again until it is through."""
        self.enqueuer.wait(SETTLE_S)

    def _strike(self, dice: float) -> None:
        awake = [member for member in self.fleet.workers() if not member.paused]
        if dice < 0.15:
            self.enqueuer.kill()
            self.enqueuer = self.fleet.enqueuer(**ENQUEUE)
            self.done["enqueuer killed"] += 1
        elif dice < 0.35 and len(awake) > 1 and (working := self._working(awake)):
            member = self.chance.choice(working)
            member.pause()
            self.paused.append((member, REAL.monotonic_s() + self.chance.uniform(0.5, 1.8) * LEASE_S))
            self.done["worker paused"] += 1
        elif awake:
            self.chance.choice(awake).kill()
            self._hire()
            self.done["worker killed"] += 1

    def _working(self, members: list[Member]) -> list[Member]:
        """Those that have begun to work: one that is stopped while it first connects gives up, and says so."""
        known = {process for (process,) in rows(self.fleet.url, "SELECT process FROM holdfast_worker")}
        return [member for member in members if member.pid in known]

    def _wake(self, now_s: float) -> None:
        for member, until_s in self.paused:
            if until_s <= now_s:
                member.go_on()
        self.paused = [(member, until_s) for member, until_s in self.paused if until_s > now_s]

    def _hire(self) -> None:
        self.fleet.worker(lease_s=LEASE_S, concurrency=8)


@pytest.mark.timeout(400)
def test_killed_and_paused_processes_lose_no_job_and_settle_none_twice(fleet: Fleet, chance: random.Random) -> None:
    chaos = Chaos(fleet, chance)
    chaos.run(CHAOS_S)
    chaos.finish_enqueueing()
    wait_until(lambda: _settled(fleet), within_s=SETTLE_S, what=f"all jobs settled; {chaos.done}, {states(fleet.url)}")
    fleet.stop_workers()

    kept = books(fleet.url)
    sys.stdout.write(f"{dict(chaos.done)}; {dict(kept.verbs)}\n")
    assert fleet.complaints() == []
    assert kept.complaints() == []
    assert Counter(account.state for account in kept.accounts.values()) == {"complete": len(kept.accounts)}
    assert set(fleet.acknowledged_ids()) == set(range(ENQUEUE["count"]))
    assert set(fleet.acknowledged_ids().values()) <= set(kept.accounts)
    assert {a.id: a.effects for a in kept.accounts.values() if a.kind == "once" and a.effects != 1} == {}
    assert [account.id for account in kept.accounts.values() if account.effects < 1] == []
    assert chaos.done["worker killed"] > 0


def _settled(fleet: Fleet) -> bool:
    now = states(fleet.url)
    return not now.get("queued") and not now.get("processing")
