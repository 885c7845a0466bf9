"""`holdfast serve` comes to its end: in order at the first signal, at once at the second."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.worker import Jobs

from .serving import STOP_S_MAX, Running, run, tell_until_it_ends

Serve = Callable[..., Running]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts the command; what still runs at the end of the test is killed."""
    started: list[Running] = []

    def starting(*words: str) -> Running:
        started.append(Running(tmp_path, *words))
        return started[-1]

    yield starting
    for one in started:
        with one:
            pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with Running(tmp_path, "beta") as served:
        code, said, complained = served.stop(number)
    assert (code, complained) == (0, "")
    assert said.endswith("Stopped.\n")


def test_what_runs_is_finished_before_it_stops(serve: Serve) -> None:
    served = serve()
    store = served.store()
    job = Jobs(store).enqueue("alpha.stop", queue="alpha")
    assert served.end()[0] == 0
    assert Jobs(store).wait(job.id, 0) == "finished"
    store.close()
    assert served.life() == ["started", "stopped"]


def test_a_second_signal_gives_back_what_runs_and_ends_at_once(serve: Serve) -> None:
    served = serve("alpha")
    store = served.store()
    job = Jobs(store).enqueue("alpha.stuck", queue="alpha")
    wait_until(lambda: "stuck" in served.life(), within_s=STOP_S_MAX, what="the job runs")
    served.process.send_signal(signal.SIGTERM)
    wait_until(lambda: json.loads(served.ask("/health")[1]).get("stopping"), within_s=STOP_S_MAX, what="it is stopping")
    assert served.ask("/ready")[0].status == 503

    tell_until_it_ends(served.process, signal.SIGTERM)
    assert served.end()[0] == 0
    assert Jobs(store).show(job.id)["state"] == "queued"
    store.close()


def test_two_processes_on_one_folder_have_one_token_and_one_database(serve: Serve, tmp_path: Path) -> None:
    both = [serve("beta"), serve("beta")]
    tokens = {line for one in both for line in one.lines if line.startswith("Operator's token: ")}
    file = tmp_path / "holdfast-data" / "operator-token"
    assert len(tokens) == 1, "the one that made it tells it"
    assert file.read_text().strip() in tokens.pop()
    assert file.stat().st_mode & 0o777 == 0o600
    store = both[0].store()
    assert Jobs(store).wait(Jobs(store).enqueue("beta.hello", queue="beta").id, STOP_S_MAX) == "hello from beta"
    store.close()
    assert [one.stop(signal.SIGTERM)[0] for one in both] == [0, 0]


# -- the same jobs on another machine ----------------------------------------------------------------------------------


def test_a_worker_runs_the_jobs_of_a_system_where_nothing_is_served(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'holdfast-data' / 'holdfast.db'}")
    store.migrate()
    jobs = Jobs(store)
    made = [jobs.enqueue("alpha.hello", "Ben", queue="alpha"), jobs.enqueue("alpha.stop", queue="alpha")]
    ended = run(tmp_path, "worker", "--system", "alpha", "--address", "https://shop.example/")
    assert ended.returncode == 0, ended.stderr
    assert [jobs.wait(one.id, 0) for one in made] == ["hello Ben from https://shop.example", "finished"]
    store.close()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "either MODULE:HANDLERS, or systems with --system"),
        (("app:handlers", "--system", "alpha"), "either MODULE:HANDLERS, or systems with --system"),
        (("--system", "gamma"), "there are: alpha, beta"),
    ],
)
def test_a_worker_says_what_it_wants_to_be_told(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    ended = run(tmp_path, "worker", *words)
    assert ended.returncode in (2, 3)
    assert told in ended.stderr


def test_the_database_of_the_environment_takes_the_place_of_the_embedded_one(
    database_url: str, tmp_path: Path, store: Store
) -> None:
    with Running(tmp_path, "beta", HOLDFAST_DATABASE=database_url) as served:
        job = Jobs(store).enqueue("beta.hello", queue="beta")
        assert Jobs(store).wait(job.id, STOP_S_MAX) == "hello from beta"
        assert served.stop(signal.SIGTERM)[0] == 0
    assert not (tmp_path / "holdfast-data" / "holdfast.db").exists()
