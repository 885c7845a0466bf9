"""`holdfast reports …` as a process of its own, against a running system."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .system import PATIENCE_S, TOKEN, Running, run_body

Site = Callable[..., Running]
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(solo: Site) -> Running:
    served = solo()
    served.define()
    return served


@pytest.fixture
def command(here: Running, tmp_path: Path) -> Command:
    def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "HOLDFAST_TOKEN": TOKEN, "HOLDFAST_REPORTS_ADDRESS": f"{here.address}/reports"}
        return subprocess.run(
            [sys.executable, "-m", "holdfast.cli", "reports", *words],
            env=environment,
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )

    return run


def test_the_sample_is_submitted_and_followed_to_its_end(here: Running, command: Command) -> None:
    with here.working():
        done = command("submit", "--sample", "--follow")
    assert done.returncode == 0, done.stderr
    first, *steps = done.stdout.splitlines()
    assert "SUCCEEDED" in first
    assert "1 model calls" in first
    assert [line.split()[:2] for line in steps] == [[name, "SUCCEEDED"] for name in ("ohlcv", "charts", "report")]
    # Beside the answer, a line for each change.
    assert "report  SUCCEEDED" in done.stderr
    assert "succeeded after" in done.stderr


def test_a_run_is_submitted_from_a_file_or_a_pipe_shown_and_run_again(
    here: Running, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(run_body("run_1")))
    assert command("submit", "run.json").stdout == "run_1\n"
    piped = command("submit", "-", "--json", stdin=json.dumps(run_body("run_2")))
    assert json.loads(piped.stdout)["runId"] == "run_2"
    here.standin.switch("safety_block")
    with here.working():
        here.ended("run_1")
        followed = command("tail", "run_1")
        assert followed.returncode == 1, "a run that failed"
        assert "LLM_SAFETY_BLOCK" in followed.stdout
        here.standin.switch(None)
        assert command("rerun", "run_1", "report").stdout == "report_r2\n"
        assert here.ended("run_1")["status"] == "SUCCEEDED"
    shown = json.loads(command("show", "run_1", "--json").stdout)
    assert shown["steps"]["report_r2"]["state"] == "SUCCEEDED"


def test_what_does_not_work_is_one_line_with_its_code(here: Running, command: Command, tmp_path: Path) -> None:
    missing = command("show", "run_9")
    assert (missing.returncode, missing.stdout) == (3, "")
    assert missing.stderr.startswith("holdfast: FLOW_RUN_NOT_FOUND: There is no such flow run.")
    (tmp_path / "broken.json").write_text("{")
    broken = command("submit", "broken.json")
    assert broken.returncode == 2
    assert "is not JSON" in broken.stderr
    assert command("submit").returncode == 2
    away = command("show", "run_1", "--address", "http://127.0.0.1:9/reports")
    assert away.returncode == 1
    assert len(away.stderr.splitlines()) == 1
