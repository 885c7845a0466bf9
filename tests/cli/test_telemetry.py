"""Lines and traces of a process: there by default, shaped by options, and never in the way."""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast.base import bus
from holdfast.catalog import Failure
from holdfast.cli.telemetry import Log, LogForm, LogLevel, logged, traced
from holdfast.store import Store
from holdfast.worker import Jobs

from .conftest import Running
from .serving import SHADOW, STOP_S_MAX
from .serving import Running as Serving

WHERE = "shop.noisy:handlers"
NOISY = """
import os, signal

from holdfast.worker import Handlers, Job

handlers = Handlers()


@handlers.handle("fine")
def fine(job: Job) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@handlers.handle("bad")
def bad(job: Job) -> None:
    raise ValueError("password=hunter22")
"""
PROVIDED = (
    NOISY
    + """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: f"SPAN {span.name}\\n")))
trace.set_tracer_provider(provider)
"""
)

Start = Callable[..., Running]


@pytest.fixture
def work(folder: Path, start: Start, sqlite_url: str) -> Callable[..., tuple[int, str]]:
    """Run a worker that fails one job and is then asked to stop by another; its exit code and all that it said."""
    (folder / "shop" / "noisy.py").write_text(NOISY)
    (folder / "shop" / "provided.py").write_text(PROVIDED)

    def run(*words: str, where: str = WHERE, **environment: str) -> tuple[int, str]:
        store = Store.open(sqlite_url)
        Jobs(store).enqueue("bad", priority=-1, attempts=1)
        Jobs(store).enqueue("fine")
        store.close()
        return start("worker", where, "--queue", "default:1", *words, HOLDFAST_DATABASE=sqlite_url, **environment).end()

    return run


# -- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "environment", "told", "form"),
    [
        ((), {}, {"job.failed"}, "text"),
        (("--log", "json", "--log-level", "info"), {}, {"job.failed", "job.claimed", "job.finished"}, "json"),
        ((), {"HOLDFAST_LOG": "json", "HOLDFAST_LOG_LEVEL": "error"}, {"job.failed"}, "json"),
        (("--log", "off"), {"HOLDFAST_LOG": "json"}, set(), "none"),
    ],
)
def test_a_worker_tells_what_it_was_asked_to_tell(
    work: Callable[..., tuple[int, str]], words: tuple[str, ...], environment: dict[str, str], told: set[str], form: str
) -> None:
    code, said = work(*words, **environment)
    lines = [line for line in said.splitlines() if not line.startswith("holdfast worker:")]
    assert code == 0, said
    assert "hunter22" not in said
    if form == "json":
        assert {json.loads(line)["event"] for line in lines} == told
        (failed,) = [json.loads(line) for line in lines if "job.failed" in line]
        assert failed["exception"].startswith("Traceback (most recent call last):")
        assert failed["exception"].endswith("ValueError: password=***")
        assert failed["place"] == "shop.noisy:bad"
    else:
        head, traceback = lines[:1], lines[1:]
        assert all(any(verb in line for verb in told) for line in head)
        assert bool(lines) == bool(told)
        assert ("***" in said) == (form == "text")
        # Told once: neither a second time with another form nor by the standard log.
        assert said.count("Traceback (most recent call last):") == (1 if told else 0)
        assert traceback[-1:] == (["ValueError: password=***"] if told else [])


def test_the_processes_of_a_worker_tell_as_their_parent_was_asked_to() -> None:
    words = Log(LogForm.JSON, LogLevel.ERROR).words()
    assert words == ["--log", "json", "--log-level", "error"]
    assert Log(None, LogLevel.WARNING).words() == ["--log-level", "warning"]


def test_a_worker_that_speaks_json_logs_json(work: Callable[..., tuple[int, str]]) -> None:
    code, said = work("--json")
    assert code == 0, said
    told = [json.loads(line)["event"] for line in said.splitlines()]
    # The first job may fail before the process has come to say that it works.
    assert sorted(told[:-1]) == ["job.failed", "worker.started"]
    assert told[-1] == "worker.stopped"


def test_what_fails_in_a_process_that_serves_is_told(tmp_path: Path) -> None:
    with Serving(tmp_path, systems=SHADOW, HOLDFAST_LOG="json") as running:
        store = running.store()
        jobs = Jobs(store)
        jobs.wait(jobs.enqueue("beta.hello", queue="beta").id, STOP_S_MAX)
        with pytest.raises(Failure, match="KIND_UNKNOWN"):
            jobs.wait(jobs.enqueue("beta.unheard", queue="beta").id, STOP_S_MAX)
        store.close()
        code, _, complained = running.stop(signal.SIGTERM)
    assert code == 0, complained
    told = [json.loads(line) for line in complained.splitlines()]
    assert [(line["event"], line["kind"], line["code"]) for line in told] == [
        ("job.failed", "beta.unheard", "KIND_UNKNOWN")
    ]


def test_what_the_server_and_other_libraries_log_is_in_the_same_form(tmp_path: Path) -> None:
    with Serving(tmp_path, systems=SHADOW, HOLDFAST_LOG="json") as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=STOP_S_MAX) as client:
            client.sendall(b"this is not HTTP\r\n\r\n")
            assert b"400" in client.recv(1_000)
        code, _, complained = running.stop(signal.SIGTERM)
    assert code == 0, complained
    (line,) = [json.loads(line) for line in complained.splitlines()]
    assert (line["event"], line["area"], line["level"]) == ("log.written", "uvicorn.error", "warning")


@pytest.mark.parametrize(("word", "option"), [("loud", "--log"), ("loud", "--log-level")])
def test_a_word_that_means_nothing_is_refused(start: Start, word: str, option: str) -> None:
    code, said = start("worker", WHERE, option, word).end()
    assert code == 2
    assert word in said


def test_without_structlog_a_process_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "structlog", None)
    before = bus.listeners
    with logged(Log(None, LogLevel.WARNING)):
        assert bus.listeners == before
    assert "holdfast[watch]" in capsys.readouterr().err
    with pytest.raises(typer.Exit), logged(Log(LogForm.JSON, LogLevel.WARNING)):
        pass


# -- traces ----------------------------------------------------------------------------------------------------------


def test_spans_go_where_the_environment_says(work: Callable[..., tuple[int, str]]) -> None:
    code, said = work("--log", "off", OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="shop")
    assert code == 0, said
    assert '"service.name": "shop"' in said
    assert said.count('"name": "job ') == 2


def test_spans_go_where_the_program_says(work: Callable[..., tuple[int, str]]) -> None:
    code, said = work("--log", "off", where="shop.provided:handlers")
    assert code == 0, said
    assert said.count("SPAN ") == 2


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console"},
    ],
)
def test_without_a_setting_nothing_listens(environment: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    before = bus.listeners
    with traced(environment):
        assert bus.listeners == before
    assert capsys.readouterr().err == ""


def test_an_exporter_that_is_not_there_is_named_and_the_process_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    before = bus.listeners
    with traced({"OTEL_TRACES_EXPORTER": "no-such-exporter"}):
        assert bus.listeners == before
    assert "'no-such-exporter' is not installed" in capsys.readouterr().err
    with traced({"OTEL_TRACES_EXPORTER": "no-such-exporter,console"}):
        assert len(bus.listeners) == len(before) + 1
    assert bus.listeners == before
