"""Forms: each calls the operator's verb, in the name of whoever sent it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast.base import bus
from holdfast.catalog import Failure
from holdfast.catalog.core import NOT_FOUND
from holdfast.console.background import Background
from holdfast.console.faults import CONSOLE_BUSY
from holdfast.delivery import Deliveries
from holdfast.delivery.faults import ENDPOINT_DISABLED
from holdfast.operate import Actor, ActorKind, dead_letters
from holdfast.operate.audit_log import SILENT_US, Entry, entries
from holdfast.operate.bulk import Verb, begin
from holdfast.policy import Breaker
from holdfast.store import Store
from holdfast.worker import DeadFilter, DeadLetters, Jobs, Queues, ledger
from holdfast.worker.breakers import SharedBreaker, Tally
from holdfast.worker.settlement import failed

from .asking import Asker
from .making import hold, kill

PATIENCE_S = 60.0


def audit(store: Store) -> list[Entry]:
    return list(store.atomic(lambda tx: entries(tx, count=100), write=False))


def ended(background: Background) -> None:
    """Wait for the work that was begun."""
    for thread in list(background._running.values()):
        thread.join(PATIENCE_S)


def open_breaker(store: Store, name: str) -> None:
    rule = Breaker(failure_ratio=0.5, calls_min=4, window_s=120, open_s=30, probes=2)
    breaker = SharedBreaker(name, rule)
    store.atomic(lambda tx: breaker.report(tx, Tally(calls=4, failures=4, code="BAD_GATEWAY")))


def test_every_verb_does_what_the_command_does(store: Store, jobs: Jobs, inside: Asker) -> None:
    one, other = kill(store, jobs, 2)
    [running] = hold(store, jobs, 1, queue="long")
    queued = jobs.enqueue("later", delay_s=60).id
    open_breaker(store, "mail")
    with bus.heard() as events:
        for path, form in (
            (f"/jobs/{one}/revive", {"reason": "the provider is back"}),
            (f"/jobs/{other}/discard", {}),
            (f"/jobs/{queued}/cancel", {}),
            (f"/jobs/{running}/cancel", {}),
            ("/queues/pause", {"name": "mail", "reason": "maintenance"}),
            ("/queues/resume", {"name": "mail"}),
            ("/queues/probe", {"name": "mail"}),
            ("/breakers/recover", {"name": "mail"}),
            ("/breakers/trip", {"name": "mail", "open_s": "60", "reason": "drill"}),
        ):
            answer = inside.act(path, form)
            assert answer.status == 303, (path, answer.text)
            assert "Done: " in inside.get("/?said=" + answer.headers["location"].partition("said=")[2]).text
    told = [verb for verb, _ in events]
    assert {"job.revived", "job.discarded", "queue.paused", "queue.resumed"} <= set(told)
    assert [verb for verb in told if verb.startswith("breaker.")][-2:] == ["breaker.closed", "breaker.opened"]
    assert (jobs.show(one)["state"], jobs.show(one)["manual_retry_count"]) == ("queued", 1)
    assert jobs.show(queued)["error_code"] == "JOB_CANCELLED"
    assert jobs.show(running)["cancel_us"] is not None
    with pytest.raises(Failure, match="JOB_NOT_FOUND"):
        jobs.show(other)
    [breaker] = Queues(store).breakers()
    assert (breaker.state, breaker.reason) == ("open", "by hand: drill")
    rows = audit(store)[::-1]
    assert [row.verb for row in rows] == [
        "revive", "discard", "cancel", "cancel", "pause", "resume", "probe", "recover", "trip",
    ]  # fmt: skip
    assert {(row.actor_kind, row.actor, row.address) for row in rows} == {("console", "operator", "127.0.0.1")}
    assert {row.state for row in rows} == {"done"}
    assert rows[0].subject == f"job:{one}"
    assert rows[0].reason == "the provider is back"
    assert [event["verb"] for event in jobs.history(one)][-1] == "revived"


def test_a_delivery_to_a_disabled_endpoint_is_not_revived(store: Store, jobs: Jobs, inside: Asker) -> None:
    deliveries = Deliveries(store, jobs)
    endpoint = deliveries.endpoints.add("http://127.0.0.1:9/hook")
    deliveries.publish("order.paid", {"order": 7})
    [job] = store.atomic(lambda tx: ledger.claim(tx, queue="webhooks", worker="w-1", count=1))
    dead = failed(job, NOT_FOUND(), None, 5, blamed=False)
    store.atomic(lambda tx: ledger.settle(tx, "w-1", (), [dead]))
    deliveries.endpoints.disable(endpoint.id, reason="it moved")
    assert inside.act(f"/jobs/{job.id}/revive").status == ENDPOINT_DISABLED.status
    assert (jobs.show(job.id)["state"], audit(store)[0].result) == ("failed", "ENDPOINT_DISABLED")
    deliveries.endpoints.enable(endpoint.id)
    assert inside.act(f"/jobs/{job.id}/revive").status == 303


def dead_deliveries(store: Store, deliveries: Deliveries, count: int) -> list[str]:
    """So many events that were given up."""
    for number in range(count):
        deliveries.publish("order.paid", {"order": number})
    held = store.atomic(lambda tx: ledger.claim(tx, queue="webhooks", worker="w-1", count=100))
    gone = [failed(job, NOT_FOUND(), None, 5, blamed=False) for job in held]
    store.atomic(lambda tx: ledger.settle(tx, "w-1", (), gone))
    return [job.id for job in held]


def test_many_are_revived_without_those_whose_endpoint_is_disabled(store: Store, jobs: Jobs, inside: Asker) -> None:
    deliveries = Deliveries(store, jobs)
    gone = deliveries.endpoints.add("http://127.0.0.1:9/gone", event_types=["order.*"])
    deliveries.endpoints.add("http://127.0.0.1:9/here", event_types=["order.*"])
    ids = dead_deliveries(store, deliveries, 3)
    [plain] = kill(store, jobs, 1, tenant=gone.id)
    deliveries.endpoints.disable(gone.id, reason="it moved")
    assert (
        "Of these, 3 will be left as they are: their endpoint is disabled or removed."
        in inside.get("/dead/revive").text
    )
    assert "their endpoint is disabled" not in inside.get("/dead/revive?queue=mail").text
    assert "their endpoint is disabled" not in inside.get("/dead/discard").text
    answer = inside.act("/dead/revive", {"reason": "fixed"}, page="/dead/revive")
    ended(inside.console._app.background)
    [row] = audit(store)
    assert (row.state, row.done, row.refused, row.total) == ("done", 4, 3, 7)
    assert row.result == "3 left: their endpoint is disabled or removed"
    assert (
        "(3 left: their endpoint is disabled or removed)"
        in inside.get(answer.headers["location"].removeprefix("/console")).text
    )
    lost = {one["id"] for one in DeadLetters(store).list(DeadFilter(endpoint=gone.id)).letters}
    assert {one for one in ids if jobs.show(one)["state"] == "failed"} == lost
    assert jobs.show(plain)["state"] == "queued", "it is not a delivery, whatever its tenant is called"


def test_deliveries_with_a_queue_of_their_own_are_told_by_their_endpoint_too(
    store: Store, jobs: Jobs, inside: Asker
) -> None:
    deliveries = Deliveries(store, jobs, name="partner-hook")
    endpoint = deliveries.endpoints.add("http://127.0.0.1:9/hook")
    deliveries.publish("order.paid", {})
    held = store.atomic(lambda tx: ledger.claim(tx, queue=deliveries.queue().name, worker="w-1", count=1))
    dead = [failed(job, NOT_FOUND(), None, 5, blamed=False) for job in held]
    store.atomic(lambda tx: ledger.settle(tx, "w-1", (), dead))
    deliveries.endpoints.disable(endpoint.id, reason="gone")
    assert "Of these, 1 will be left" in inside.get("/dead/revive").text


@pytest.mark.parametrize(("verb", "past"), [("revive", "revived"), ("discard", "discarded")])
def test_many_are_moved_and_the_row_says_how_many(
    store: Store, jobs: Jobs, inside: Asker, verb: str, past: str
) -> None:
    kill(store, jobs, 7, queue="mail")
    kill(store, jobs, 2, queue="other")
    asked = inside.get(f"/dead/{verb}?queue=mail")
    assert f"{verb.capitalize()} 7 dead letters?" in asked.text, "the count comes first"
    answer = inside.act(f"/dead/{verb}", {"queue": "mail", "reason": "fixed"}, page=f"/dead/{verb}?queue=mail")
    assert answer.status == 303
    place = answer.headers["location"].removeprefix("/console")
    ended(inside.console._app.background)
    text = inside.get(place).text
    [row] = audit(store)
    assert (row.state, row.done, row.total, row.subject) == ("done", 7, 7, "dead: queue=mail")
    assert f"7 dead letters {past}" in text
    assert DeadLetters(store).count() == 2


def test_so_much_work_at_once_and_no_more(store: Store, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    kill(store, jobs, 1)
    begun, go_on = threading.Semaphore(0), threading.Event()

    def slow(*_: Any, **__: Any) -> Any:
        begun.release()
        go_on.wait(PATIENCE_S)
        raise CONSOLE_BUSY()

    monkeypatch.setattr(DeadLetters, "each_batch", slow)
    monkeypatch.setattr("holdfast.console.background.RUNNING_MAX", 2)
    background, ann = Background(store), Actor(ActorKind.CONSOLE, "ann")
    for _ in range(2):
        background.begin(Verb.REVIVE, DeadFilter(), actor=ann, reason=None)
        assert begun.acquire(timeout=PATIENCE_S)
    with pytest.raises(Failure, match="CONSOLE_BUSY"):
        background.begin(Verb.REVIVE, DeadFilter(), actor=ann, reason=None)
    go_on.set()
    background.close()
    assert [(row.state, row.result) for row in audit(store)] == [("refused", "CONSOLE_BUSY")] * 2


def test_interrupted_work_is_resumed_from_its_page(store: Store, jobs: Jobs, inside: Asker) -> None:
    kill(store, jobs, 3)
    work = begin(store, Verb.DISCARD, DeadFilter(queue="mail"), actor=Actor(ActorKind.COMMAND, "ben"))
    page = f"/dead/progress/{work.action.id}"
    assert "Resume" not in inside.get(page).text, "somebody is at it"
    store.atomic(lambda tx: tx._execute(f"UPDATE holdfast_audit SET touched_us = touched_us - {SILENT_US + 1}", {}))
    assert "interrupted" in inside.get(page).text
    assert inside.act("/dead/resume", {"id": work.action.id}, page=page).status == 303
    ended(inside.console._app.background)
    assert "3 dead letters discarded" in inside.get(page).text
    assert [(row.verb, row.actor) for row in audit(store)] == [("resume", "operator"), ("discard", "ben")]


def test_the_audit_page_filters_by_person_door_verb_subject_and_time(store: Store, jobs: Jobs, inside: Asker) -> None:
    [one] = kill(store, jobs)
    dead_letters.revive(store, one, actor=Actor(ActorKind.COMMAND, "ben", "host-1"), reason="token=hush-hush-hush")
    inside.act("/queues/pause", {"name": "mail", "reason": "drill"})
    whole = inside.get("/audit").text
    assert "command line host-1" in whole
    assert "console 127.0.0.1" in whole
    assert "hush-hush" not in whole
    for query, shown in (
        ("who=ben", "revive"),
        ("kind=command", "revive"),
        ("verb=pause", "pause"),
        ("subject=job:", "revive"),
        ("subject=queue:mail", "pause"),
    ):
        table = inside.get(f"/audit?{query}").text.partition("<tbody>")[2]
        assert [verb for verb in ("revive", "pause") if f">{verb}</td>" in table] == [shown], query
    assert "No action matches." in inside.get("/audit?until=1h").text
    assert "drill" in inside.get("/audit?since=1h").text
    assert inside.get("/audit?since=soon").status == 400
    assert inside.get("/audit?kind=door").status == 400
