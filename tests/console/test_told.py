"""What the operator's verbs tell in this process; only once it is committed."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.base import bus
from holdfast.catalog import Catalog
from holdfast.cli.catalogs import chosen_catalogs
from holdfast.cli.serve_layout import catalogs_of
from holdfast.console.faults import CONSOLE
from holdfast.operate.faults import OPERATE
from holdfast.store import Store
from holdfast.worker import Jobs, Queues

from .making import hold
from .test_actions import open_breaker


def told(events: list[tuple[str, Any]], verb: str) -> list[dict[str, Any]]:
    return [dict(facts) for name, facts in events if name == verb]


def test_cancelling_a_queued_job_is_told_with_its_facts(jobs: Jobs) -> None:
    made = jobs.enqueue("mail.send", queue="mail", tenant="shop").id
    with bus.heard() as events:
        assert jobs.cancel(made)
        assert not jobs.cancel(made), "it has ended"
    [facts] = told(events, "job.cancelled")
    known = {name: facts[name] for name in ("id", "tenant", "queue", "kind", "attempt", "worker", "code")}
    assert known == {
        "id": made,
        "tenant": "shop",
        "queue": "mail",
        "kind": "mail.send",
        "attempt": 0,
        "worker": "",
        "code": "JOB_CANCELLED",
    }
    assert facts["duration_us"] is None, "it did not run"


def test_of_a_job_that_runs_nothing_is_told_before_it_has_stopped(store: Store, jobs: Jobs) -> None:
    [running] = hold(store, jobs)
    with bus.heard() as events:
        assert jobs.cancel(running)
    assert told(events, "job.cancelled") == []


def test_a_probe_by_hand_is_told_when_it_moves_the_breaker(store: Store) -> None:
    queues = Queues(store)
    with bus.heard() as events:
        assert not queues.probe("mail")
        open_breaker(store, "mail")
        assert queues.probe("mail")
        assert queues.probe("mail"), "one more, of a breaker that is half open already"
    assert told(events, "breaker.half_opened") == [{"name": "mail", "reason": "by hand"}]


@pytest.mark.parametrize("catalog", [CONSOLE, OPERATE])
def test_the_faults_of_operators_are_served_and_exported(catalog: Catalog) -> None:
    assert catalog in catalogs_of([])
    assert catalog in chosen_catalogs([])
