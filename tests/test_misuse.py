"""Misuse of the public names is refused at once, by an exception that names the argument and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from holdfast import (
    CORE,
    Backoff,
    Breaker,
    Budget,
    Catalog,
    Concurrency,
    Handlers,
    Jobs,
    Keys,
    Link,
    QueueSettings,
    RateLimit,
    Retry,
    Store,
    Worker,
    within,
)
from holdfast.base import ArgumentInvalid
from holdfast.catalog import Failure, Fault
from holdfast.delivery import Deliveries
from holdfast.http import Access, ApiKeys, BodyRule, Check, Health, Idempotency, RateLimits, RateRule, by_client
from holdfast.policy import Full
from holdfast.watch import Alerts, SlackSink, StoreSeries
from holdfast.worker import NewJob, Retention

errors = Catalog("misuse", extends=(CORE,))
SOLD_OUT = errors.fault("SOLD_OUT", status=409, says="{item} is sold out.")


class Client:
    """Something that calls out."""


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    found = Store.open("sqlite://")
    found.migrate()
    yield found
    found.close()


def declared(**given: Any) -> Fault:
    return errors.fault(**{"code": "WRONG", "status": 400, "says": "No.", **given})


def handled(function: Any, **given: Any) -> None:
    Handlers().handle("mail.send", **given)(function)


def good(job: object) -> None:
    """A handler in order."""


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    # the catalog
    "a fault with status 200": (lambda: declared(status=200), "200 is the status of a success"),
    "a fault with a status as text": (lambda: declared(status="404"), "write status=409"),
    "a fault without words": (lambda: declared(says=None), "says: None is not text"),
    "a fault that blames nobody known": (lambda: declared(blame="clinet"), "did you mean client?"),
    "a fault of unknown severity": (lambda: declared(severity="crit"), "critical"),
    "causes that are one text": (lambda: declared(causes="a bug"), "write causes=(…,)"),
    "a fact that is not given": (lambda: SOLD_OUT(), "write SOLD_OUT(item=…)"),
    "a fact that is misspelt": (lambda: SOLD_OUT(itm="lamp"), "(itm is given); write SOLD_OUT(item=…)"),
    "a catalog that extends no tuple": (lambda: Catalog("x", extends=CORE), "extends=(CORE,)"),  # type: ignore[arg-type]
    "a refinement of no field": (lambda: errors.refine("NOT_FOUND", sayz="x"), "did you mean says?"),
    "a rule that is none": (lambda: errors.overlay({"SOLD_OUT": 3}), "neither True, False nor a Retry"),  # type: ignore[dict-item]
    # policies
    "attempts as text": (lambda: Retry(attempts="3"), "attempts: '3' is not a whole number"),  # type: ignore[arg-type]
    "half an attempt": (lambda: Retry(attempts=2.5), "attempts: 2.5 is not a whole number"),  # type: ignore[arg-type]
    "a condition that is none": (lambda: Retry(when=5), "when: 5 is not a function"),  # type: ignore[arg-type]
    "attempts of a list": (lambda: Retry(attempts_per_code=["A"]), "attempts_per_code"),  # type: ignore[arg-type]
    "delays as a list": (lambda: Backoff.listed([1, 5]), "Backoff.listed(1, 5, 25)"),  # type: ignore[arg-type]
    "a delay as text": (lambda: Backoff.exponential("1"), "base_s: '1' is not a number"),  # type: ignore[arg-type]
    "a jitter that is a share": (lambda: Backoff.exponential(1, jitter=0.2), "jitter=Spread(0.2)"),  # type: ignore[arg-type]
    "a jitter that is a class": (lambda: Backoff.exponential(1, jitter=Full), "the class Full is not a jitter"),  # type: ignore[arg-type]
    "a ratio as text": (lambda: Breaker(failure_ratio="50%"), "failure_ratio: '50%' is not a number"),  # type: ignore[arg-type]
    "half a call": (lambda: Breaker(calls_min=2.5), "calls_min: 2.5 is not a whole number"),  # type: ignore[arg-type]
    "a period as text": (lambda: RateLimit(count=5, per_s="1"), "per_s: '1' is not a number"),  # type: ignore[arg-type]
    "places as text": (lambda: Concurrency(count="5"), "count"),  # type: ignore[arg-type]
    "a share as text": (lambda: Budget(share="x"), "share: 'x' is not a number"),  # type: ignore[arg-type]
    "a deadline as text": (lambda: within("5"), "seconds: '5' is not a number"),  # type: ignore[arg-type]
    "a link without a name": (lambda: Link(""), 'write Link("shop → bank")'),
    "a timeout as a timedelta": (
        lambda: Link("a", timeout_s=timedelta(seconds=5)),
        "is not a number; write 5",
    ),  # type: ignore[arg-type]
    "a link on a class": (lambda: Link("a")(Client), "put it on the methods of Client"),
    # jobs
    "a timeout below nothing": (lambda: handled(good, timeout_s=-1), "timeout_s=-1: give a number of seconds above 0"),
    "a handler without a parameter": (lambda: handled(lambda: None), "write def handler(job: Job)"),
    "a handler with two": (lambda: handled(lambda job, more: None), "does not take a job alone"),
    "a handler that is a class": (lambda: handled(Client), "the class Client is not a function"),
    "a handler that yields": (lambda: handled(lambda job: (yield)), "return instead of yield"),
    "a queue that is a number": (lambda: QueueSettings(5), "is not the name of a queue"),  # type: ignore[arg-type]
    "half a place": (lambda: QueueSettings("a", concurrency=2.5), "concurrency: 2.5 is not a whole number"),  # type: ignore[arg-type]
    "a code where a fault belongs": (lambda: QueueSettings("a", breaker=Breaker(), fails_with="X"), "give the fault"),  # type: ignore[arg-type]
    "a probe without a breaker": (lambda: QueueSettings("a", probe=lambda: True), "write breaker=Breaker()"),
    "an interval of nothing": (lambda: Handlers().enqueue_by_clock("n", every_s=0, kind="k"), "every_s: 0"),
    "a schedule in words": (lambda: Handlers().enqueue_by_clock("n", "every minute", kind="k"), "fields; write five"),
    "neither of the two": (lambda: Handlers().enqueue_by_clock("n", kind="k"), "give either a schedule or every_s"),
    "a retention as text": (lambda: Retention(finished_s="7d"), "finished_s: '7d' is not a number"),  # type: ignore[arg-type]
    # the edge
    "a body of text": (lambda: BodyRule(bytes_max="1MB"), "bytes_max: '1MB' is not a number"),  # type: ignore[arg-type]
    "a rate that is a number": (lambda: RateRule(name="a", rate=5, by=by_client), "RateLimit.per_minute(60)"),  # type: ignore[arg-type]
    "a rate by a word": (lambda: RateRule(name="a", rate=RateLimit.per_minute(5), by="client"), "give by_client"),  # type: ignore[arg-type]
    "a rate where a rule belongs": (lambda: RateLimits(RateLimit.per_minute(5)), "write RateRule(name="),  # type: ignore[arg-type]
    "checks as a list": (lambda: Health([]), 'write {"database": store_check(store)}'),  # type: ignore[arg-type]
    "a check that is a function": (lambda: Health({"a": lambda: True}), "write Check(function)"),  # type: ignore[dict-item]
    "a check without time": (lambda: Check(lambda: True, timeout_s=0), "timeout_s=0: give a number of seconds above 0"),
    "access by a text": (lambda: Access("key"), "write Access(ApiKeys(store))"),  # type: ignore[arg-type]
    "a sink with a plain address": (lambda: SlackSink(name="ops", url="https://x"), "write url=Secret(…)"),  # type: ignore[arg-type]
    "an address that is a number": (lambda: Store.open(5), "5 is not a database address"),  # type: ignore[arg-type]
    "a pool of nobody": (lambda: Store.open("sqlite://", pool_max=0), "pool_max=0"),
    "an option that the driver does not know": (
        lambda: Store.open("postgresql://app:hunter2@db/shop?sslmod=require"),
        'invalid URI query parameter: "sslmod"',
    ),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_misuse_is_refused_with_its_remedy(name: str) -> None:
    misuse, remedy = WRONG[name]
    with pytest.raises((ArgumentInvalid, TypeError)) as refused:
        misuse()
    assert remedy in str(refused.value)
    assert "hunter2" not in str(refused.value)


OF_A_STORE: dict[str, tuple[Callable[[Store], object], str]] = {
    "a lease of nothing": (lambda store: Worker(store, Handlers(), lease_s=0), "lease_s=0: give a number of seconds"),
    "a lease as text": (lambda store: Worker(store, Handlers(), lease_s="60"), "lease_s='60'"),  # type: ignore[arg-type]
    "a grace below nothing": (lambda store: Worker(store, Handlers(), grace_s=-1), "grace_s=-1"),
    "a queue twice": (
        lambda store: Worker(store, Handlers(), queues=[QueueSettings("mail"), QueueSettings("mail")]),
        "queues: 'mail' is given twice",
    ),
    "no queue at all": (lambda store: Worker(store, Handlers(), queues=[]), "leave queues= out"),
    "handlers in a dict": (lambda store: Worker(store, {"k": good}), "give the Handlers()"),  # type: ignore[arg-type]
    "an address for a store": (lambda store: Worker("sqlite://", Handlers()), "Worker(Store.open(), handlers)"),  # type: ignore[arg-type]
    "a retention of a number": (lambda store: Worker(store, Handlers(), retention=7), "give a Retention(…)"),  # type: ignore[arg-type]
    "keys without a lease": (lambda store: Keys(store, lease_s=0), "lease_s=0: give a number of seconds above 0"),
    "keys in no dialect": (lambda store: Keys(store, dialect="problems"), "did you mean problem?"),  # type: ignore[arg-type]
    "keys on an address": (lambda store: Keys("sqlite://"), "Keys(Store.open(…))"),  # type: ignore[arg-type]
    "a store where keys belong": (lambda store: Idempotency(keys=store, anonymous=True), "write keys=Keys(store)"),  # type: ignore[arg-type]
    "methods in small letters": (
        lambda store: Idempotency(keys=Keys(store), methods=["post"], anonymous=True),
        'write {"POST", "PUT"}',
    ),
    "a wait below nothing": (lambda store: Idempotency(keys=Keys(store), wait_s=-1, anonymous=True), "wait_s=-1"),
    "a public that is a bool": (lambda store: Access(ApiKeys(store), public=True), "give a function of the scope"),  # type: ignore[arg-type]
    "a key that expires in words": (lambda store: ApiKeys(store).issue("app", expires_s="1d"), "expires_s='1d'"),  # type: ignore[arg-type]
    "deliveries without jobs": (lambda store: Deliveries(store, None), "Deliveries(store, Jobs(store))"),  # type: ignore[arg-type]
    "deliveries with a number of failures": (lambda store: Deliveries(store, Jobs(store), breaker=5), "Breaker()"),  # type: ignore[arg-type]
    "a scheme that is a name": (
        lambda store: Deliveries(store, Jobs(store), schemes={"standard": "sha256"}),  # type: ignore[dict-item]
        "give a signer",
    ),
    "rules by name": (lambda store: Alerts(store, StoreSeries(store), rules=["queue_stuck"]), "give Rule(…)"),  # type: ignore[list-item]
    "sinks by name": (lambda store: Alerts(store, StoreSeries(store), sinks=["slack"]), "give a sink"),  # type: ignore[list-item]
}


@pytest.mark.parametrize("name", list(OF_A_STORE))
def test_misuse_of_what_stands_on_a_store_is_refused_too(store: Store, name: str) -> None:
    misuse, remedy = OF_A_STORE[name]
    with pytest.raises((ArgumentInvalid, TypeError)) as refused:
        misuse(store)
    assert remedy in str(refused.value)


def test_a_code_that_a_catalog_has_not_is_suggested() -> None:
    with pytest.raises(KeyError) as unknown:
        errors["SOLDOUT"]
    assert str(unknown.value) == "misuse has no 'SOLDOUT'; did you mean SOLD_OUT?"
    with pytest.raises(KeyError, match="did you mean SOLD_OUT"):
        errors.overlay({"SOLDOUT": True})


@pytest.mark.parametrize(
    ("enqueue", "told"),
    [
        (lambda jobs: jobs.enqueue("k", delay_s="5"), "delay_s is a number of seconds"),
        (lambda jobs: jobs.enqueue("k", delay_s=timedelta(seconds=5)), "delay_s is a number of seconds"),
        (lambda jobs: jobs.enqueue_many([{"kind": "k"}]), "write [NewJob(kind=…, payload=…)]"),
        (lambda jobs: jobs.enqueue_many([NewJob(kind="k"), "k"]), "write [NewJob(kind=…, payload=…)]"),
    ],
)
def test_a_job_that_cannot_be_meant_is_a_bad_request(store: Store, enqueue: Any, told: str) -> None:
    with pytest.raises(Failure, match="BAD_REQUEST") as refused:
        enqueue(Jobs(store))
    assert told in refused.value.message


def test_a_database_that_cannot_be_opened_says_why_without_its_password(tmp_path: Any) -> None:
    with pytest.raises(Failure) as away:
        Store.open("postgresql://app:hunter2@127.0.0.1:1/shop").migrate()
    assert "DATABASE_CONNECTION_ERROR" in str(away.value)
    assert "Connection refused" in str(away.value)
    assert "hunter2" not in str(away.value)
    assert "refused" not in away.value.message  # what people outside read
    (tmp_path / "shop.db").write_text("this is not a database, and long enough to be none")
    with pytest.raises(Failure, match="file is not a database"):
        Store.open(f"sqlite:///{tmp_path / 'shop.db'}").migrate()


def test_a_fault_that_the_edge_takes_from_a_catalog_may_lack_its_facts() -> None:
    assert SOLD_OUT.occur().message == "… is sold out."
