"""The operator's verbs: each makes its change and writes its row in one transaction, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.base import bus
from holdfast.catalog import Failure
from holdfast.catalog.core import DATABASE_ERROR
from holdfast.delivery import Deliveries
from holdfast.http.keys import ApiKeys
from holdfast.operate import Actor, ActorKind, api_keys, breakers, dead_letters, endpoints, queues, retention
from holdfast.operate import jobs as operate_jobs
from holdfast.operate.audit_log import Entry
from holdfast.store import Store
from holdfast.worker import Jobs, Queues, Retention

Audit = Callable[[], list[Entry]]
Dead = Callable[..., list[str]]


def test_every_verb_leaves_its_row_with_who_from_where_and_why(
    store: Store,
    jobs: Jobs,
    actor: Actor,
    audit: Audit,
    dead: Dead,
    deliveries: Deliveries,
    held: Callable[[], str],
    open_breaker: Callable[[str], None],
) -> None:
    one, other = dead(2)
    queued, running = jobs.enqueue("later", delay_s=60).id, held()
    endpoint = deliveries.endpoints.add("http://127.0.0.1:9/hook")
    open_breaker("mail")
    why: dict[str, Any] = {"actor": actor, "reason": "drill"}
    with bus.heard() as events:
        dead_letters.revive(store, one, **why)
        dead_letters.discard(store, other, **why)
        assert operate_jobs.cancel(store, queued, **why)[1], "at once"
        assert not operate_jobs.cancel(store, running, **why)[1], "its handler decides when"
        queues.pause(store, "mail", **why)
        queues.resume(store, "mail", **why)
        queues.probe(store, "mail", **why)
        breakers.probe(store, "mail", **why)
        breakers.recover(store, "mail", **why)
        breakers.trip(store, "mail", open_s=60, **why)
        endpoints.disable(store, endpoint.id, **why)
        endpoints.enable(store, endpoint.id, **why)
        endpoints.remove(store, endpoint.id, **why)
        _, issued = api_keys.create(store, "billing", **why)
        api_keys.revoke(store, issued.key.id, **why)
        retention.prune(store, Retention(), **why)
    found = audit()
    assert [row.verb for row in found] == [
        "revive", "discard", "cancel", "cancel", "pause", "resume", "probe", "probe", "recover", "trip",
        "disable", "enable", "remove", "create", "revoke", "prune",
    ]  # fmt: skip
    assert {(row.actor_kind, row.actor, row.address, row.reason, row.state) for row in found} == {
        ("api", "ann", "10.0.0.7", "drill", "done")
    }
    assert [row.subject.partition(":")[0] for row in found[:5]] == ["job", "job", "job", "job", "queue"]
    assert found[12].subject == f"endpoint:{endpoint.id}"
    assert (jobs.show(one)["state"], jobs.show(queued)["error_code"]) == ("queued", "JOB_CANCELLED")
    assert jobs.show(running)["cancel_us"] is not None
    [breaker] = Queues(store).breakers()
    assert (breaker.state, breaker.reason) == ("open", "by hand: drill")
    assert deliveries.endpoints.list() == []
    told = {verb for verb, _ in events}
    assert {"job.revived", "job.discarded", "job.cancelled", "queue.paused", "queue.resumed"} <= told
    with pytest.raises(Failure, match="INVALID_API_KEY"):
        ApiKeys(store).check(issued.secret.reveal())


def test_a_change_whose_row_cannot_be_written_does_not_happen_and_is_not_told(
    store: Store, jobs: Jobs, actor: Actor, dead: Dead, monkeypatch: pytest.MonkeyPatch
) -> None:
    [one] = dead()
    queued = jobs.enqueue("later").id

    def broken(*_: Any, **__: Any) -> None:
        raise DATABASE_ERROR()

    monkeypatch.setattr("holdfast.operate.audit.write", broken)
    with bus.heard() as events:
        for act in (dead_letters.revive, dead_letters.discard):
            with pytest.raises(Failure, match="DATABASE_ERROR"):
                act(store, one, actor=actor)
        with pytest.raises(Failure, match="DATABASE_ERROR"):
            operate_jobs.cancel(store, queued, actor=actor)
        with pytest.raises(Failure, match="DATABASE_ERROR"):
            queues.pause(store, "mail", actor=actor, reason="why")
    assert (jobs.show(one)["state"], jobs.show(queued)["state"]) == ("failed", "queued")
    assert [event["verb"] for event in jobs.history(one)][-1] == "failed"
    assert not any(one.paused for one in Queues(store).status())
    assert events == []


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda store, actor: dead_letters.revive(store, "none", actor=actor), "JOB_NOT_FOUND"),
        (lambda store, actor: dead_letters.discard(store, "none", actor=actor), "JOB_NOT_FOUND"),
        (lambda store, actor: operate_jobs.cancel(store, "none", actor=actor), "JOB_NOT_FOUND"),
        (lambda store, actor: queues.resume(store, "mial", actor=actor), "QUEUE_NOT_FOUND"),
        (lambda store, actor: queues.probe(store, "mial", actor=actor), "QUEUE_NOT_FOUND"),
        (lambda store, actor: breakers.trip(store, "bnak", actor=actor, open_s=5), "BREAKER_NOT_FOUND"),
        (lambda store, actor: breakers.recover(store, "bnak", actor=actor), "BREAKER_NOT_FOUND"),
        (lambda store, actor: breakers.probe(store, "bnak", actor=actor), "BREAKER_NOT_FOUND"),
        (lambda store, actor: endpoints.enable(store, "ep_1", actor=actor), "ENDPOINT_NOT_FOUND"),
        (lambda store, actor: endpoints.disable(store, "ep_1", actor=actor, reason="w"), "ENDPOINT_NOT_FOUND"),
        (lambda store, actor: endpoints.remove(store, "ep_1", actor=actor), "ENDPOINT_NOT_FOUND"),
        (lambda store, actor: api_keys.revoke(store, "k", actor=actor), "API_KEY_NOT_FOUND"),
    ],
)  # fmt: skip
def test_a_refusal_is_written_down_with_its_code(
    store: Store, actor: Actor, audit: Audit, act: Callable[[Store, Actor], Any], code: str
) -> None:
    with pytest.raises(Failure, match=code):
        act(store, actor)
    [row] = audit()
    assert (row.state, row.result, row.done) == ("refused", code, 0)


def test_what_is_in_that_state_already_is_not_changed_and_says_so(
    store: Store, jobs: Jobs, actor: Actor, audit: Audit, open_breaker: Callable[[str], None]
) -> None:
    jobs.enqueue("k", queue="mail")
    open_breaker("bank")
    assert not queues.resume(store, "mail", actor=actor).changed
    assert not queues.probe(store, "mail", actor=actor).changed
    assert not breakers.trip(store, "bank", actor=actor, open_s=5).changed
    assert breakers.recover(store, "bank", actor=actor).changed
    assert not breakers.recover(store, "bank", actor=actor).changed
    assert [(row.state, row.result) for row in audit()][:3] == [("refused", "NOTHING_CHANGED")] * 3


def test_a_job_that_has_ended_cannot_be_cancelled(store: Store, actor: Actor, dead: Dead) -> None:
    [one] = dead()
    with pytest.raises(Failure, match="JOB_ENDED"):
        operate_jobs.cancel(store, one, actor=actor)


def test_a_second_revival_is_refused_and_changes_nothing(store: Store, jobs: Jobs, actor: Actor, dead: Dead) -> None:
    [one] = dead()
    dead_letters.revive(store, one, actor=actor)
    with pytest.raises(Failure, match="JOB_NOT_DEAD"):
        dead_letters.revive(store, one, actor=actor)
    assert jobs.show(one)["manual_retry_count"] == 1


@pytest.mark.parametrize(("end", "code"), [("disable", "ENDPOINT_DISABLED"), ("remove", "ENDPOINT_REMOVED")])
def test_a_delivery_that_no_endpoint_would_receive_is_not_revived_and_keeps_its_cause(
    store: Store,
    jobs: Jobs,
    actor: Actor,
    audit: Audit,
    deliveries: Deliveries,
    die: Callable[[str], list[str]],
    end: str,
    code: str,
) -> None:
    endpoint = deliveries.endpoints.add("http://127.0.0.1:9/hook")
    deliveries.publish("order.paid", {"order": 7})
    [one] = die("webhooks")
    before = jobs.show(one)
    getattr(endpoints, end)(store, endpoint.id, actor=actor, reason="it moved")
    with bus.heard() as events, pytest.raises(Failure, match=code) as refused:
        dead_letters.revive(store, one, actor=actor)
    assert endpoint.id in refused.value.message, "rejected by name"
    assert jobs.show(one) == before, "what it died of stays"
    assert events == [], "nothing new is told, so no alert is raised"
    assert audit()[-1].result == code
    dead_letters.discard(store, one, actor=actor)


def test_a_reason_is_bounded_and_an_actor_has_a_name(store: Store, actor: Actor) -> None:
    with pytest.raises(Failure, match="BAD_REQUEST"):
        queues.pause(store, "mail", actor=actor, reason="x" * 100_000)
    with pytest.raises(Failure, match="BAD_REQUEST"):
        queues.pause(store, "mail", actor=actor, reason="")
    with pytest.raises(ValueError, match="name"):
        Actor(ActorKind.CONSOLE, "")


@pytest.mark.parametrize("length", [4, 12, 24, 36])
def test_a_job_is_found_by_the_beginning_of_its_id(store: Store, jobs: Jobs, length: int) -> None:
    one = jobs.enqueue("k").id
    assert store.atomic(lambda tx: operate_jobs.find(tx, one[:length]), write=False) == one


def test_a_beginning_that_fits_several_ids_names_the_candidates(store: Store, jobs: Jobs) -> None:
    made = [jobs.enqueue("k").id for _ in range(7)]
    with pytest.raises(Failure, match="ID_AMBIGUOUS") as refused:
        store.atomic(lambda tx: operate_jobs.find(tx, made[0][:4]), write=False)
    assert made[-1] in refused.value.message
    assert refused.value.message.count("-7") >= operate_jobs.CANDIDATES_MAX
    assert "…" in refused.value.message
    with pytest.raises(Failure, match="JOB_NOT_FOUND"):
        store.atomic(lambda tx: operate_jobs.find(tx, "zzzz"), write=False)


def test_an_endpoint_that_is_added_or_changed_leaves_its_rows_too(
    store: Store, actor: Actor, audit: Audit, deliveries: Deliveries
) -> None:
    own = deliveries.endpoints
    added = endpoints.add(own, "http://127.0.0.1:9/hook", actor=actor, reason="drill")
    endpoints.update(own, added.id, actor=actor, timeout_s=3.0)
    made = endpoints.rotate_secret(own, added.id, actor=actor, overlap_s=0)
    with pytest.raises(Failure, match="ENDPOINT_NOT_FOUND"):
        endpoints.update(own, "ep_nobody", actor=actor, timeout_s=3.0)
    assert [(row.verb, row.subject, row.state) for row in audit()] == [
        ("add", f"endpoint:{added.id}", "done"),
        ("update", f"endpoint:{added.id}", "done"),
        ("rotate_secret", f"endpoint:{added.id}", "done"),
        ("update", "endpoint:ep_nobody", "refused"),
    ]
    shown = own.show(added.id)
    assert (shown.timeout_s, [held.secret for held in shown.secrets]) == (3.0, [made])
    assert made.reveal() not in str([(row.subject, row.reason, row.result) for row in audit()])
