"""An hour in the life of a shop, lived in virtual time by the real engine: what the screenshots show.

Jobs are enqueued, claimed, attempted and settled by the same functions that a worker uses; only its threads are
missing, so that an hour takes a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.base import bus, replaced, world
from holdfast.catalog import CORE
from holdfast.catalog.core import BAD_GATEWAY, NETWORK_TIMEOUT, RATE_LIMIT_EXCEEDED
from holdfast.delivery import Deliveries
from holdfast.delivery.exchange import Outgoing, Reply
from holdfast.operate import Actor, ActorKind, dead_letters, queues
from holdfast.policy import Backoff, Breaker, Retry
from holdfast.store import Store, Tx
from holdfast.testing.instant import VirtualTime, virtual_world
from holdfast.watch.flush import Flusher
from holdfast.watch.gauges import Gauges
from holdfast.watch.meter import Meter
from holdfast.watch.upkeep import Upkeep
from holdfast.worker import DeadFilter, DeadLetters, Handlers, Job, Jobs, Queues, ledger, telling
from holdfast.worker.attempt import attempt
from holdfast.worker.breakers import SharedBreaker, Tally

MINUTES = 70
OUTAGE = range(38, 52)
WORKER = "w-1 on stage"
RULE = Breaker(failure_ratio=0.5, calls_min=5, window_s=120, open_s=300, probes=3)
SCHEDULE = Retry(attempts=3, attempts_unknown=2, backoff=Backoff.listed(5, 20))


class CardDeclined(Exception):
    """No classifier knows it."""


@dataclass(slots=True)
class Stage:
    """The shop, and the minute that it is in."""

    store: Store
    jobs: Jobs
    handlers: Handlers
    deliveries: Deliveries
    endpoints: list[str]
    minute: int = 0
    dice: int = 7

    def chance(self) -> float:
        """Always the same numbers: a picture that is made again looks the same."""
        self.dice = (self.dice * 1_103_515_245 + 12_345) % 2**31
        return self.dice / 2**31

    @property
    def outage(self) -> bool:
        return self.minute in OUTAGE

    def enqueue(self) -> None:
        for number in range(4):
            to = f"customer-{self.minute * 4 + number}@example.com"
            payload = {"to": to, "template": "receipt", "api_key": "sk_live_51Hq8x9Zk2"}
            self.jobs.enqueue("mail.send", payload, queue="mail", tenant="shop-north")
        self.jobs.enqueue("report.build", {"month": "2026-03", "rows": 1_200}, queue="reports")
        self.jobs.enqueue("charge.capture", {"order": 4_000 + self.minute, "amount": 1_990}, queue="payments")
        self.deliveries.publish("order.paid", {"order": 4_000 + self.minute, "total": "19.90"})

    def run(self, queue: str) -> None:
        jobs = self.store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker=WORKER, count=100))
        outcomes = [(job, attempt(self.handlers.get(job.kind), job)) for job in jobs]
        finished = [one for _, one in outcomes if isinstance(one, tuple)]
        settlements = [one for _, one in outcomes if one is not None and not isinstance(one, tuple)]
        late = self.store.atomic(lambda tx: ledger.settle(tx, WORKER, finished, settlements))
        telling.settled(finished, settlements, late)

    def send(self, request: Outgoing) -> Reply:
        slow = "partner" in request.url
        world().sleep(0.02 + 0.05 * self.chance() + (0.4 * self.chance() if slow else 0))
        if slow and self.outage:
            answers = (
                Reply(429, {"retry-after": "30"}, b"slow down"),
                Reply(503, {}, b"maintenance"),
                Reply(404, {}, b"no such hook"),
            )
            return answers[int(self.chance() * len(answers))]
        return Reply(500, {}, b"") if self.chance() < 0.03 else Reply(200, {}, b"ok")

    def mail(self, job: Job) -> None:
        world().sleep(0.03 + 0.1 * self.chance())
        if self.outage and self.chance() < 0.55:
            raise BAD_GATEWAY(upstream_status=502)
        if self.chance() < 0.02:
            raise NETWORK_TIMEOUT(link="shop → mail provider")

    def report(self, job: Job) -> dict[str, Any]:
        world().sleep(0.8 + 2.5 * self.chance())
        if self.chance() < 0.08:
            raise CardDeclined(
                f"the report of month {self.minute} has no rows: <script>alert('{self.minute}')</script>"
            )
        return {"pages": 12}

    def charge(self, job: Job) -> None:
        world().sleep(0.1 + 0.2 * self.chance())
        if self.minute >= 64:
            raise RATE_LIMIT_EXCEEDED(retry_after_s=120.0, upstream_status=429)

    def links(self) -> None:
        for number in range(3):
            facts: dict[str, Any] = {"link": "shop → bank", "attempt": 1, "duration_s": 0.05 + 0.1 * self.chance()}
            if self.outage and number == 0:
                bus.tell("link.gave_up", **facts, code="CONNECTION_REFUSED", reason="attempts_used")
            else:
                bus.tell("link.succeeded", **facts)


def open_shop(store: Store) -> Stage:
    """The shop before its first minute."""
    jobs, handlers = Jobs(store), Handlers()
    deliveries = Deliveries(store, jobs)
    first = deliveries.endpoints.add("http://127.0.0.1:9/ledger", event_types=["order.*"])
    second = deliveries.endpoints.add("http://127.0.0.1:9/partner/hook", event_types=["order.*"])
    stage = Stage(store, jobs, handlers, deliveries, [first.id, second.id])
    handlers.handle("mail.send", retry=SCHEDULE)(stage.mail)
    handlers.handle("report.build", retry=SCHEDULE)(stage.report)
    handlers.handle("charge.capture", retry=SCHEDULE)(stage.charge)
    deliveries.handlers(stage.send, handlers)
    return stage


def trip(tx: Tx) -> None:
    """Six charges in a row found the bank broken; a refusal such as a 429 would not count."""
    SharedBreaker("payments", RULE).report(tx, Tally(calls=6, failures=6, code=BAD_GATEWAY.code))


def live_an_hour(store: Store, minutes: int = MINUTES) -> Stage:
    """Fill a store with the last hour; it ends now."""
    time = VirtualTime(passed_s=-minutes * 60.0)
    with replaced(virtual_world(time)), _watched(store) as flush:
        stage = open_shop(store)
        for minute in range(minutes):
            stage.minute = minute
            stage.enqueue()
            for _ in range(4):
                for queue in ("mail", "reports", "payments", "webhooks"):
                    if queue != "payments" or minute < 66:
                        stage.run(queue)
                time.advance(12)
                store.atomic(lambda tx: tx.rows("job.promote", count=1_000))
            stage.links()
            if minute == 66:
                store.atomic(trip)
            flush()
            time.passed_s = (-minutes + minute + 1) * 60.0
        Queues(store).pause("reports", "the warehouse is being moved")
    return stage


@contextmanager
def _watched(store: Store) -> Iterator[Any]:
    meter, gauges = Meter(), Gauges(store, remembered_s=0.0)
    flusher, upkeep = Flusher(store, meter), Upkeep(store, gauges)
    deaf = bus.listen(meter.hear)

    def flush() -> None:
        flusher.flush()
        upkeep.sample()

    try:
        yield flush
    finally:
        deaf()


CATALOGS = (CORE,)


def deeds(store: Store) -> None:
    """So that the audit has something to show."""
    ann, ben = Actor(ActorKind.CONSOLE, "ann@example.com", "10.0.0.7"), Actor(ActorKind.COMMAND, "ben", "worker-1")
    letter = DeadLetters(store).list(DeadFilter(queue="mail"), count=1).letters[0]["id"]
    dead_letters.revive(store, letter, actor=ann, reason="the provider is back")
    queues.pause(store, "reports", actor=ben, reason="the warehouse is being moved")
