"""`holdfast worker` as real processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.watched import alert_policy, alerts_of
from holdfast.store import Store
from holdfast.testing.processes import children, wait_until
from holdfast.watch import names
from holdfast.watch.alert_state import Phase
from holdfast.watch.flush import Flusher
from holdfast.watch.meter import Meter
from holdfast.worker import Jobs

WITHIN_S = 60.0
WHERE = "shop.jobs:handlers"
Start = Callable[..., Any]


def workers(store: Store) -> list[dict[str, Any]]:
    return store.atomic(lambda tx: tx.records("worker.list"), write=False)


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_workers(store: Store, count: int) -> set[int]:
    found: set[int] = set()

    def are_there() -> bool:
        found.clear()
        found.update(one["process"] for one in workers(store))
        return len(found) == count

    wait_until(are_there, within_s=WITHIN_S, what=f"{count} workers")
    return found


def test_a_worker_process_completes_what_was_enqueued_and_stops_in_order(
    start: Start, store: Store, database_url: str
) -> None:
    job = Jobs(store).enqueue("hello", {"name": "Ann"})
    running = start("worker", WHERE, HOLDFAST_DATABASE=database_url)
    assert Jobs(store).wait(job.id, WITHIN_S) == "hello Ann"
    assert "works on default:10" in running.line()
    running.process.send_signal(signal.SIGINT)
    code, said = running.end()
    assert (code, said) == (0, f"holdfast worker: process {running.process.pid} has stopped\n")
    assert workers(store) == []


def test_what_runs_is_finished_before_the_worker_stops(start: Start, store: Store, database_url: str) -> None:
    job = Jobs(store).enqueue("stop")
    running = start("worker", WHERE, "--no-migrate", HOLDFAST_DATABASE=database_url)
    code, said = running.end()
    assert code == 0, said
    assert Jobs(store).wait(job.id, 0) == running.process.pid


def test_a_second_signal_gives_back_what_runs_and_does_not_wait(
    start: Start, store: Store, database_url: str, tmp_path: Path
) -> None:
    jobs, mark = Jobs(store), tmp_path / "runs"
    job = jobs.enqueue("stuck", str(mark))
    running = start("worker", WHERE, "--grace", "600", HOLDFAST_DATABASE=database_url)
    wait_until(mark.exists, within_s=WITHIN_S, what="the job runs")
    running.told_until_it_ends(signal.SIGTERM)
    assert running.end()[0] == 0
    shown = jobs.show(job.id)
    assert (shown["state"], shown["attempt_count"]) == ("queued", 0)
    last = jobs.history(job.id)[-1]
    assert (last["verb"], last["reason"]) == ("released", "the worker was told to leave at once")


def test_a_queue_is_served_with_the_room_that_was_given(start: Start, store: Store, database_url: str) -> None:
    job = Jobs(store).enqueue("hello", {"name": "Bob"}, queue="tenant:mail")
    running = start("worker", WHERE, "--queue", "tenant:mail:3", "--queue", "plain", HOLDFAST_DATABASE=database_url)
    assert "works on tenant:mail:3, plain:10" in running.line()
    assert Jobs(store).wait(job.id, WITHIN_S) == "hello Bob"


def test_a_child_that_is_killed_is_replaced(start: Start, sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    parent = start("worker", WHERE, "--processes", "2", "--lease", "60", HOLDFAST_DATABASE=sqlite_url)
    first = wait_for_workers(store, 2)
    assert set(children(parent.process.pid)) == first
    killed = min(first)
    os.kill(killed, signal.SIGKILL)
    wait_until(
        lambda: {one["process"] for one in workers(store)} - first != set(), within_s=WITHIN_S, what="a new worker"
    )
    parent.process.send_signal(signal.SIGTERM)
    code, said = parent.end()
    store.close()
    assert code == 0
    assert f"process {killed} was killed by SIGKILL; a new one starts in 0.5 s" in said
    assert said.count("has stopped") == 2


def test_a_parent_that_is_killed_leaves_no_child_behind(start: Start, sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    parent = start("worker", WHERE, "--processes", "2", HOLDFAST_DATABASE=sqlite_url)
    started = wait_for_workers(store, 2)
    parent.process.kill()
    wait_until(lambda: not any(map(alive, started)), within_s=WITHIN_S, what="the children end")
    assert workers(store) == []
    store.close()


def test_a_second_signal_reaches_the_children_too(start: Start, sqlite_url: str, tmp_path: Path) -> None:
    store = Store.open(sqlite_url)
    jobs, mark = Jobs(store), tmp_path / "runs"
    job = jobs.enqueue("stuck", str(mark))
    parent = start("worker", WHERE, "--processes", "2", "--grace", "600", HOLDFAST_DATABASE=sqlite_url)
    wait_until(mark.exists, within_s=WITHIN_S, what="the job runs")
    parent.told_until_it_ends(signal.SIGINT)
    assert jobs.show(job.id)["state"] == "queued"
    store.close()


def test_the_address_does_not_stand_in_the_words_of_a_child(start: Start, sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    start("worker", WHERE, "--processes", "2", "--database", sqlite_url)
    for pid in wait_for_workers(store, 2):
        assert sqlite_url not in Path(f"/proc/{pid}/cmdline").read_text()
    store.close()


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [
        ("nowhere:handlers", 2, "there is no module nowhere"),
        ("shop.nothing:handlers", 2, "there is no module shop.nothing"),
        ("shop.jobs:nothing", 2, "shop.jobs has no nothing"),
        ("shop.jobs:empty", 2, "has no handler"),
        ("shop.jobs:never", 2, "is of type Event, not holdfast.worker.Handlers"),
        ("shop.jobs", 2, "is not MODULE:NAME"),
        ("shop.broken:handlers", 1, "ZeroDivisionError: division by zero"),
        ("shop.lacking:handlers", 1, "No module named 'shop_lacks_this'"),
        ("shop.unclosed:handlers", 1, "SyntaxError: '(' was never closed"),
    ],
)
def test_handlers_that_cannot_be_used_are_one_clear_line(
    start: Start, folder: Path, sqlite_url: str, where: str, code: int, said: str
) -> None:
    (folder / "shop" / "broken.py").write_text("1 / 0\n")
    (folder / "shop" / "lacking.py").write_text("import shop_lacks_this\n")
    (folder / "shop" / "unclosed.py").write_text("x = (1\n")
    ended, text = start("worker", where, "--no-migrate", HOLDFAST_DATABASE=sqlite_url).end()
    assert (ended, text.count("\n")) == (code, 1), text
    assert text.startswith("holdfast: HANDLERS_")
    assert said in text


def test_a_parent_of_children_that_cannot_start_says_it_once_and_ends(start: Start, sqlite_url: str) -> None:
    code, said = start("worker", "nowhere:handlers", "--processes", "4", HOLDFAST_DATABASE=sqlite_url).end()
    assert (code, said.count("\n")) == (2, 1), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--queue", "mail:0"], "--queue mail:0: concurrency: 0 is not between 1 and 1000"),
        (["--queue", "mail", "--queue", "mail:3"], "--queue mail is given twice"),
        (["--queue", "a:b"], "--queue a:b: after the colon stands how many run at once; write --queue a:10"),
        (["--lifeline", "99"], "--lifeline 99 is not an open line"),
    ],
)
def test_words_that_cannot_be_used_are_refused(start: Start, sqlite_url: str, words: list[str], said: str) -> None:
    code, text = start("worker", WHERE, *words, HOLDFAST_DATABASE=sqlite_url).end()
    assert (code, text.count("\n")) == (2, 1), text
    assert said in text


def test_with_json_start_and_stop_are_documents(start: Start, sqlite_url: str) -> None:
    import json

    running = start("worker", WHERE, "--json", HOLDFAST_DATABASE=sqlite_url)
    first = json.loads(running.line())
    running.process.send_signal(signal.SIGTERM)
    last = json.loads(running.end()[1])
    assert [first["event"], last["event"]] == ["worker.started", "worker.stopped"]
    assert first["process"] == last["process"] == running.process.pid


def test_a_worker_says_that_it_does_not_evaluate_alerts(start: Start, sqlite_url: str) -> None:
    running = start("worker", WHERE, HOLDFAST_DATABASE=sqlite_url)
    assert running.line().endswith("; without --alerts FILE it does not evaluate alerts\n")


def test_a_worker_with_a_policy_file_evaluates_the_alerts_and_sends_their_notices(
    start: Start, store: Store, database_url: str, tmp_path: Path
) -> None:
    meter = Meter()
    meter.set(names.WEBHOOK_DEAD, value=60)
    assert Flusher(store, meter).flush()
    policy = tmp_path / "alerts.toml"
    policy.write_text('[sinks.ops]\nkind = "slack"\nurl = "http://127.0.0.1:9/hook"\n')
    words = ("--queue", "default:3", "--processes", "2", "--alerts", str(policy))
    running = start("worker", WHERE, *words, HOLDFAST_DATABASE=database_url)
    # The alert may be in the log before the worker has said what it does.
    line = next(line for line in iter(running.line, "") if "works on" in line)
    assert "works on default:3, alerts:" in line
    assert "does not evaluate" not in line
    jobs = Jobs(store)
    wait_until(
        lambda: any(one["attempt_count"] for one in jobs.list(queue="alerts")), within_s=WITHIN_S, what="a notice"
    )
    assert len(jobs.list(queue="alerts")) == 1, "two processes evaluate, one of them tells"
    firing = [one for one in alerts_of(store, alert_policy(policy)).standings() if one.state.phase is Phase.FIRING]
    assert [one.rule.name for one in firing] == ["webhook_dead_letters_warning"]
    running.process.send_signal(signal.SIGTERM)
    assert running.end()[0] == 0
