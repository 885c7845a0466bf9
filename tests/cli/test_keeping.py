"""`--keep`: the setting is read, refused where it cannot be meant, and reaches what is pruned."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
import typer

from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.keeping import retention_of
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs
from holdfast.worker.retention import DAY_S, Retention

WITHIN_S = 60.0


def test_what_is_named_is_kept_so_long_and_the_rest_as_usual() -> None:
    assert retention_of([]) == Retention()
    words = ["finished=1d", "failed=90d", "journal=forever", "webhook-events=12h", "audit=forever"]
    assert retention_of(words) == Retention(
        finished_s=DAY_S,
        failed_s=90 * DAY_S,
        journal_s=None,
        others_s={"webhook events": DAY_S / 2, "audit": None},
    )


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("finished", "write WHAT=SPAN"),
        ("finished=soon", "'soon' is not a span of time"),
        ("letters=1d", "what can be kept is finished, failed, journal, audit, job-sequences, webhook-events"),
        ("=1d", "write WHAT=SPAN"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(
    word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as refused:
        retention_of([word])
    assert refused.value.exit_code == ExitCode.MISUSED
    told = " ".join(capsys.readouterr().err.split())
    assert f"--keep {word}: " in told
    assert said in told


def test_prune_keeps_what_the_environment_says(hand: Any, jobs: Jobs, die: Any, monkeypatch: Any) -> None:
    jobs.enqueue("k", queue="mail")
    die("mail")
    assert hand.document("prune")["failed"] == 0
    monkeypatch.setenv("HOLDFAST_KEEP", "finished=1d failed=0")
    assert hand.document("prune")["failed"] == 1


def test_a_worker_prunes_by_its_setting_and_its_children_too(
    start: Callable[..., Any], hand: Any, jobs: Jobs, die: Any, store: Store, database_url: str
) -> None:
    for name in ("one", "two"):
        jobs.enqueue("k", queue=name)
        die(name)
    assert hand.document("prune", "--keep", "failed=1d")["failed"] == 0
    words = ("--queue", "none", "--processes", "2", "--keep", "failed=0", "--no-migrate")
    running = start("worker", "shop.jobs:handlers", *words, HOLDFAST_DATABASE=database_url)
    # A worker prunes first a few seconds after its start.
    wait_until(lambda: not jobs.list(state="failed"), within_s=WITHIN_S, what="the dead letters are pruned")
    running.process.send_signal(signal.SIGTERM)
    assert running.end()[0] == 0
