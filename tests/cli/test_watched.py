"""Alerts in a process that serves: whose notices it sends."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from holdfast.base import bus
from holdfast.cli.watched import alert_policy, alerts_of, counted, notices_of
from holdfast.store import Store

SINK = '[sinks.ops]\nkind = "slack"\nurl = "http://127.0.0.1:9/hook"\n'


def test_whoever_is_told_has_a_queue_in_the_worker(sqlite_url: str, tmp_path: Path) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text(SINK)
    store = Store.open(sqlite_url)
    alerts = alerts_of(store, alert_policy(file))
    handlers = notices_of(alerts)
    store.close()
    assert (len(handlers), handlers.queues) == (1, (alerts.queue(),))


def test_where_nobody_is_told_there_is_nothing_to_do(sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    assert len(notices_of(alerts_of(store, alert_policy(None)))) == 0
    store.close()


def test_a_policy_file_that_cannot_be_used_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "alerts.toml"
    file.write_text("[alerts.no_such_rule]\nthreshold = 1\n")
    with pytest.raises(typer.Exit):
        alert_policy(file)
    assert "no_such_rule" in capsys.readouterr().err


def test_a_process_is_counted_within_the_block_alone(sqlite_url: str) -> None:
    store = Store.open(sqlite_url)
    before = bus.listeners
    with counted(store):
        assert len(bus.listeners) == len(before) + 1
    assert bus.listeners == before
    store.close()
