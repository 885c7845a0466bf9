"""The same system on PostgreSQL, with S3 and several workers: by settings only."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path

from holdfast.artifact import Artifacts
from holdfast.store import Store
from holdfast.testing.processes import Child
from holdfast.worker import Jobs
from holdfast_systems.conversion.gateway import Gateway
from holdfast_systems.conversion.settings import PREFIX

from .system import QUICK, Person, pdf, running
from .test_crash import WORK

JOBS = 12


def test_two_machines_two_workers_one_bucket(emptied_dsn: str, s3_url: str, gateway: Gateway, tmp_path: Path) -> None:
    settings = {"GATEWAY": gateway.address, "ARTIFACTS": s3_url, "CONCURRENCY": "2"}
    store = Store.open(emptied_dsn)
    store.migrate()
    with ExitStack() as stack:
        stack.callback(store.close)
        one = stack.enter_context(running(store, tmp_path / "one", **settings))
        other = stack.enter_context(running(store, tmp_path / "other", **settings))
        log = stack.enter_context((tmp_path / "worker.log").open("ab"))
        environment = {PREFIX + name: value for name, value in {**QUICK, **settings}.items()}
        for place in ("one", "other"):
            child = Child(
                [sys.executable, WORK, emptied_dsn, tmp_path / place, "30"],
                log=log,
                environment={**os.environ, **environment},
            )
            stack.callback(child.kill)
        me = one.person()
        elsewhere = Person(other.person().http)
        elsewhere.http.cookies = me.http.cookies  # a balancer in front of both: the same browser
        ids = [(me, elsewhere)[number % 2].uploaded(pdf(str(number))) for number in range(JOBS)]
        assert elsewhere.upload(pdf("0")).json()["id"] == ids[0], "the twin is known on every machine"
        done = [elsewhere.settled(job_id) for job_id in ids]
        assert {job["status"] for job in done} == {"complete"}
        assert all(me.download(job_id).status_code == 200 for job_id in ids)
        artifacts = Artifacts.open(s3_url)
        assert len(list(artifacts.list("results"))) == len(list(artifacts.list("sources"))) == JOBS
        claimed = [event for job in done for event in Jobs(store).history(job["job_id"]) if event["verb"] == "claimed"]
        assert len(claimed) == JOBS, "each job was given to one worker"
        assert me.http.delete(f"/api/jobs/{ids[0]}").status_code == 204
        assert len(list(artifacts.list("results"))) == JOBS - 1
    assert not any(path.is_file() for path in tmp_path.glob("o*/**/*")), "nothing is on the machines' own disks"
