"""A failing handler is told where it failed: in the log without being asked, in the journal, and in its group."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.base import bus
from holdfast.base.tracebacks import stored_traceback
from holdfast.catalog import Catalog, Failure, Remote
from holdfast.catalog.core import BAD_GATEWAY
from holdfast.policy import Backoff, Retry
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import DeadFilter, DeadLetters, Handlers, Job, Jobs, Worker

PATIENCE_S = 30.0
TWICE = Retry(attempts=2, attempts_unknown=2, backoff=Backoff.listed(0))
ONCE = Retry(attempts=1, attempts_unknown=1)
HIDDEN = "Zq7xK2mN9pR4tV6w"

errors = Catalog("tracebacks")
DECLINED = errors.fault("DECLINED", status=402, says="The card was declined.")


def total_of(order: dict[str, Any]) -> int:
    return int(order["total"])


def address_of(order: dict[str, Any]) -> str:
    return str(order["address"])


def run(work: Callable[..., Worker], jobs: Jobs, *kinds: str, state: str = "failed") -> list[dict[str, Any]]:
    """Enqueue one of each, and wait until all have ended."""
    made = [jobs.enqueue(kind).id for kind in kinds]
    work()
    for job_id in made:
        wait_until(lambda job_id=job_id: jobs.show(job_id)["state"] == state, within_s=PATIENCE_S, what=state)  # type: ignore[misc]
    return [jobs.show(job_id) for job_id in made]


def lines_of(caplog: pytest.LogCaptureFixture, job_id: str) -> list[logging.LogRecord]:
    return [one for one in caplog.records if one.name == "holdfast.worker" and getattr(one, "job_id", "") == job_id]


def test_a_worker_logs_failures_without_being_asked(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    @handlers.handle("order.charge", retry=TWICE)
    def charge(job: Job) -> int:
        return total_of({"name": f"password={HIDDEN}"})

    (job,) = run(work, jobs, "order.charge")
    wait_until(lambda: len(lines_of(caplog, job["id"])) == 2, within_s=PATIENCE_S, what="two lines")
    retried, dead = lines_of(caplog, job["id"])
    assert (retried.levelno, dead.levelno) == (logging.WARNING, logging.ERROR)
    assert retried.getMessage().count("\n") == 0
    assert "failed on attempt 1" in retried.getMessage()
    assert (dead.queue, dead.kind, dead.attempt, dead.code) == ("default", "order.charge", 2, "UNKNOWN")  # type: ignore[attr-defined]
    text = dead.getMessage()
    assert "Traceback (most recent call last):" in text
    assert "in total_of" in text
    assert 'return int(order["total"])' in text
    assert text.endswith("KeyError: 'total'")


def test_what_an_exception_says_neither_leaks_nor_forges_lines(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    @handlers.handle("leaky", retry=ONCE)
    def leaky(job: Job) -> None:
        raise OSError(f"postgresql://ada:{HIDDEN}@db\n2026-03-01 CRITICAL forged\x1b[2J")

    (job,) = run(work, jobs, "leaky")
    wait_until(lambda: bool(lines_of(caplog, job["id"])), within_s=PATIENCE_S, what="a line")
    (line,) = lines_of(caplog, job["id"])
    stored = next(event["traceback"] for event in DeadLetters(jobs.store).history(job["id"]) if event["traceback"])
    for text in (line.getMessage(), stored, job["error_technical"]):
        assert HIDDEN not in text
        assert "\x1b" not in text
    assert not any(line.startswith("2026") for line in line.getMessage().splitlines())


def test_a_job_that_succeeds_is_told_only_to_those_who_ask(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    handlers.handle("fine")(lambda job: None)
    (quiet,) = run(work, jobs, "fine", state="complete")
    with caplog.at_level(logging.DEBUG, logger="holdfast.worker"):
        made = jobs.enqueue("fine")
        wait_until(lambda: bool(lines_of(caplog, made.id)), within_s=PATIENCE_S, what="a line")
    assert lines_of(caplog, quiet["id"]) == []
    assert [line.levelno for line in lines_of(caplog, made.id)] == [logging.DEBUG]


def test_nothing_is_logged_twice_where_lines_are_written_already(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    handlers.handle("broken", retry=ONCE)(lambda job: total_of({}))
    told: list[tuple[str, Any]] = []
    end = bus.listen(lambda verb, facts: told.append((verb, facts)), writes_log=True)
    try:
        (job,) = run(work, jobs, "broken")
        wait_until(lambda: "job.failed" in dict(told), within_s=PATIENCE_S, what="it is told")
    finally:
        end()
    assert lines_of(caplog, job["id"]) == []
    facts = next(facts for verb, facts in told if verb == "job.failed" and facts["id"] == job["id"])
    assert stored_traceback(facts["traceback"])[0].type == "KeyError"


def test_every_attempt_has_its_traceback_in_the_journal(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers
) -> None:
    handlers.handle("broken", retry=TWICE)(lambda job: total_of({}))
    (job,) = run(work, jobs, "broken")
    events = [event for event in DeadLetters(jobs.store).history(job["id"]) if event["verb"] in {"retried", "failed"}]
    assert [event["verb"] for event in events] == ["retried", "failed"]
    for event in events:
        (raised,) = stored_traceback(event["traceback"])
        assert (raised.type, raised.message) == ("KeyError", "'total'")
        assert raised.frames[-1].function == "total_of"
        assert raised.frames[-1].own
    assert job["error_place"] == f"{__name__}:total_of"


async def slow(job: Job) -> None:
    import asyncio

    await asyncio.sleep(PATIENCE_S)


def test_a_coroutine_that_ran_out_of_time_is_told_where_it_waited(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers
) -> None:
    handlers.handle("slow", retry=ONCE, timeout_s=0.05)(slow)
    (job,) = run(work, jobs, "slow")
    assert (job["error_code"], job["error_place"]) == ("JOB_TIMEOUT", f"{__name__}:slow")


def test_a_blocking_handler_that_ran_out_of_time_is_told_where_it_hangs(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers
) -> None:
    release = threading.Event()

    @handlers.handle("hangs", retry=ONCE, timeout_s=0.05)
    def hangs(job: Job) -> None:
        hang(release)

    (job,) = run(work, jobs, "hangs")
    release.set()
    (chain,) = [event["traceback"] for event in DeadLetters(jobs.store).history(job["id"]) if event["traceback"]]
    (raised,) = stored_traceback(chain)
    assert raised.type == "JOB_TIMEOUT"
    assert [frame.source for frame in raised.frames if frame.own] == [
        "hang(release)",
        "assert release.wait(PATIENCE_S)",
    ]
    assert job["error_place"] == f"{__name__}:hang"


def hang(release: threading.Event) -> None:
    assert release.wait(PATIENCE_S)


def test_a_declared_failure_of_holdfast_itself_needs_no_traceback(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers
) -> None:
    (job,) = run(work, jobs, "unheard.of")  # the worker itself raises KIND_UNKNOWN
    assert all(event["traceback"] is None for event in DeadLetters(jobs.store).history(job["id"]))


def test_two_different_key_errors_are_two_groups_and_reviving_one_leaves_the_other(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers
) -> None:
    @handlers.handle("order.charge", retry=ONCE)
    def charge(job: Job) -> object:
        order: dict[str, Any] = {}
        return total_of(order) if job.payload == "total" else address_of(order)

    made = [jobs.enqueue("order.charge", payload).id for payload in ("total", "address", "total")]
    worker = work()
    for job_id in made:
        wait_until(lambda job_id=job_id: jobs.show(job_id)["state"] == "failed", within_s=PATIENCE_S, what="dead")  # type: ignore[misc]
    worker.stop()
    assert worker.join(2 * PATIENCE_S)
    dead = DeadLetters(jobs.store)
    groups = {group["place"]: group for group in dead.groups()}
    assert {place: group["count"] for place, group in groups.items()} == {
        f"{__name__}:total_of": 2,
        f"{__name__}:address_of": 1,
    }
    revived = dead.revive_all(DeadFilter(fingerprint=groups[f"{__name__}:total_of"]["fingerprint"]))
    assert revived.done == 2
    assert [jobs.show(job_id)["state"] for job_id in made] == ["queued", "failed", "queued"]
    assert jobs.show(made[0])["error_place"] is None


def test_the_upstreams_code_and_message_are_fields_of_their_own_and_make_groups(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers
) -> None:
    @handlers.handle("card.charge", retry=ONCE)
    def charge(job: Job) -> None:
        raise Failure(DECLINED, remote=Remote(402, job.payload, f"declined; token={HIDDEN}"))

    made = [jobs.enqueue("card.charge", code).id for code in ("do_not_honor", "lost_card", "lost_card")]
    work()
    for job_id in made:
        wait_until(lambda job_id=job_id: jobs.show(job_id)["state"] == "failed", within_s=PATIENCE_S, what="dead")  # type: ignore[misc]
    shown = jobs.show(made[0])
    assert (shown["remote_status"], shown["remote_code"]) == (402, "do_not_honor")
    assert shown["remote_message"] == "declined; token=***"
    dead = DeadLetters(jobs.store)
    assert sorted((group["remote_code"], group["count"]) for group in dead.groups()) == [
        ("do_not_honor", 1),
        ("lost_card", 2),
    ]
    assert {letter["id"] for letter in dead.list(DeadFilter(remote_code="lost_card")).letters} == set(made[1:])
    assert dead.list(DeadFilter(text="DECLINED;")).letters
    last = list(dead.history(made[0]))[-1]
    assert (last["upstream_status"], last["remote_code"]) == (402, "do_not_honor")
    with pytest.raises(Failure) as caught:
        jobs.wait(made[0], timeout_s=PATIENCE_S, catalog=errors)
    assert caught.value.remote == Remote(402, "do_not_honor", "declined; token=***")
    assert caught.value.technical.count("[upstream:") == 1


def test_a_failure_without_an_upstream_has_none(
    store: Store, work: Callable[..., Worker], jobs: Jobs, handlers: Handlers
) -> None:
    handlers.handle("plain", retry=ONCE)(_bad_gateway)
    (job,) = run(work, jobs, "plain")
    assert (job["remote_status"], job["remote_code"], job["remote_message"]) == (None, None, None)


def _bad_gateway(job: Job) -> None:
    raise BAD_GATEWAY()


class Strange(Exception):
    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise RuntimeError("no")


def test_an_exception_of_which_no_traceback_can_be_read_is_settled_all_the_same(
    work: Callable[..., Worker], jobs: Jobs, handlers: Handlers
) -> None:
    @handlers.handle("strange", retry=ONCE)
    def strange(job: Job) -> None:
        raise Strange("x")

    (job,) = run(work, jobs, "strange")
    assert (job["state"], job["error_place"]) == ("failed", None)


def test_a_worker_in_trouble_says_so_once_in_a_while(
    work: Callable[..., Worker], handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    worker = work()
    for _ in range(5):
        worker._trouble.tell(BAD_GATEWAY())
    lines = [one for one in caplog.records if one.name == "holdfast.worker" and worker.id in one.getMessage()]
    assert [(line.levelno, line.code) for line in lines] == [(logging.ERROR, "BAD_GATEWAY")]  # type: ignore[attr-defined]
