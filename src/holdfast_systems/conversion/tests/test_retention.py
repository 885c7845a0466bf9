"""Retention: files go, then rows; what belongs to nobody goes too; what is still wanted stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.artifact import Artifacts
from holdfast.store import Store
from holdfast.worker import DeadLetters, Jobs
from holdfast_systems.conversion.settings import Settings
from holdfast_systems.conversion.upkeep import Upkeep

from .system import Running, pdf

Site = Callable[..., Running]
OVER = {"retention_s": 1e-6, "failed_retention_s": 1e-6, "orphan_s": 1e-6}


@pytest.fixture
def here(site: Site) -> Iterator[Running]:
    return site()


def upkeep(here: Running, **settings: float) -> dict[str, int]:
    artifacts = Artifacts.open(str(here.folder / "artifacts"))
    return Upkeep(here.store, artifacts, Settings(**settings)).run()


def test_what_has_ended_is_purged_and_then_expired(here: Running) -> None:
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded())
    assert upkeep(here)["purged"] == 0, "its time is not over"
    assert upkeep(here, **OVER)["purged"] == 1
    assert here.files("sources") == here.files("results") == []
    reply = me.download(job["id"])
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "EXPIRED")
    gone = me.job(job["id"])
    assert (gone["expired"], gone["can_download"]) == (True, False)


def test_after_that_the_same_file_is_a_new_job(here: Running) -> None:
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded())
        upkeep(here, **OVER)
        anew = me.upload(pdf())
        assert (anew.status_code, anew.json()["id"] != job["id"]) == (201, True)
        assert me.settled(anew.json()["id"])["status"] == "complete"


def test_a_failed_job_whose_source_was_purged_cannot_be_retried(here: Running) -> None:
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded(mapping="markdown"))
    upkeep(here, **OVER)
    reply = me.retry(job["id"])
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "EXPIRED")
    assert me.job(job["id"])["can_retry"] is False


def test_an_operator_who_revives_it_all_the_same_gets_expired(here: Running) -> None:
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded(mapping="markdown"))
        upkeep(here, **OVER)
        DeadLetters(here.store).revive(job["job_id"])
        assert me.settled(job["id"])["error_code"] == "EXPIRED"


def test_what_waits_is_never_purged(here: Running) -> None:
    me = here.person()
    job_id = me.uploaded()
    assert upkeep(here, **OVER) == {"purged": 0, "forgotten": 0, "discarded": 0, "swept": 0, "interrupted": 0}
    with here.working():
        assert me.settled(job_id)["status"] == "complete"


def test_rows_are_forgotten_later_and_their_dead_letters_with_them(here: Running) -> None:
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded(mapping="markdown"))
    me.upload(b"no pdf")
    assert upkeep(here, **OVER)["forgotten"] == 1, "the refused one never had a file"
    assert [one["id"] for one in me.listing()["jobs"]] == [job["id"]]
    told = upkeep(here, **OVER, forget_s=1e-6)
    assert (told["forgotten"], told["discarded"]) == (1, 1)
    assert me.listing()["jobs"] == []
    assert Jobs(here.store).list(state="failed", queue="conversion") == []
    assert me.http.get(f"/api/jobs/{job['id']}").status_code == 404


def test_files_without_a_row_are_swept_when_they_are_old_enough(here: Running) -> None:
    me = here.person()
    kept = me.uploaded()
    sources = here.folder / "artifacts" / "sources"
    (sources / "0198c0de-7a51-7c3e-9d00-5d2f6a8b1c42.pdf").write_bytes(b"its process died before the row was written")
    assert upkeep(here)["swept"] == 0, "its row may be about to be written"
    assert upkeep(here, orphan_s=1e-6)["swept"] == 1
    assert [path.stem for path in here.files("sources")] == [kept]


def test_files_whose_row_says_that_they_are_gone_are_swept(here: Running) -> None:
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded())
    # The process died between the record and the deletion.
    here.store.single("conversion.purge", id=job["id"])
    assert len(here.files("results")) == 1
    assert upkeep(here, orphan_s=1e-6)["swept"] == 2


def test_what_was_deleted_while_it_ran_leaves_no_dead_letter(here: Running) -> None:
    me = here.person()
    job = me.job(me.uploaded())
    here.store.single("conversion.delete", id=job["id"])
    Jobs(here.store).cancel(job["job_id"])
    assert upkeep(here)["discarded"] == 1
    assert Jobs(here.store).list(state="failed", queue="conversion") == []


def test_it_runs_by_the_clock(site: Site) -> None:
    here = site(SWEEP_S="1", RETENTION_S="0.000001")
    me = here.person()
    with here.working():
        job = me.settled(me.uploaded())
        assert me.seen(job["id"], lambda found: found["expired"])["can_download"] is False


CHECKED = {
    "a result without being complete": "UPDATE holdfast_job SET result = '{}' WHERE id = 'JOB'",
    "an error without having failed": "UPDATE holdfast_job SET error_code = 'GW_5XX' WHERE id = 'JOB'",
    "an error line without having failed": "UPDATE holdfast_job SET error_message = 'x' WHERE id = 'JOB'",
    "a lease without being processed": "UPDATE holdfast_job SET lease_owner = 'w' WHERE id = 'JOB'",
    "an upload with a job and a refusal": "UPDATE holdfast_conversion_upload SET error_code = 'X', error_message = 'x'",
    "an upload with neither": "UPDATE holdfast_conversion_upload SET job_id = NULL, twin_key = NULL",
    "a purged upload that keeps twins out": "UPDATE holdfast_conversion_upload SET purged_us = 1",
    "a line without a code": "UPDATE holdfast_conversion_upload SET error_message = 'x'",
}


def test_the_database_itself_refuses_what_must_not_be(here: Running) -> None:
    me = here.person()
    job = me.job(me.uploaded())
    kept = {what for what, statement in CHECKED.items() if refused(here.store, statement.replace("JOB", job["job_id"]))}
    assert kept == set(CHECKED)


def refused(store: Store, statement: str) -> bool:
    """Whether the database's own rules stop a statement that no code of ours would send."""
    try:
        with store.database.transaction(write=True) as execute:
            execute(statement, {})
    except Exception as error:
        return "check" in str(error).lower()
    return False


def test_the_folder_holds_nothing_but_artifacts_and_spool(here: Running, tmp_path: Path) -> None:
    assert sorted(path.name for path in here.folder.iterdir()) == ["artifacts", "spool"]
