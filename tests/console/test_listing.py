"""Lists: filters find what they say, pages neither lose nor repeat a job, and no walk is longer than it may be."""

from __future__ import annotations

import pytest

from holdfast.base import id_time_us
from holdfast.catalog.core import FORBIDDEN, NOT_FOUND
from holdfast.console import listing
from holdfast.console.filters import Filter
from holdfast.console.listing import Listing, listed
from holdfast.store import Store
from holdfast.worker import Jobs

from .making import finish, hold, kill

STATES = ("queued", "processing", "complete", "failed", None)


def page(store: Store, wanted: Filter, before: str | None = None, count: int = 50) -> Listing:
    return store.atomic(lambda tx: listed(tx, wanted, before=before, count=count), write=False)


def ids(store: Store, wanted: Filter, count: int = 50) -> list[str]:
    """Every page, one after the other."""
    found, before = [], None
    while True:
        one = page(store, wanted, before, count)
        found += [job["id"] for job in one.jobs]
        before = one.next
        if before is None:
            return found


@pytest.fixture
def mixed(store: Store, jobs: Jobs) -> dict[str, list[str]]:
    made = {"complete": finish(store, jobs, 3), "processing": hold(store, jobs, 3), "failed": kill(store, jobs, 3)}
    made["queued"] = [jobs.enqueue("report.build", queue="reports", tenant="t1").id for _ in range(3)]
    return made


def test_every_job_is_on_exactly_one_page(store: Store, mixed: dict[str, list[str]]) -> None:
    for state in STATES:
        wanted = [one for name, some in mixed.items() if state in {None, name} for one in some]
        for count in (1, 2, 50):
            assert sorted(ids(store, Filter(state=state), count)) == sorted(wanted), (state, count)


@pytest.mark.parametrize("state", STATES)
def test_what_comes_meanwhile_moves_no_page(
    store: Store, jobs: Jobs, mixed: dict[str, list[str]], state: str | None
) -> None:
    before_it = ids(store, Filter(state=state))
    first = page(store, Filter(state=state), count=2)
    finish(store, jobs, 2)
    hold(store, jobs, 1, queue="reports-2")
    kill(store, jobs, 2, queue="reports-3")
    jobs.enqueue("mail.send", queue="a-new-queue")
    rest, before = [], first.next
    while before is not None:
        one = page(store, Filter(state=state), before, 2)
        rest += [job["id"] for job in one.jobs]
        before = one.next
    seen = [job["id"] for job in first.jobs] + rest
    assert len(seen) == len(set(seen))
    assert [one for one in seen if one in before_it] == before_it, "each once, and in the same order"


FOUND = (
    (Filter(queue="reports"), ["queued"]),
    (Filter(kind="report.build"), ["queued"]),
    (Filter(tenant="t1"), ["queued"]),
    (Filter(state="queued", queue="reports"), ["queued"]),
    (Filter(state="queued", queue="mail"), []),
    (Filter(state="queued", tenant="t1", kind="report.build", text="REPORT"), ["queued"]),
    (Filter(state="processing", queue="mail"), ["processing"]),
    (Filter(state="processing", queue="reports"), []),
    (Filter(code="NOT_FOUND"), ["failed"]),
    (Filter(code="BAD_GATEWAY"), []),
    (Filter(state="complete", code="NOT_FOUND"), []),
    (Filter(text="NOTHING AT this"), ["failed"]),
    (Filter(state="failed", text="nothing at this", queue="mail"), ["failed"]),
    (Filter(queue="mail"), ["complete", "processing", "failed"]),
)
"""Each filter, and the states whose jobs it finds."""


def test_filters_find_what_they_say(store: Store, mixed: dict[str, list[str]]) -> None:
    for wanted, states in FOUND:
        assert sorted(ids(store, wanted)) == sorted(one for state in states for one in mixed[state]), wanted


def test_a_job_is_found_by_its_id(store: Store, mixed: dict[str, list[str]]) -> None:
    assert ids(store, Filter(text=mixed["failed"][0])) == [mixed["failed"][0]]


@pytest.mark.parametrize("state", ["queued", None])
def test_time_is_the_time_of_the_id(store: Store, jobs: Jobs, state: str | None) -> None:
    first = jobs.enqueue("a").id
    second = jobs.enqueue("a").id
    while id_time_us(jobs.enqueue("b").id) // 1_000 == id_time_us(second) // 1_000:
        pass
    cut_us = (id_time_us(second) // 1_000 + 1) * 1_000
    assert set(ids(store, Filter(state=state, until_us=cut_us))) & {first, second} == {first, second}
    assert set(ids(store, Filter(state=state, since_us=cut_us))) & {first, second} == set()


def test_failed_jobs_are_cut_by_the_time_of_death(store: Store, jobs: Jobs) -> None:
    early, late = kill(store, jobs, 2)
    died_us = jobs.show(late)["failed_us"]
    assert ids(store, Filter(state="failed", since_us=died_us)) == [late]
    assert ids(store, Filter(state="failed", until_us=died_us)) == [early]


def test_a_group_is_listed_alone(store: Store, jobs: Jobs) -> None:
    one = kill(store, jobs, 3, fault=NOT_FOUND)
    kill(store, jobs, 2, fault=FORBIDDEN, queue="other")
    fingerprint = jobs.show(one[0])["fingerprint"]
    assert ids(store, Filter(fingerprint=fingerprint), count=2) == one[::-1]
    assert ids(store, Filter(fingerprint=fingerprint, queue="other")) == []


@pytest.mark.parametrize(
    ("wanted", "rare"),
    [
        (Filter(kind="rare"), "newest"),
        (Filter(state="failed", text="rare"), "failed"),
        (Filter(state="queued", kind="rare"), "queued"),
    ],
)
def test_a_walk_ends_after_so_many_rows_and_goes_on_from_there(
    store: Store, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, wanted: Filter, rare: str
) -> None:
    monkeypatch.setattr(listing, "SCAN_ROWS_MAX", 4)
    if rare == "failed":
        kill(store, jobs, 1, message="a rare one")
        kill(store, jobs, 12)
    elif rare == "newest":
        jobs.enqueue("rare")
        finish(store, jobs, 12)
    else:
        for _ in range(12):
            jobs.enqueue("often")
        jobs.enqueue("rare", priority=9)
    walks, found, before = 0, [], None
    while True:
        one = page(store, wanted, before)
        walks += 1
        found += one.jobs
        before = one.next
        assert one.cut is (before is not None)
        if before is None:
            break
    assert len(found) == 1
    assert walks == 3, "thirteen rows in walks of five"
