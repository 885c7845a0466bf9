"""Deliveries of one tenant: events, endpoints and dead letters of others are not there, whatever id is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.catalog.core import NOT_FOUND
from holdfast.delivery import Deliveries, NewEvent, UndeliveredFilter
from holdfast.store import Store
from holdfast.worker import DeadFilter, DeadLetters, Jobs, NewJob, ledger
from holdfast.worker.settlement import failed

URL = "http://127.0.0.1:9/hook"
UNKNOWN = "0198c0de-0000-7000-8000-000000000000"


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    client = Jobs(store)
    yield client
    client.close()


def give_up(store: Store, queue: str = "webhooks") -> list[str]:
    """Let everything in the queue fail for good."""
    held = store.atomic(lambda tx: ledger.claim(tx, queue=queue, worker="w-1", count=100))
    dead = [failed(job, NOT_FOUND(), None, 5, blamed=False) for job in held]
    store.atomic(lambda tx: ledger.settle(tx, "w-1", (), dead))
    return [job.id for job in held]


def refusal(call: Callable[[], Any]) -> tuple[str, str, int]:
    """What a caller reads, without the id that was asked for."""
    with pytest.raises(Failure) as caught:
        call()
    return caught.value.code, caught.value.message, caught.value.status


def test_two_tenants_may_use_the_same_event_id(store: Store, jobs: Jobs) -> None:
    acme, zeta = (Deliveries(store, jobs, tenant=name) for name in ("acme", "zeta"))
    for own in (acme, zeta):
        own.endpoints.add(URL)
    assert acme.publish("order.paid", {"of": "acme"}, id="evt_1").created
    assert zeta.publish("order.paid", {"of": "zeta"}, id="evt_1").created, "the id is the tenant's own"
    assert not acme.publish("order.paid", {"of": "acme"}, id="evt_1").created
    with pytest.raises(Failure, match="EVENT_ID_TAKEN"):
        zeta.publish("order.paid", {"of": "acme"}, id="evt_1")
    assert [own.history("evt_1").payload for own in (acme, zeta)] == [{"of": "acme"}, {"of": "zeta"}]
    give_up(store)
    assert acme.undelivered.replay("evt_1") == 1
    assert (acme.undelivered.count(), zeta.undelivered.count()) == (0, 1)
    assert [one.payload for one in zeta.undelivered.list().events] == [{"of": "zeta"}]
    everybody = Deliveries(store, jobs)
    made = everybody.publish_many([NewEvent("a", 1, "evt_2", tenant="acme"), NewEvent("a", 2, "evt_2", tenant="zeta")])
    assert [one.created for one in made] == [True, True]
    assert everybody.history("evt_2", tenant="zeta").payload == 2


def test_large_bodies_and_pruning_keep_the_tenants_apart(store: Store, jobs: Jobs) -> None:
    for name in ("acme", "zeta"):
        own = Deliveries(store, jobs, tenant=name)
        own.endpoints.add(URL)
        own.publish("order.paid", {"of": name, "much": "x" * 40_000}, id="evt_1")
    held = store.atomic(lambda tx: ledger.claim(tx, queue="webhooks", worker="w-1", count=10))
    for job in held:
        found = store.atomic(lambda tx, job=job: tx.row("delivery.body", tenant=job.tenant, event_id="evt_1"))
        assert found is not None
        assert f'"of":"{job.tenant}"' in found[0]
    done = next(job for job in held if job.tenant == "acme")
    store.atomic(lambda tx: ledger.settle(tx, "w-1", [(done, None, 5)]))
    everybody = Deliveries(store, jobs)
    assert everybody.prune(older_s=-1) == 1, "the other one is still under way"
    with pytest.raises(Failure, match="EVENT_NOT_FOUND"):
        everybody.history("evt_1", tenant="acme")
    assert len(everybody.history("evt_1", tenant="zeta").deliveries) == 1


@pytest.mark.parametrize("kind", ["foreign", "unknown", "empty", "odd"])
def test_whatever_id_is_tried_a_tenant_reaches_only_its_own(store: Store, jobs: Jobs, kind: str) -> None:
    acme, zeta = Deliveries(store, jobs, tenant="acme"), Deliveries(store, jobs, tenant="zeta")
    theirs = zeta.endpoints.add(URL)
    zeta.publish("order.paid", {}, id="evt_theirs")
    [dead] = give_up(store)
    before = jobs.show(dead), zeta.endpoints.show(theirs.id)
    event, endpoint, job = {
        "foreign": ("evt_theirs", theirs.id, dead),
        "unknown": ("evt_none", "ep_none", UNKNOWN),
        "empty": ("", "", ""),
        "odd": ("' OR 1=1 --", "%", "~"),
    }[kind]
    endpoints, letters, own_jobs = acme.endpoints, DeadLetters(store, tenant="acme"), Jobs(store, tenant="acme")
    no_event = refusal(lambda: acme.history("evt_none"))
    no_endpoint = refusal(lambda: endpoints.show("ep_none"))
    no_job = refusal(lambda: own_jobs.show(UNKNOWN))
    assert refusal(lambda: acme.history(event)) == no_event
    nothing = refusal(lambda: acme.undelivered.replay("evt_none"))
    assert refusal(lambda: acme.undelivered.replay(event)) == nothing
    for call in (
        lambda: endpoints.show(endpoint),
        lambda: endpoints.update(endpoint, timeout_s=5.0),
        lambda: endpoints.disable(endpoint, reason="why"),
        lambda: endpoints.enable(endpoint),
        lambda: endpoints.remove(endpoint),
        lambda: endpoints.rotate_secret(endpoint),
        lambda: acme.undelivered.replay_all(UndeliveredFilter(endpoint_id=endpoint)),
    ):
        assert refusal(call) == no_endpoint
    for call in (
        lambda: own_jobs.show(job),
        lambda: own_jobs.wait(job, 0),
        lambda: own_jobs.cancel(job),
        lambda: letters.show(job),
        lambda: letters.revive(job),
        lambda: letters.discard(job),
    ):
        assert refusal(call) == no_job
    assert own_jobs.history(job) == []
    assert list(letters.history(job)) == []
    assert (own_jobs.list(), list(letters.list().letters), list(letters.groups()), letters.count()) == ([], [], [], 0)
    assert (list(endpoints.list()), list(acme.undelivered.list().events), acme.undelivered.count()) == ([], [], 0)
    assert letters.revive_all(DeadFilter()).total == 0
    assert letters.discard_all(DeadFilter(endpoint=endpoint or None)).total == 0
    assert acme.undelivered.replay_all(UndeliveredFilter()).total == 0
    assert (jobs.show(dead), zeta.endpoints.show(theirs.id)) == before


def test_a_tenant_cannot_name_another_one(store: Store, jobs: Jobs) -> None:
    acme, own_jobs, letters = (
        Deliveries(store, jobs, tenant="acme"),
        Jobs(store, tenant="acme"),
        DeadLetters(store, tenant="acme"),
    )
    for call in (
        lambda: own_jobs.enqueue("k", tenant="zeta"),
        lambda: own_jobs.enqueue_many([NewJob(kind="k", tenant="zeta")]),
        lambda: own_jobs.list(tenant="zeta"),
        lambda: letters.list(DeadFilter(tenant="zeta")),
        lambda: letters.count(DeadFilter(tenant="zeta")),
        lambda: letters.revive_all(DeadFilter(tenant="zeta")),
        lambda: acme.publish("a", 1, tenant="zeta"),
        lambda: acme.publish_many([NewEvent("a", 1, tenant="zeta")]),
        lambda: acme.history("e", tenant="zeta"),
        lambda: acme.endpoints.add(URL, tenant="zeta"),
        lambda: acme.endpoints.list(tenant="zeta"),
        lambda: acme.undelivered.replay("e", tenant="zeta"),
    ):
        assert refusal(call)[0] == "BAD_REQUEST"


def test_what_a_tenant_makes_is_its_own_and_it_can_do_everything_with_that(store: Store, jobs: Jobs) -> None:
    own = Jobs(store, tenant="acme")
    letters = DeadLetters(store, tenant="acme")
    one = own.enqueue("k", queue="mail").id
    [many] = own.enqueue_many([NewJob(kind="k", queue="mail")])
    [kept] = jobs.enqueue_many([NewJob(kind="k", queue="mail", dedupe_key="d")])
    assert own.enqueue("k", queue="mail", dedupe_key="d").created, "dedupe keys of tenants do not meet"
    assert {job["tenant"] for job in own.list()} == {"acme"}
    assert own.cancel(one)
    assert own.show(one)["error_code"] == "JOB_CANCELLED"
    assert own.history(one)
    give_up(store, "mail")
    assert letters.count() == 3
    letters.revive(many.id)
    letters.discard(one)
    assert letters.revive_all(DeadFilter()).done == 1
    assert jobs.show(kept.id)["state"] == "failed"
    with pytest.raises(Failure, match="JOB_NOT_READY"):
        own.wait(many.id, 0)


async def _enqueued(jobs: Jobs) -> str:
    return (await jobs.enqueue_async("k")).id


def test_coroutines_enqueue_for_the_tenant_too(store: Store, jobs: Jobs) -> None:
    import asyncio

    own = Jobs(store, tenant="acme")
    assert jobs.show(asyncio.run(_enqueued(own)))["tenant"] == "acme"
