"""`holdfast dead` on both engines, and at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.store import Store
from holdfast.worker import Jobs

END_S_MAX = 90


@pytest.fixture
def died(store: Store) -> Callable[..., list[str]]:
    """Makes dead letters: cancelled jobs are dead too."""
    jobs = Jobs(store)

    def dying(count: int, kind: str = "mail.send", **given: Any) -> list[str]:
        ids = [jobs.enqueue(kind, **given).id for _ in range(count)]
        for job_id in ids:
            jobs.cancel(job_id)
        return ids

    return dying


def at_terminal(url: str, *words: str, typed: str) -> tuple[int, str]:
    """The command at a terminal of its own: what was typed, and what the screen got."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "HOLDFAST_DATABASE": url, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    screen = b""
    while True:
        try:
            piece = os.read(ours, 4_096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        screen += piece
    os.close(ours)
    return process.wait(END_S_MAX), screen.decode()


def test_dead_letters_are_listed_grouped_and_shown(hand: Any, died: Callable[..., list[str]]) -> None:
    ids = died(2) + died(1, kind="report.build", queue="slow", tenant="acme")
    listed = hand.documents("dead", "list")
    assert [one["id"] for one in listed] == ids[::-1]
    assert {one["error_code"] for one in listed} == {"JOB_CANCELLED"}
    assert [one["id"] for one in hand.documents("dead", "list", "--tenant", "acme")] == ids[2:]
    rest = hand.documents("dead", "list", "--before", listed[0]["place"])
    assert [one["id"] for one in rest] == ids[1::-1]
    groups = hand.documents("dead", "groups", "--kind", "mail.send")
    assert [(one["count"], one["code"]) for one in groups] == [(2, "JOB_CANCELLED")]
    assert groups[0]["first_seen_at"] <= groups[0]["last_seen_at"]
    assert [event["verb"] for event in hand.document("dead", "show", ids[0])["timeline"]] == ["enqueued", "cancelled"]
    assert hand.answer("dead", "list", "--queue", "slow").splitlines()[1].startswith(ids[2])
    assert hand.answer("dead", "groups").splitlines()[0].startswith("FINGERPRINT")


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--since", "1h"], 1),
        (["--until", "1h"], 0),
        (["--since", "2999-01-01"], 0),
        (["--until", "2999-01-01T00:00Z"], 1),
        (["--text", "CANCELLED"], 1),
        (["--text", "timeout"], 0),
        (["--code", "JOB_CANCELLED"], 1),
    ],
)
def test_the_filter_chooses(hand: Any, died: Callable[..., list[str]], words: list[str], count: int) -> None:
    died(1)
    assert len(hand.documents("dead", "list", *words)) == count


def test_what_is_alive_is_no_dead_letter(hand: Any, store: Store) -> None:
    ended = hand("dead", "show", Jobs(store).enqueue("mail.send").id)
    assert ended.exit_code == 3
    assert "JOB_NOT_FOUND: There is no dead letter with this id: the job is queued." in ended.stderr


def test_letters_are_revived_and_discarded_by_id(hand: Any, died: Callable[..., list[str]]) -> None:
    first, second, third = died(3)
    assert hand.answer("dead", "revive", first, second) == f"Revived {first}.\nRevived {second}.\n"
    assert hand.document("dead", "discard", third) == {"id": third, "discarded": True}
    assert hand.documents("dead", "list") == []


def test_without_anybody_to_ask_all_that_match_are_counted_and_left_alone(
    hand: Any, died: Callable[..., list[str]]
) -> None:
    died(3)
    ended = hand("dead", "revive", "--all-matching")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert ended.stderr == "holdfast: this would revive 3 dead letters; give --yes, since nobody is here to be asked\n"
    assert len(hand.documents("dead", "list")) == 3


@pytest.mark.parametrize(("verb", "past"), [("revive", "revived"), ("discard", "discarded")])
def test_with_yes_all_that_match_are_done(hand: Any, died: Callable[..., list[str]], verb: str, past: str) -> None:
    died(3)
    kept = died(1, kind="other")
    done = hand.document("dead", verb, "--all-matching", "--kind", "mail.send", "--yes")
    assert done.pop("audit_id")
    assert done == {"matching": 3, past: 3, "refused": 0, "blocked": 0}
    assert [one["id"] for one in hand.documents("dead", "list")] == kept
    assert hand.answer("dead", verb, "--all-matching", "--kind", "mail.send") == "No dead letter matches.\n"


def test_those_whose_twin_does_the_work_are_left_and_counted(
    hand: Any, died: Callable[..., list[str]], store: Store
) -> None:
    died(1, dedupe_key="k")
    Jobs(store).enqueue("mail.send", dedupe_key="k")
    said = hand.answer("dead", "revive", "--all-matching", "--yes").splitlines()
    assert said == [
        "Revived 0 dead letters of 1 that matched.",
        "Left 1 as they were: newer jobs with their dedupe keys do the work.",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give the ids of dead letters, or --all-matching"),
        (["--kind", "a"], "give the ids of dead letters, or --all-matching"),
        (["some-id", "--all-matching"], "not both"),
        (["some-id", "--kind", "a"], "not both"),
        (["--all-matching", "--since", "soon"], "--since: 'soon' is not a moment"),
    ],
)
def test_it_must_be_clear_what_is_meant(quick: Any, words: list[str], said: str) -> None:
    ended = quick("dead", "discard", *words)
    assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
    assert said in ended.stderr


def test_at_a_terminal_it_asks_and_shows_how_far_it_is(
    database_url: str, died: Callable[..., list[str]], hand: Any
) -> None:
    died(3)
    code, screen = at_terminal(database_url, "dead", "revive", "--all-matching", typed="y\n")
    assert code == 0
    assert "Revive 3 dead letters? [y/N]" in screen
    assert "3/3" in screen
    assert "Revived 3 dead letters of 3 that matched." in screen
    assert hand.documents("dead", "list") == []


def test_at_a_terminal_no_means_no(sqlite_url: str, quick: Any) -> None:
    job_id = quick.answer("jobs", "enqueue", "mail.send").strip()
    quick.answer("jobs", "cancel", job_id)
    code, screen = at_terminal(sqlite_url, "dead", "discard", "--all-matching", typed="n\n")
    assert (code, "Nothing was done." in screen) == (4, True)
    assert len(quick.documents("dead", "list")) == 1


def test_at_a_terminal_a_list_fits_it(sqlite_url: str, quick: Any) -> None:
    job_id = quick.answer("jobs", "enqueue", "mail.send").strip()
    code, screen = at_terminal(sqlite_url, "jobs", "list", typed="")
    assert code == 0
    assert job_id in screen
    assert "now" in screen or "ago" in screen
