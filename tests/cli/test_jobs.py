"""`holdfast jobs` on both engines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.store import Store
from holdfast.worker import Handlers, Job, Jobs, Worker

WITHIN_S = 60.0


@pytest.fixture
def worked(store: Store) -> Any:
    """Runs a worker in this process until the given job has ended."""

    def work(job_id: str) -> None:
        handlers = Handlers()

        @handlers.handle("fails")
        def fails(job: Job) -> None:
            raise ConnectionRefusedError("port [red]closed[/red]\x1b[31m")

        @handlers.handle("works")
        def works(job: Job) -> dict[str, Any]:
            return {"sum": 3, "session_token": "hush"}

        worker = Worker(store, handlers)
        worker.start()
        try:
            Jobs(store).wait(job_id, WITHIN_S)
        except Exception:
            pass
        finally:
            worker.stop()
            worker.join(WITHIN_S)

    return work


def test_enqueue_prints_the_id_alone_so_that_a_script_can_use_it(hand: Any) -> None:
    job_id = hand.answer("jobs", "enqueue", "mail.send", "--payload", '{"to": "ann"}').strip()
    shown = hand.document("jobs", "show", job_id)
    assert (shown["kind"], shown["payload"], shown["state"]) == ("mail.send", {"to": "ann"}, "queued")


def test_every_option_of_enqueue_reaches_the_job(hand: Any) -> None:
    words = "--queue mail --priority -5 --delay 2h --attempts 7 --timeout 1.5m --tenant acme --dedupe-key k --unique 1d"
    first = hand.document("jobs", "enqueue", "mail.send", *words.split())
    shown = hand.document("jobs", "show", first["id"])
    assert first["created"]
    assert (shown["queue"], shown["priority"], shown["attempts_max"]) == ("mail", -5, 7)
    assert (shown["timeout_s"], shown["tenant"], shown["dedupe_key"]) == (90.0, "acme", "k")
    assert shown["due_at"] > shown["created_at"]
    twin = hand.document("jobs", "enqueue", "mail.send", *words.split())
    assert twin == {"id": first["id"], "created": False}


def test_a_payload_is_read_from_a_file_and_from_standard_input(quick: Any, tmp_path: Any) -> None:
    (tmp_path / "payload.json").write_text("[1, 2]")
    by_file = quick.answer("jobs", "enqueue", "k", "--payload", f"@{tmp_path}/payload.json").strip()
    by_input = quick.answer("jobs", "enqueue", "k", "--payload", "-", given='{"a": "é"}').strip()
    assert quick.document("jobs", "show", by_file)["payload"] == [1, 2]
    assert quick.document("jobs", "show", by_input)["payload"] == {"a": "é"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--payload", "{"], 2, "--payload is not JSON"),
        (["--payload", "@/no/such/file"], 2, "--payload: /no/such/file"),
        (["--delay", "soon"], 2, "--delay: 'soon' is not a span of time"),
        (["--delay", "99d"], 2, "BAD_REQUEST: delay_s is a number of seconds"),
        (["--priority", "99999"], 2, "BAD_REQUEST: priority"),
    ],
)
def test_what_cannot_be_enqueued_is_one_line(quick: Any, words: list[str], code: int, said: str) -> None:
    ended = quick("jobs", "enqueue", "k", *words)
    assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (code, "", 1)
    assert said in ended.stderr


def test_the_list_is_filtered_and_goes_on_where_it_ended(hand: Any, store: Store) -> None:
    jobs = Jobs(store)
    ids = [jobs.enqueue("a" if number % 2 else "b", queue="mail").id for number in range(4)]
    jobs.enqueue("a", queue="other")
    page = hand.documents("jobs", "list", "--queue", "mail", "--limit", "3")
    rest = hand.documents("jobs", "list", "--queue", "mail", "--limit", "3", "--before", page[-1]["id"])
    assert [one["id"] for one in page + rest] == ids[::-1]
    assert {one["id"] for one in hand.documents("jobs", "list", "--kind", "a", "--queue", "mail")} == {ids[1], ids[3]}
    assert hand.documents("jobs", "list", "--state", "complete") == []
    assert f"--before {ids[1]}" in hand("jobs", "list", "--queue", "mail", "--limit", "3").stderr


def test_a_list_in_a_pipe_is_plain_and_cuts_no_id(hand: Any, store: Store) -> None:
    job = Jobs(store).enqueue("mail.send")
    head, row = hand.answer("jobs", "list").splitlines()
    assert head.split() == ["ID", "STATE", "QUEUE", "KIND", "ATTEMPTS", "CREATED", "DUE", "CODE"]
    assert row.split()[:5] == [job.id, "queued", "default", "mail.send", "0"]
    assert head.isascii()


def test_an_empty_list_leaves_standard_output_empty(quick: Any) -> None:
    ended = quick("jobs", "list")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "", "No job matches.\n")


def test_show_tells_every_attempt_with_its_code_and_masks_secrets(hand: Any, store: Store, worked: Any) -> None:
    job = Jobs(store).enqueue("fails", {"user": "ann", "password": "hush", "deep": [{"apiKey": "hush"}]}, attempts=1)
    worked(job.id)
    shown = hand.document("jobs", "show", job.id)
    assert shown["payload"] == {"user": "ann", "password": "***", "deep": [{"apiKey": "***"}]}
    assert [event["verb"] for event in shown["timeline"]] == ["enqueued", "claimed", "failed"]
    assert [event["attempt"] for event in shown["timeline"]] == [0, 1, 1]
    assert shown["timeline"][-1]["code"] == shown["error_code"] == "CONNECTION_REFUSED"
    assert shown["timeline"][-1]["duration_s"] >= 0
    text = hand.answer("jobs", "show", job.id)
    assert "hush" not in text
    assert "CONNECTION_REFUSED" in text
    assert "port [red]closed[/red]" in text
    assert "\x1b" not in text


def test_show_tells_when_the_next_attempt_is_due(hand: Any, store: Store) -> None:
    job = Jobs(store).enqueue("later", delay_s=7_200)
    text = hand.answer("jobs", "show", job.id)
    assert "(in 120 min)" in text


def test_show_masks_the_result_too(hand: Any, store: Store, worked: Any) -> None:
    job = Jobs(store).enqueue("works")
    worked(job.id)
    assert hand.document("jobs", "show", job.id)["result"] == {"sum": 3, "session_token": "***"}


def test_a_queued_job_is_cancelled_at_once_and_can_be_revived_or_discarded(hand: Any, store: Store) -> None:
    job = Jobs(store).enqueue("mail.send")
    assert hand.document("jobs", "cancel", job.id) == {"id": job.id, "cancelled": True, "state": "failed"}
    assert hand.answer("jobs", "revive", job.id) == f"Revived {job.id}.\n"
    assert hand.document("jobs", "show", job.id)["manual_retry_count"] == 1
    assert hand.answer("jobs", "cancel", job.id) == f"Cancelled {job.id}.\n"
    ended = hand("jobs", "cancel", job.id)
    assert (ended.exit_code, ended.stderr.count("\n")) == (4, 1)
    assert "JOB_ENDED: The job has ended already: it is failed." in ended.stderr
    assert hand.document("jobs", "discard", job.id, "--reason", "old") == {"id": job.id, "discarded": True}
    assert hand("jobs", "show", job.id).exit_code == 3


@pytest.mark.parametrize("verb", ["show", "cancel", "revive", "discard"])
def test_an_unknown_id_is_one_line_with_the_code_and_what_to_do(hand: Any, verb: str) -> None:
    ended = hand("jobs", verb, "no-such-job")
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert ended.stderr == (
        "holdfast: JOB_NOT_FOUND: There is no such job. "
        "Check the id; finished jobs are kept for the retention time only.\n"
    )


def test_a_page_that_begins_nowhere_is_refused(quick: Any) -> None:
    ended = quick("jobs", "list", "--before", "yesterday")
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert (
        ended.stderr == "holdfast: --before: 'yesterday' is not the id of a job; give the last one of the page before\n"
    )


def test_reviving_what_is_alive_says_in_which_state_it_is(quick: Any, sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    job = Jobs(store).enqueue("mail.send")
    store.close()
    ended = quick("jobs", "revive", job.id)
    assert ended.exit_code == 4
    assert "job is queued" in ended.stderr


def test_every_json_line_stands_alone(quick: Any, sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    Jobs(store).enqueue("a", {"text": "two\nlines"})
    Jobs(store).enqueue("b")
    store.close()
    lines = quick.answer("jobs", "list", "--json").splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["b", "a"]
    assert {
        "id", "tenant", "queue", "kind", "state", "priority", "due_at", "attempt_count", "manual_retry_count",
        "error_code", "error_message", "created_at", "last_attempt_at", "finished_at", "failed_at",
    } <= set(json.loads(lines[0]))  # fmt: skip
