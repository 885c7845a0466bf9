"""What is easily written wrong is refused at once, with how it is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast.policy import Breaker, PolicyInvalid
from holdfast.store import Engine, Store
from holdfast.worker import Handlers, Job, Jobs, NewJob, QueueSettings, Worker, ledger

JOIN = "tx: give store.join(connection), not the connection itself"
Connect = Callable[[], Any]


@pytest.fixture
def connection(store: Store) -> Iterator[Any]:
    """A connection of the user's own to the store's database."""
    connect: Connect = sqlite3.connect if store.engine is Engine.SQLITE else psycopg.connect  # type: ignore[assignment]
    mine = connect(store.address.target)  # type: ignore[call-arg]
    yield mine
    mine.close()


@pytest.mark.parametrize(
    "enqueue",
    [
        lambda jobs, connection: jobs.enqueue("k", tx=connection),
        lambda jobs, connection: jobs.enqueue("k", dedupe_key="d", tx=connection),
        lambda jobs, connection: jobs.enqueue_many([NewJob(kind="k")] * 400, tx=connection),
    ],
    ids=["one", "with a key", "many"],
)
def test_a_connection_is_no_transaction_to_enqueue_with(
    jobs: Jobs, connection: Any, enqueue: Callable[[Jobs, Any], object]
) -> None:
    with pytest.raises(TypeError) as refused:
        enqueue(jobs, connection)
    assert str(refused.value) == JOIN
    assert jobs.list() == []


def test_a_connection_is_no_transaction_to_finish_with(store: Store, jobs: Jobs, connection: Any) -> None:
    jobs.enqueue("k")
    (job,) = store.atomic(lambda tx: ledger.claim(tx, queue="default", worker="w", count=1))
    with pytest.raises(TypeError) as refused:
        job.finish(connection)
    assert str(refused.value) == JOIN
    assert not job.finishing


def test_a_handler_without_a_kind_is_refused() -> None:
    handlers = Handlers()
    with pytest.raises(TypeError) as refused:

        @handlers.handle  # type: ignore[arg-type]
        def send(job: Job) -> None:
            """Of no kind."""

    assert str(refused.value) == 'name the kind: @handlers.handle("mail.send")'


@pytest.mark.parametrize(
    ("queues", "told"),
    [
        (["mail"], "queues: 'mail' is not a QueueSettings; write QueueSettings(\"mail\")"),
        ("mail", "queues: 'mail' is not a QueueSettings; write QueueSettings(\"mail\")"),
        ([QueueSettings("a"), 7], "queues: 7 is not a QueueSettings; write QueueSettings(name)"),
    ],
)
def test_queues_are_given_with_their_settings(queues: Any, told: str) -> None:
    store = Store.open("sqlite://")
    with pytest.raises(TypeError) as refused:
        Worker(store, Handlers(), queues=queues)
    assert str(refused.value) == told
    store.close()


def test_a_queue_is_served_with_its_settings() -> None:
    with pytest.raises(TypeError, match="'mail' is not a QueueSettings"):
        Handlers().serve("mail")  # type: ignore[arg-type]


def test_a_breaker_of_a_queue_is_an_instance() -> None:
    with pytest.raises(PolicyInvalid, match=r"^mail: breaker: the class Breaker is not a Breaker; write Breaker\(\)$"):
        QueueSettings("mail", breaker=Breaker)  # type: ignore[arg-type]


def test_the_rule_of_a_handler_is_a_rule() -> None:
    with pytest.raises(PolicyInvalid, match=r"^mail.send: retry: 5 is not a Retry; write Retry\(attempts=5\)$"):
        Handlers().handle("mail.send", retry=5)  # type: ignore[arg-type]


def test_a_filter_that_does_not_exist_is_refused(jobs: Jobs) -> None:
    with pytest.raises(TypeError) as refused:
        jobs.list(sate="failed")  # type: ignore[call-arg]
    assert str(refused.value) == "'sate' is not a filter; there are state, queue, kind, tenant, code"


async def test_an_option_that_does_not_exist_is_refused(jobs: Jobs) -> None:
    with pytest.raises(TypeError, match="quue"):
        await jobs.enqueue_async("k", quue="mail")  # type: ignore[call-arg]
