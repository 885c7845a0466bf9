"""Before something is done its page says in words what will happen: to how many, of what, where, and how old."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.catalog.core import FORBIDDEN, NOT_FOUND
from holdfast.delivery import Deliveries
from holdfast.operate import dead_groups
from holdfast.store import Store
from holdfast.worker import DeadFilter, Jobs, Queues

from .asking import Asker
from .browser import CHROMIUM, browser
from .making import hold, kill
from .standing import standing
from .test_actions import dead_deliveries, open_breaker
from .test_many import serve

PATIENCE_MS = 60_000


def words(page: str) -> str:
    """What a person reads in the main part of the page."""
    text = re.sub(r"<[^>]+>", " ", page.partition("<main")[2])
    return re.sub(r" ([,.:)?])", r"\1", re.sub(r"\s+", " ", text).replace("( ", "("))


def aged(store: Store, job_id: str, hours: int) -> None:
    """Let a job have failed so long ago."""
    store.atomic(
        lambda tx: tx._execute(
            f"UPDATE holdfast_job SET failed_us = failed_us - {hours * 3_600_000_000} WHERE id = '{job_id}'", {}
        )
    )


def died(store: Store, jobs: Jobs) -> None:
    first, *_ = kill(store, jobs, 3, message="The mailbox is gone.")
    kill(store, jobs, 2, fault=FORBIDDEN, queue="post", message="The provider is away.")
    aged(store, first, 5)
    serve(store, "mail,post")


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("revive", "5 dead letters go back to the queues mail (3) and post (2), and all their attempts start anew."),
        ("discard", "5 dead letters of the queues mail (3) and post (2) are deleted. This cannot be undone."),
    ],
)
def test_a_confirmation_says_how_many_of_what_where_and_how_old(
    store: Store, jobs: Jobs, inside: Asker, verb: str, said: str
) -> None:
    died(store, jobs)
    text = words(inside.get(f"/dead/{verb}").text)
    assert said in text
    assert re.search(r"The oldest failed 5 h ago \([^)]+\), the newest (now|\d+ m?s ago) \(\d\d:\d\d:\d\d\)", text)
    assert "3 NOT_FOUND The mailbox is gone. mail.send" in text
    assert "2 FORBIDDEN The provider is away. mail.send" in text
    assert "Filter none: all dead letters" in text
    assert "will be left" not in text


def test_one_dead_letter_is_spoken_of_as_one(store: Store, jobs: Jobs, inside: Asker) -> None:
    kill(store, jobs, message="The mailbox is gone.")
    serve(store, "mail")
    revive, discard = (words(inside.get(f"/dead/{verb}?queue=mail").text) for verb in ("revive", "discard"))
    assert "Revive 1 dead letter?" in revive
    assert "1 dead letter goes back to the queue mail, and all its attempts start anew. It failed " in revive
    assert "1 dead letter of the queue mail is deleted. This cannot be undone. Its history stays" in discard
    assert "Filter queue mail" in revive


def test_a_group_is_named_by_what_it_died_of_and_not_by_its_fingerprint_alone(
    store: Store, jobs: Jobs, inside: Asker
) -> None:
    died(store, jobs)
    group = store.atomic(lambda tx: dead_groups.summary_of(tx, DeadFilter()), write=False).groups[0]
    text = words(inside.get(f"/dead/revive?fingerprint={group.fingerprint}").text)
    assert "3 dead letters go back to the queue mail" in text
    assert "3 NOT_FOUND The mailbox is gone." in text
    assert "FORBIDDEN" not in text


def test_what_was_not_counted_to_the_end_says_so(
    store: Store, jobs: Jobs, inside: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_groups, "COUNT_MAX", 3)
    monkeypatch.setattr(dead_groups, "SUMMARY_GROUPS_MAX", 1)
    died(store, jobs)
    text = words(inside.get("/dead/revive").text)
    assert "Revive 3+ dead letters?" in text
    assert "The oldest of those counted failed" in text
    assert "And 1 smaller group." in text


def test_what_keeps_them_from_running_is_said_before(store: Store, jobs: Jobs, inside: Asker) -> None:
    died(store, jobs)
    Queues(store).pause("mail", "the provider sleeps")
    open_breaker(store, "post")
    text = words(inside.get("/dead/revive").text)
    assert "The queue mail is paused: the provider sleeps. They wait there until it is resumed." in text
    assert "A breaker holds the queue post:" in text
    assert "is paused" not in words(inside.get("/dead/discard").text)
    kill(store, jobs, queue="nobody")
    assert "No worker serves the queue nobody." in words(inside.get("/dead/revive?queue=nobody").text)


def test_secrets_do_not_stand_in_a_confirmation(store: Store, jobs: Jobs, inside: Asker) -> None:
    kill(store, jobs, message="no answer from https://ada:hunter22@gateway/x")
    assert "hunter22" not in inside.get("/dead/discard").text


def test_the_way_back_keeps_the_filter(store: Store, jobs: Jobs, inside: Asker) -> None:
    kill(store, jobs)
    assert 'href="/console/dead?queue=mail"' in inside.get("/dead/revive?queue=mail&fingerprint=none").text


def test_what_is_done_to_one_job_is_said_beside_the_button(store: Store, jobs: Jobs, inside: Asker) -> None:
    [dead] = kill(store, jobs)
    [running] = hold(store, jobs, queue="long")
    queued = jobs.enqueue("later", queue="slow", delay_s=60).id
    failed = words(inside.get(f"/jobs/{dead}").text)
    assert "It goes back to the queue mail, and all its attempts start anew." in failed
    assert "It is deleted from the queue mail. This cannot be undone." in failed
    assert "It leaves the queue slow and fails with JOB_CANCELLED" in words(inside.get(f"/jobs/{queued}").text)
    assert "its handler is asked to stop" in words(inside.get(f"/jobs/{running}").text)


def test_what_is_done_to_a_queue_is_said_beside_the_button(store: Store, jobs: Jobs, inside: Asker) -> None:
    jobs.enqueue("a", queue="mail")
    jobs.enqueue("a", queue="mail")
    jobs.enqueue("a", queue="mail", delay_s=600)
    text = words(inside.get("/").text)
    assert (
        "No job starts until it is resumed: 2 ready jobs and 1 waiting one stay queued. What runs goes on: 0 jobs."
        in text
    )
    Queues(store).pause("mail", "moving")
    assert "Workers take its 2 ready jobs again at once, and the 1 waiting one when due." in words(inside.get("/").text)


def labelled(page: str) -> dict[str, str]:
    pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page, re.DOTALL)
    return {name: re.sub(r"<[^>]+>", "", value) for name, value in pairs}


def test_of_a_delivery_the_answer_stands_in_the_log_and_the_person_reads_the_codes_words(
    store: Store, jobs: Jobs, inside: Asker
) -> None:
    deliveries = Deliveries(store, jobs)
    deliveries.endpoints.add("http://127.0.0.1:9/hook")
    [delivery] = dead_deliveries(store, deliveries, 1)
    store.atomic(
        lambda tx: tx._execute(
            "UPDATE holdfast_job SET error_message = 'The endpoint answered 404: no such hook', "
            f"error_technical = 'nothing there [upstream: 404]' WHERE id = '{delivery}'",
            {},
        )
    )
    shown = labelled(inside.get(f"/jobs/{delivery}").text)
    assert shown["What the person reads"] == NOT_FOUND.says
    assert shown["In the log"] == "The endpoint answered 404: no such hook"


def test_of_a_job_the_person_reads_its_message(store: Store, jobs: Jobs, inside: Asker) -> None:
    [dead] = kill(store, jobs, message="The mailbox is gone.")
    shown = labelled(inside.get(f"/jobs/{dead}").text)
    assert shown["What the person reads"] == "The mailbox is gone."
    assert shown["In the log"] != "The mailbox is gone."


@pytest.fixture
def quiet_store(tmp_path: Any) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'confirming.db'}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.mark.skipif(not CHROMIUM, reason="NO BROWSER: install Chromium to run the console's browser tests")
def test_a_person_reads_what_will_happen_before_it_does(quiet_store: Store) -> None:
    jobs = Jobs(quiet_store)
    died(quiet_store, jobs)
    with standing(quiet_store) as here, browser() as chromium:
        page = chromium.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(here.console.link)
        page.get_by_role("link", name="Dead letters").first.click()
        page.locator("p.actions").get_by_role("link", name="Discard …").click()
        page.get_by_role("heading", name="Discard 5 dead letters?").wait_for()
        said = page.locator(".panel").inner_text()
        assert "5 dead letters of the queues mail (3) and post (2) are deleted. This cannot be undone." in said
        assert "The mailbox is gone." in said
        page.get_by_role("button", name="Discard 5 dead letters").click()
        page.get_by_role("heading", name="5 dead letters discarded of 5").wait_for()
    jobs.close()
