"""What the queue adds to a conversion: the same files through the whole system, and straight to its gateway.

Everything of the system is on: the upload's record, the lease, the journal, the artifact written once, the completion.
Both sides have as many conversions under way at once. The bare side reads each file and throws the XML away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time, sleep

from bench.table import Row
from holdfast.store import Store
from holdfast_systems.conversion.tests.system import pdf, running

GROUP = "one short page, four at a time, on SQLite"
AT_ONCE = 4
LOOK_S = 0.01
SECONDS_MAX = 120

Convert = Callable[[bytes], object]


def queue_rows(folder: Path, address: str, convert: Convert, *, quick: bool) -> list[Row]:
    """What a job takes through the queue, what it takes without, and the difference."""
    files = [pdf(f"Page {number}") for number in range(20 if quick else 150)]
    bare_ms = _bare_ms(convert, files)
    queued_ms, cpu_ms = _queued_ms(folder, address, files)
    figures = {
        "gateway alone": bare_ms,
        "through the queue": queued_ms,
        "the queue adds": queued_ms - bare_ms,
        "CPU of the system's own process": cpu_ms,
    }
    return [Row(group=GROUP, name=name, figure=figure, unit="ms/job") for name, figure in figures.items()]


def _bare_ms(convert: Convert, files: Sequence[bytes]) -> float:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(convert, files[:AT_ONCE]))
        begun = perf_counter()
        list(threads.map(convert, files))
        return (perf_counter() - begun) * 1_000 / len(files)


def _queued_ms(folder: Path, address: str, files: Sequence[bytes]) -> tuple[float, float]:
    store = Store.open(f"sqlite:///{folder / 'queue.db'}")
    store.migrate()
    settings = {"GATEWAY": address, "UPLOADS_PER_MINUTE": "100000", "CONCURRENCY": str(AT_ONCE)}
    try:
        with running(store, folder / "system", **settings) as here:
            me = here.person()
            ids = {me.uploaded(content, mapping="layout") for content in files}
            begun, cpu = perf_counter(), process_time()
            with here.working():
                while any(job["status"] in ("queued", "processing") for job in me.listing()["jobs"]):
                    if perf_counter() - begun > SECONDS_MAX:
                        raise TimeoutError("the queue does not drain")
                    sleep(LOOK_S)
                took, spent = perf_counter() - begun, process_time() - cpu
            if {me.job(one)["status"] for one in ids} != {"complete"}:
                raise AssertionError("not every file was converted")
            return took * 1_000 / len(files), spent * 1_000 / len(files)
    finally:
        store.close()
