"""A system with something on every page, for the pages' tests and their pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import watch
from holdfast.store import Store
from holdfast.testing.processes import wait_until

from .live import PATIENCE_S, Live, created, running, settings_file, vouch
from .receiver import Receiver, Say, receiving

NO_HOST = "no-such-host.invalid"


@contextmanager
def filled(store: Store, folder: Path) -> Iterator[tuple[Live, Receiver]]:
    """Three endpoints, of which one is healthy, one refuses everything, and one is disabled with a dead letter."""
    with receiving() as receiver, receiving() as broken:
        broken.always = Say(500, b'{"error": "database is locked"}')
        text = f"[sender]\ndelays_s = [0, 0]\nallowed_targets = {[target(receiver), target(broken)]}\n"
        environment = {**settings_file(folder, text), "HOLDFAST_CREDENTIALS_ENGINE_URL": receiver.url}
        with running(store, folder, environment=environment, worker=True) as live:
            watching = watch.start(store)
            try:
                added = {"url": broken.url.replace("webhook", "broken"), "event_types": ["vouch_submitted"]}
                live.ask("POST", "/platform/v1/endpoints", json=added)
                for number in range(3):
                    live.ask("POST", "/platform/v1/events", json=created(f"evt_good_{number}"))
                    live.wait_event(f"evt_good_{number}", "delivered")
                receiver.answers.append(Say(404, b'{"error": "no such webhook"}'))
                live.ask("POST", "/platform/v1/events", json=created("evt_refused"))
                live.wait_event("evt_refused", "failed")
                live.ask("POST", "/platform/v1/events", json=vouch("evt_vouch", "siti", "strong"))
                wait_until(lambda: dead(live) == 2, within_s=PATIENCE_S, what="two dead letters")
                watching.flush()
                yield live, receiver
            finally:
                watching.stop()


def dead(live: Live) -> int:
    """How many dead letters there are."""
    return int(live.ask("GET", "/platform/v1/dead-letters").json()["total"])


def target(receiver: Receiver) -> str:
    return receiver.url.split("/")[2]
