"""The same on SQLite, one file, `synchronous=FULL` for all: drain, enqueue, several processes."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from bench.jobs_enqueue import SECONDS, SECONDS_QUICK
from bench.jobs_process import POLL_S, Unavailable, ask, crew
from bench.jobs_rows import OURS, Figures, announce, at_least, in_turns, missing_row, progress, rate_rows, ratio_row
from bench.table import Asked, Row

PEERS = ("huey", "litequeue", "persist_queue")
CONTENDERS = (OURS, *PEERS)
SHARED = (OURS, "huey", "litequeue")
"""Those of which several processes may work on one file."""
JOBS = {OURS: 60_000, "huey": 4_000, "litequeue": 4_000, "persist_queue": 4_000}
JOBS_QUICK = {OURS: 10_000, "huey": 600, "litequeue": 600, "persist_queue": 600}
ROUNDS = 5
WITHIN_S = 60.0
DRAIN_MIN = 30_000
OF_HUEY_MIN = DRAIN_MIN / 3_500
"""The same for any machine: where the bound was set, Huey drained 3,500."""
LOCKED = "locked"
"""As in "database is locked", which must never reach a user."""
ENQUEUERS = 2


class Files:
    """Files that are prepared and filled once for each contender, then copied."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)
        self._unfinished: dict[str, str] = {}

    @contextmanager
    def file(self, contender: str, jobs: int = 0) -> Iterator[str]:
        filled = self._folder / f"{contender}-{jobs}" / "queue.db"
        if not filled.exists():
            self._fill(filled, contender, jobs)
        run = self._folder / f"run-{next(self._numbers)}"
        shutil.copytree(filled.parent, run)
        try:
            yield str(run / "queue.db")
        finally:
            shutil.rmtree(run, ignore_errors=True)

    def _fill(self, filled: Path, contender: str, jobs: int) -> None:
        draft = self._folder / f"draft-{next(self._numbers)}"
        draft.mkdir()
        address = str(draft / filled.name)
        self._unfinished[contender] = ask(contender, "prepare", address)["unfinished"]
        if jobs:
            ask(contender, "fill", address, jobs)
        draft.rename(filled.parent)

    def unfinished(self, contender: str, address: str) -> Callable[[], int]:
        def ask_file() -> int:
            with closing(sqlite3.connect(address, timeout=30)) as connection:
                return int(connection.execute(self._unfinished[contender]).fetchone()[0])

        return ask_file


def sqlite_rows(folder: Path, quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=folder, prefix="sqlite-") as place:
        files = Files(Path(place))
        return [*_drain_rows(files, quick), *_enqueue_rows(files, quick), *_crowd_rows(files, quick)]


def _drain_rows(files: Files, quick: bool) -> list[Row]:
    jobs, rounds = (JOBS_QUICK, 1) if quick else (JOBS, ROUNDS)
    group = "SQLite: drain, one worker process"
    one = in_turns(CONTENDERS, lambda name: _drain(files, name, jobs[name], 1), rounds=rounds, what=group)
    rows = rate_rows(group, one, "jobs/s", {OURS: at_least(DRAIN_MIN, one.best.get(OURS), "jobs/s")})
    rows += _ahead_row(group, one)
    rows += ratio_row(group, "holdfast, of Huey", OF_HUEY_MIN, one.ratio(OURS, "huey"), "× huey")
    group = "SQLite: drain, two worker processes on one file"
    two = in_turns(
        SHARED[:1] if quick else SHARED, lambda name: _drain(files, name, jobs[name], 2), rounds=rounds, what=group
    )
    return rows + rate_rows(group, two, "jobs/s")


def _enqueue_rows(files: Files, quick: bool) -> list[Row]:
    rows = []
    milliseconds = int(1_000 * (SECONDS_QUICK if quick else SECONDS))
    for command, words in (("singly", "one at a time"), ("bulk", "1,000 in a call")):
        group = f"SQLite: enqueue, {words}"

        def measure(name: str, command: str = command) -> float:
            with files.file(name) as address:
                rate = float(ask(name, command, address, milliseconds))
            progress(f"SQLite, enqueue {command}, {name}: {rate:,.0f} jobs/s")
            return rate

        figures = in_turns(CONTENDERS, measure, rounds=1 if quick else ROUNDS, what=group)
        rows += rate_rows(group, figures, "jobs/s")
    return rows


def _ahead_row(group: str, figures: Figures) -> list[Row]:
    best = max((figures.best[name] for name in PEERS if name in figures.best), default=None)
    if best is None or OURS not in figures.best:
        return []
    return ratio_row(group, "holdfast, of the best peer", 1.0, figures.best[OURS] / best, "× best peer")


def _crowd_rows(files: Files, quick: bool) -> list[Row]:
    """Two workers and two enqueuers at once on one file: how often somebody is told that it is locked."""
    group = "SQLite: two workers and two enqueuing processes on one file"
    jobs = (JOBS_QUICK if quick else JOBS)[OURS]
    try:
        rate, locked = _crowded(files, jobs, int(1_000 * (SECONDS_QUICK if quick else SECONDS)))
    except Unavailable as reason:
        announce(f"{group}: {reason}")
        return [missing_row(group, OURS, str(reason))]
    return [
        Row(group=group, name="holdfast", figure=rate, unit="jobs/s"),
        Row(
            group=group,
            name="holdfast, 'database is locked'",
            figure=locked,
            unit="times",
            asked=Asked(bound=0, reached=locked, unit="times"),
        ),
    ]


def _crowded(files: Files, jobs: int, milliseconds: int) -> tuple[float, int]:
    """Jobs done per second of those that were there before, and how often somebody was told."""
    locked = 0
    with files.file(OURS, jobs) as address, crew(OURS, address, 2) as workers, ThreadPoolExecutor(ENQUEUERS) as pool:
        workers.go()
        asked = [pool.submit(ask, OURS, "singly", address, milliseconds) for _ in range(ENQUEUERS)]
        while not all(answer.done() for answer in asked):
            workers.listen(POLL_S)
        taken_s = workers.drained(jobs, files.unfinished(OURS, address), within_s=WITHIN_S)
        locked += sum(_is_locked(answer.exception()) for answer in asked)
        locked += sum(worker.complaints(LOCKED) for worker in workers.workers)
    return jobs / taken_s, locked


def _is_locked(error: BaseException | None) -> int:
    if error is not None and LOCKED not in str(error):
        raise error
    return int(error is not None)


def _drain(files: Files, contender: str, jobs: int, processes: int) -> float:
    with files.file(contender, jobs) as address, crew(contender, address, processes) as workers:
        unfinished = files.unfinished(contender, address)
        if (found := unfinished()) != jobs:
            raise Unavailable(f"{found} jobs wait, {jobs} were enqueued")
        workers.go()
        taken_s = workers.drained(jobs, unfinished, within_s=WITHIN_S)
    progress(f"SQLite, drain, {processes} × {contender}: {jobs / taken_s:,.0f} jobs/s")
    return jobs / taken_s
