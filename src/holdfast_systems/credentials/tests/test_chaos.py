"""Everything at once: a receiver that drops, delays, refuses and lies, and senders that are killed.

Each event has exactly one effect, none is lost, and the dead letters are revived until there are none.
`HOLDFAST_CHAOS_EVENTS` sets how many events.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import Secret, monotonic_s, world
from holdfast.delivery import NewEvent
from holdfast.operate import Actor, ActorKind
from holdfast.store import Store
from holdfast.worker import Jobs
from holdfast_systems.credentials import tables
from holdfast_systems.credentials.main import build
from holdfast_systems.credentials.model import Heard, worth
from holdfast_systems.credentials.model import vouch as vouched
from holdfast_systems.credentials.platform import TENANT, Platform
from holdfast_systems.credentials.settings import read_settings

from .chaos_receiver import ChaosReceiver, chaotic
from .dice import Dice
from .live import SECRET, about, created, evidence, ground, settings_file, vouch

OPERATOR = Actor(ActorKind.API, "operator")
EVENTS = int(os.environ.get("HOLDFAST_CHAOS_EVENTS", "1000"))
SENDERS = 2
BATCH = 500
REQUESTS_BETWEEN_KILLS = 250
WITHIN_S = 180 + EVENTS / 10
SETTINGS = """
[platforms.gotong_royong]
limit = 1_000_000

[sender]
delays_s = [0.02, 0.05]
timeout_s = 5
"""


def story(count: int, dice: Dice) -> list[dict[str, Any]]:
    """So many events about people, contributions, evidence, reviews and vouches, in no order."""
    events: list[dict[str, Any]] = []
    number = 0
    while len(events) < count:
        number += 1
        mine = f"c{number}"
        made = [created(f"evt_{number}_c", mine, user=f"u{number % 50}")]
        made += [evidence(f"evt_{number}_e{place}", mine) for place in range(dice.randrange(3))]
        if dice.random() < 0.5:
            made.append(about("contribution_verified", f"evt_{number}_v", mine))
        if dice.random() < 0.1:
            made.append(about("contribution_rejected", f"evt_{number}_r", mine))
        if dice.random() < 0.5:
            made.append(
                vouch(f"evt_{number}_w", f"u{dice.randrange(50)}", dice.choice(("light", "moderate", "strong")))
            )
        events += made
    return dice.shuffled(events[:count])


def expected(events: list[dict[str, Any]]) -> dict[str, int]:
    """What everybody's reputation comes to when each event counts once, by the pure rules alone."""
    owners = {one["subject"]["contribution_id"]: one["actor"]["user_id"] for one in events if _is(one, "created")}
    points: dict[str, int] = {}
    for contribution, owner in owners.items():
        said = [one["event_type"] for one in events if one["subject"].get("contribution_id") == contribution]
        heard = Heard(
            evidence=said.count("por_evidence"),
            verified=said.count("contribution_verified"),
            rejected=said.count("contribution_rejected"),
        )
        points[owner] = points.get(owner, 0) + worth(heard).reputation
    for one in events:
        if _is(one, "vouch_submitted"):
            vouchee = one["subject"]["vouchee_id"]
            points[vouchee] = points.get(vouchee, 0) + vouched(one["subject"]["weight_hint"]).reputation
    return points


def _is(event: dict[str, Any], kind: str) -> bool:
    return event["event_type"] in {kind, f"contribution_{kind}"}


class Senders:
    """Processes that deliver, and are killed and started again."""

    def __init__(self, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "holdfast_systems.credentials.tests.chaos_sender", *arguments]
        self._processes = [self._started() for _ in range(SENDERS)]
        self.kills = 0

    def kill_one(self, dice: Dice) -> None:
        place = dice.randrange(len(self._processes))
        self._processes[place].send_signal(signal.SIGKILL)
        self._processes[place].wait()
        self._processes[place] = self._started()
        self.kills += 1

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command)


def drained(platform: Platform, receiver: ChaosReceiver, senders: Senders, store: Store, dice: Dice) -> int:
    """Kill senders and revive dead letters until every event has arrived; how many letters were revived."""
    revived, begun_s = 0, monotonic_s()
    while (arrived := _arrived(store)) < EVENTS or _pending(store):
        assert monotonic_s() - begun_s < WITHIN_S, f"{arrived} of {EVENTS} arrived"
        # The last few come through in peace, or the test would never end by chance.
        receiver.calm = arrived > EVENTS * 0.98
        # One is killed in any case, also where all but the last few came through before anybody looked.
        wild = not receiver.calm or not senders.kills
        if wild and receiver.done.total() > (senders.kills + 1) * REQUESTS_BETWEEN_KILLS:
            senders.kill_one(dice)
        revived += platform.reprocess(limit=None, actor=OPERATOR).done
        world().sleep(0.1)
    return revived


def _arrived(store: Store) -> int:
    return store.atomic(lambda tx: tables.totals(tx, "gotong_royong"), write=False)["events"]


def _pending(store: Store) -> bool:
    jobs = "SELECT count(*) FROM holdfast_job WHERE kind = 'webhook.deliver' AND state <> 'complete'"
    return bool(store.atomic(lambda tx: tx._execute(jobs, {}).fetchall(), write=False)[0][0])


@pytest.mark.timeout(WITHIN_S + 60)
def test_every_event_has_exactly_one_effect_whatever_goes_wrong(
    store: Store, database_url: str, tmp_path: Path
) -> None:
    dice = Dice(EVENTS)
    environment = settings_file(tmp_path, SETTINGS)
    alone = {**environment, "HOLDFAST_CREDENTIALS_PARTS": "engine"}
    engine = build(ground(store, tmp_path, "http://127.0.0.1:9", alone))
    jobs = Jobs(store)
    platform = Platform(store, jobs, read_settings(environment).sender)
    events = story(EVENTS, dice)
    with chaotic(engine.parts["engine"], EVENTS) as receiver:
        platform.come_home(receiver.url, Secret(SECRET))
        told = [NewEvent(one["event_type"], one, one["event_id"], tenant=TENANT, raw=True) for one in events]
        for start in range(0, EVENTS, BATCH):
            platform.deliveries.publish_many(told[start : start + BATCH])
        senders = Senders(database_url, receiver.url)
        try:
            begun_s = monotonic_s()
            revived = drained(platform, receiver, senders, store, dice)
            took_s = monotonic_s() - begun_s
        finally:
            senders.end()
            jobs.close()
    found = store.atomic(lambda tx: tables.members(tx, "gotong_royong", count=200), write=False)
    assert {one["user_id"]: one["reputation"] for one in found if one["reputation"]} == {
        user: points for user, points in expected(events).items() if points
    }
    assert store.atomic(lambda tx: tables.totals(tx, "gotong_royong"), write=False)["events"] == EVENTS
    assert platform.dead_count() == 0
    assert senders.kills > 0
    assert revived > 0
    assert set(receiver.done) == {"429", "5xx", "dropped", "500 after the effect", "answered"}
    what = f"{EVENTS} events in {took_s:.1f} s; {senders.kills} kills, {revived} revived; {dict(receiver.done)}"
    sys.stdout.write(f"\n{what}\n")
