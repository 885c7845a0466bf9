"""A disk that is really full: a small file system of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast_systems.conversion.gateway import Gateway

from .system import Running, pdf, running

SIZE = 1_048_576


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for a megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("a file system of one's own needs a privilege that this user has not")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)  # whoever still has it open is not waited for


@pytest.fixture
def here(sqlite_store: Store, tmp_path: Path, small: Path, gateway: Gateway) -> Iterator[Running]:
    settings = {"GATEWAY": gateway.address, "ARTIFACTS": str(small)}
    with running(sqlite_store, tmp_path / "conversion", **settings) as found:
        yield found


def fill(small: Path) -> Path:
    """Take all the room that is left."""
    filler = small / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4_096)
        except OSError:
            os.fsync(file.fileno())
    return filler


def test_a_result_that_finds_no_room_is_not_tried_again(here: Running, small: Path) -> None:
    me = here.person()
    job_id = me.uploaded()
    filler = fill(small)
    with here.working():
        job = me.settled(job_id)
        assert (job["error_code"], job["attempt_count"]) == ("IO_ERROR", 1)
        assert list((small / "results").glob("*")) == []
        filler.unlink()
        me.retry(job_id)
        assert me.settled(job_id)["status"] == "complete"


def test_an_upload_that_finds_no_room_is_a_failed_job_and_leaves_nothing(here: Running, small: Path) -> None:
    fill(small).stat()
    me = here.person()
    reply = me.upload(pdf())
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "IO_ERROR")
    assert [job["error_code"] for job in me.listing()["jobs"]] == ["IO_ERROR"]
    assert list(small.rglob("*.pdf")) == []
