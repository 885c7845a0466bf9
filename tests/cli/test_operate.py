"""The operator's commands: webhooks, keys, schedules and the audit; ids by their beginning; errors as JSON."""

from __future__ import annotations

import getpass
import json
import socket
import subprocess
import sys
from typing import Any

import pytest

from holdfast.cli.exit_codes import ExitCode
from holdfast.delivery import Deliveries
from holdfast.http.keys import ApiKeys
from holdfast.store import Store
from holdfast.worker import Jobs
from holdfast.worker.periodic import Periodic


@pytest.fixture
def deliveries(store: Store, jobs: Jobs) -> Deliveries:
    return Deliveries(store, jobs)


def error(ended: Any) -> dict[str, str]:
    """The error that a command with `--json` reported."""
    assert ended.stdout == ""
    found: dict[str, str] = json.loads(ended.stderr)["error"]
    assert set(found) == {"code", "message", "remedy"}
    return found


def test_the_audit_knows_what_was_done_on_the_command_line(hand: Any, jobs: Jobs, die: Any) -> None:
    jobs.enqueue("k", queue="mail")
    [one] = die("mail")
    hand.answer("jobs", "revive", one, "--reason", "the provider is back")
    hand.answer("queues", "pause", "mail", "--reason", "drill")
    hand("jobs", "discard", one)
    rows = hand.documents("audit")
    assert [(row["verb"], row["subject"], row["state"]) for row in rows] == [
        ("discard", f"job:{one}", "refused"), ("pause", "queue:mail", "done"), ("revive", f"job:{one}", "done"),
    ]  # fmt: skip
    assert {(row["actor_kind"], row["address"]) for row in rows} == {("command", socket.gethostname())}
    assert getpass.getuser() in rows[0]["actor"]
    assert rows[2]["reason"] == "the provider is back"
    for words, verbs in (
        (("--verb", "pause"), ["pause"]),
        (("--subject", "job:"), ["discard", "revive"]),
        (("--who", "nobody-of-this-name"), []),
        (("--through", "console"), []),
        (("--since", "1h", "--limit", "1"), ["discard"]),
        (("--until", "1h"), []),
        (("--before", rows[0]["id"]), ["pause", "revive"]),
    ):
        assert [row["verb"] for row in hand.documents("audit", *words)] == verbs, words
    assert "queue:mail" in hand.answer("audit")


def test_an_endpoint_is_listed_shown_disabled_enabled_and_removed(hand: Any, deliveries: Deliveries) -> None:
    one = deliveries.endpoints.add("https://example.com/?token=hush-hush-hush", event_types=["order.*"], tenant="acme")
    [row] = hand.documents("endpoints", "list")
    assert (row["id"], row["tenant"], row["enabled"], row["secrets_in_force"]) == (one.id, "acme", True, 1)
    assert hand.documents("endpoints", "list", "--tenant", "zeta") == []
    for text in (hand.answer("endpoints", "list"), hand.answer("endpoints", "show", one.id), json.dumps(row)):
        assert "hush" not in text
        assert one.secrets[0].secret.reveal() not in text
    assert hand.answer("endpoints", "disable", one.id, "--reason", "it moved") == f"Disabled {one.id}.\n"
    assert hand.document("endpoints", "disable", one.id, "--reason", "it moved") == {"id": one.id, "disabled": False}
    assert hand.document("endpoints", "show", one.id)["disabled_reason"] == "it moved"
    assert hand.answer("endpoints", "enable", one.id) == f"Enabled {one.id}.\n"
    assert hand("endpoints", "remove", one.id).exit_code == ExitCode.MISUSED, "nobody is here to be asked"
    assert hand.answer("endpoints", "remove", one.id, "--yes") == f"Removed {one.id}.\n"
    assert error(hand("endpoints", "show", one.id, "--json"))["code"] == "ENDPOINT_NOT_FOUND"


def test_deliveries_are_listed_shown_and_replayed(hand: Any, deliveries: Deliveries, die: Any) -> None:
    one = deliveries.endpoints.add("http://127.0.0.1:9/hook")
    deliveries.publish("order.paid", {"order": 7, "password": "hush"}, id="evt_1")
    die("webhooks")
    [row] = hand.documents("deliveries", "list", "--state", "failed", "--endpoint", one.id, "--type", "order.paid")
    assert (row["event_id"], row["endpoint_id"], row["error_code"]) == ("evt_1", one.id, "NOT_FOUND")
    assert hand.documents("deliveries", "list", "--state", "complete") == []
    assert "evt_1" in hand.answer("deliveries", "list")
    shown = hand.document("deliveries", "show", "evt_1")
    assert shown["payload"] == {"order": 7, "password": "***"}
    assert shown["deliveries"][0]["timeline"][-1]["verb"] == "failed"
    assert one.id in hand.answer("deliveries", "show", "evt_1")
    deliveries.endpoints.disable(one.id, reason="it moved")
    refused = hand("deliveries", "replay", "evt_1", "--json")
    assert (refused.exit_code, error(refused)["code"]) == (ExitCode.REFUSED, "ENDPOINT_DISABLED")
    assert one.id in error(refused)["message"]
    deliveries.endpoints.enable(one.id)
    assert hand.document("deliveries", "replay", "evt_1") == {"id": "evt_1", "replayed": 1}
    assert hand("deliveries", "replay", "evt_1").exit_code == ExitCode.NOT_FOUND
    assert hand("deliveries", "show", "evt_1", "--tenant", "zeta").exit_code == ExitCode.NOT_FOUND


def test_a_key_is_printed_once_listed_without_it_and_revoked(hand: Any, store: Store) -> None:
    made = hand.document("keys", "create", "billing", "--tenant", "acme", "--expires", "90d")
    assert ApiKeys(store).check(made["key"]).tenant == "acme"
    [row] = hand.documents("keys", "list")
    assert (row["id"], row["prefix"], row["name"], row["state"]) == (made["id"], made["prefix"], "billing", "in force")
    assert made["key"] not in hand.answer("keys", "list") + json.dumps(row) + hand.answer("audit")
    assert hand.answer("keys", "revoke", made["id"], "--reason", "it leaked") == f"Revoked {made['id']}.\n"
    assert hand.answer("keys", "revoke", made["id"]) == f"{made['id']} was revoked already.\n"
    assert "revoked" in hand.answer("keys", "list")
    assert hand("keys", "revoke", "none").exit_code == ExitCode.NOT_FOUND
    assert hand("keys", "create", "x", "--expires", "soon").exit_code == ExitCode.MISUSED
    assert hand("keys", "create", "").exit_code == ExitCode.MISUSED
    assert [row["verb"] for row in hand.documents("audit", "--subject", "api_key:")][-2:] == ["revoke", "create"]


def test_schedules_are_listed_with_their_next_firing(hand: Any, store: Store, jobs: Jobs) -> None:
    assert hand("schedules", "list").stderr == "No periodic job is declared.\n"
    periodic = Periodic(store, jobs)
    periodic.declare("nightly", "0 3 * * *", kind="report.build", queue="reports")
    periodic.save()
    [row] = hand.documents("schedules", "list")
    assert (row["name"], row["schedule"], row["queue"], row["kind"]) == (
        "nightly", "0 3 * * *", "reports", "report.build",
    )  # fmt: skip
    assert row["due_at"].endswith("T03:00:00Z")
    assert "nightly" in hand.answer("schedules", "list")


def test_pruning_by_hand_is_written_down(hand: Any) -> None:
    assert hand.document("prune", "--keep", "finished=0")["finished"] == 0
    [row] = hand.documents("audit")
    assert (row["verb"], row["state"]) == ("prune", "done")


def test_the_beginning_of_an_id_is_enough(hand: Any, jobs: Jobs, die: Any) -> None:
    one = jobs.enqueue("k", queue="mail").id
    assert hand.document("jobs", "show", one[:13])["id"] == one
    other = jobs.enqueue("k", queue="mail").id
    ended = hand("jobs", "show", one[:4], "--json")
    assert (ended.exit_code, error(ended)["code"]) == (ExitCode.REFUSED, "ID_AMBIGUOUS")
    assert one in error(ended)["message"]
    assert other in error(ended)["message"]
    assert hand.answer("jobs", "cancel", one[:-2]) == f"Cancelled {one}.\n"
    die("mail")
    assert hand.answer("jobs", "revive", other[:-2]) == f"Revived {other}.\n"
    assert hand.answer("dead", "discard", one[:-2]) == f"Discarded {one}.\n"


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("jobs", "show", "0198c0de-0000-7000-8000-000000000000"), "JOB_NOT_FOUND", ExitCode.NOT_FOUND),
        (("queues", "resume", "mial"), "QUEUE_NOT_FOUND", ExitCode.NOT_FOUND),
        (("dead", "list", "--since", "soon"), "MISUSED", ExitCode.MISUSED),
        (("dead", "list", "--before", "nowhere"), "BAD_REQUEST", ExitCode.MISUSED),
        (("jobs", "list", "--database", "sqlite:///no/such.db"), "DATABASE_NOT_FOUND", ExitCode.NO_DATABASE),
    ],
)
def test_with_json_an_error_is_json_beside_the_answer(
    quick: Any, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    ended = quick(*words, "--json")
    assert (ended.exit_code, error(ended)["code"]) == (exit_code, code)
    assert error(ended)["remedy"]
    plain = quick(*words)
    assert (plain.exit_code, plain.stderr.startswith("holdfast: ")) == (exit_code, True)


@pytest.mark.parametrize(
    "words", [("jobs", "show"), ("jobs", "list", "--no-such-option"), ("jobs", "list", "--limit", "x")]
)
def test_what_the_command_line_itself_gets_wrong_is_json_too(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "holdfast.cli", *words, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, error(ended)["code"]) == (ExitCode.MISUSED, "MISUSED")
