"""`holdfast queues` and `holdfast workers` on both engines."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.store import Store
from holdfast.worker import Handlers, Jobs, QueueSettings, Worker

WITHIN_S = 60.0


def test_the_status_tells_depth_and_whether_a_queue_is_held(hand: Any, store: Store) -> None:
    jobs = Jobs(store)
    jobs.enqueue("a", queue="mail")
    jobs.enqueue("a", queue="mail", delay_s=3_600)
    hand.answer("queues", "pause", "mail", "--reason", "provider [is] down")
    jobs.enqueue("b")
    default, mail = hand.documents("queues", "status")
    assert (default["name"], default["state"], default["ready"]) == ("default", "no worker", 1)
    assert (mail["name"], mail["state"], mail["ready"], mail["waiting"]) == ("mail", "paused", 1, 1)
    assert mail["paused_reason"] == "provider [is] down"
    assert mail["paused_at"].endswith("Z")
    line = hand.answer("queues", "status").splitlines()[2]
    assert line.split()[:6] == ["mail", "paused", "1", "1", "0", "0"]
    assert line.endswith("provider [is] down")


def test_a_queue_that_a_worker_serves_is_running_and_another_has_no_worker(hand: Any, store: Store) -> None:
    jobs = Jobs(store)
    jobs.enqueue("a", queue="mail", delay_s=3_600)
    jobs.enqueue("a", queue="mial", delay_s=3_600)
    worker = Worker(store, Handlers(), queues=[QueueSettings("mail")])
    worker.start()
    try:
        mail, mial = hand.documents("queues", "status")
    finally:
        worker.stop()
        worker.join()
    assert (mail["state"], mail["workers"], mial["state"], mial["workers"]) == ("running", 1, "no worker", 0)
    line = hand.answer("queues", "status").splitlines()[2]
    assert line.startswith("mial")
    assert "no worker serves this queue" in line
    assert {one["state"] for one in hand.documents("queues", "status")} == {"no worker"}  # it has left


def test_a_queue_is_paused_and_resumed(hand: Any) -> None:
    assert hand.answer("queues", "pause", "mail", "--reason", "why") == "Paused mail: why\n"
    assert hand.document("queues", "resume", "mail") == {"queue": "mail", "paused": False, "resumed": True}
    assert hand.answer("queues", "resume", "mail") == "mail was not paused.\n"


def test_pausing_a_name_that_nothing_uses_says_so_beside_the_answer(quick: Any) -> None:
    quick.answer("jobs", "enqueue", "k", "--queue", "mail")
    assert quick("queues", "pause", "mail", "--reason", "why").stderr == ""
    ended = quick("queues", "pause", "mial", "--reason", "why", "--json")
    assert (ended.exit_code, ended.stdout) == (0, '{"queue":"mial","paused":true,"reason":"why"}\n')
    assert ended.stderr == "No job and no worker has used a queue named mial so far; is it spelt right?\n"


@pytest.mark.parametrize("verb", ["resume", "probe"])
def test_a_queue_that_does_not_exist_is_one_line(hand: Any, verb: str) -> None:
    ended = hand("queues", verb, "mial")
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert ended.stderr == (
        "holdfast: QUEUE_NOT_FOUND: There is no queue named mial. `holdfast queues status` lists every queue.\n"
    )


def test_a_pause_needs_a_reason(quick: Any) -> None:
    assert quick("queues", "pause", "mail").exit_code == 2
    ended = quick("queues", "pause", "mail", "--reason", "")
    assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
    assert "BAD_REQUEST: reason is missing" in ended.stderr


def test_workers_tells_who_holds_what_and_for_how_long(hand: Any, store: Store) -> None:
    assert hand("workers").stderr == "No worker is running.\n"
    worker = Worker(store, Handlers(), queues=[QueueSettings("mail"), QueueSettings("slow")], lease_s=60)
    worker.start()
    try:
        one = hand.document("workers")
        assert (one["id"], one["queues"], one["held"]) == (worker.id, ["mail", "slow"], 0)
        assert 0 < one["lease_left_s"] <= 60
        assert one["lease_until_at"] > one["started_at"]
        head, row = hand.answer("workers").splitlines()
        assert head.split() == ["ID", "HOST", "PROCESS", "QUEUES", "HELD", "LEASE", "LEFT", "STARTED"]
        assert row.startswith(worker.id)
    finally:
        worker.stop()
        worker.join(WITHIN_S)


def test_a_probe_says_when_the_breaker_is_closed(hand: Any) -> None:
    hand.answer("jobs", "enqueue", "k", "--queue", "mail")
    assert hand.answer("queues", "probe", "mail") == "The breaker of mail is closed.\n"
