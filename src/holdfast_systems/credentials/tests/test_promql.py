"""The contract's PromQL, letter by letter, on what `/metrics` shows: in a real Prometheus, and by name without one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from holdfast.store import Store
from holdfast.testing.ports import free_port, listening_socket
from holdfast.testing.processes import wait_until
from holdfast.watch import Exposition, metrics_app, start

from .live import PATIENCE_S, Live, created, running, served, settings_file
from .receiver import Receiver, Say, receiving

SUCCESS_RATE = "rate(webhook_delivery_success_total[5m]) / rate(webhook_delivery_total[5m]) * 100"
ERRORS = "sum(rate(webhook_delivery_failure_total[5m])) by (status_code)"
RETRIES = "histogram_quantile(0.95, rate(webhook_retry_count_bucket[5m]))"
DEAD_LATELY = "webhook_dead_letters_last_hour"
"""What the contract asks the database for."""

PROMETHEUS = shutil.which("prometheus")
MISSING = "prometheus is not installed: the contract's PromQL was NOT run (apt-get install prometheus)"
SCRAPED = """
global: {{scrape_interval: 500ms, scrape_timeout: 500ms}}
scrape_configs: [{{job_name: holdfast, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""

Values = dict[str, float]
"""By the value of the label that is left, if there is one."""


@dataclass
class Scene:
    """A platform that sends, and a receiver that answers as it is told."""

    live: Live
    receiver: Receiver
    count: int = 0

    def deliver(self, *statuses: int) -> None:
        """One event that gets these answers, one after the other."""
        self.count += 1
        event_id = f"evt_{self.count}"
        self.receiver.answers.extend(Say(status) for status in statuses)
        self.live.ask("POST", "/platform/v1/events", json=created(event_id))
        self.live.wait_event(event_id, "delivered" if statuses[-1] < 300 else "failed")


@pytest.fixture
def scene(store: Store, tmp_path: Path) -> Iterator[Scene]:
    watching = start(store, flush_s=600)
    with receiving() as receiver:
        environment = {
            **settings_file(tmp_path, "[sender]\ndelays_s = [0.01]\n"),
            "HOLDFAST_CREDENTIALS_PARTS": "platform",
            "HOLDFAST_CREDENTIALS_ENGINE_URL": receiver.url,
        }
        with running(store, tmp_path, environment=environment, worker=True) as live:
            yield Scene(live, receiver)
    watching.stop()


@contextmanager
def prometheus(folder: Path, store: Store) -> Iterator[Callable[[str], Values]]:
    """A Prometheus that scrapes the metrics of this process, and answers questions."""
    listener, port = listening_socket(), free_port()
    settings = folder / "prometheus.yml"
    settings.write_text(SCRAPED.format(port=listener.getsockname()[1]))
    command = [
        str(PROMETHEUS),
        f"--config.file={settings}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with (
        served(metrics_app(store), listener),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client,
    ):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: _is_ready(client), within_s=PATIENCE_S, what="Prometheus is ready")
            yield lambda question: _answer(client, question)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def _answer(client: httpx.Client, question: str) -> Values:
    told = client.get("/api/v1/query", params={"query": question}).json()
    assert told["status"] == "success", told
    return {one["metric"].get("status_code", ""): float(one["value"][1]) for one in told["data"]["result"]}


@pytest.mark.skipif(PROMETHEUS is None, reason=MISSING)
def test_the_contract_s_queries_have_the_right_answers_in_prometheus(
    scene: Scene, store: Store, tmp_path: Path
) -> None:
    # A rate is a difference: every series has to be there before what is measured happens.
    scene.deliver(500, 200)
    scene.deliver(404)
    with prometheus(tmp_path, store) as ask:
        wait_until(lambda: ask("webhook_delivery_total") == {"": 3}, within_s=PATIENCE_S, what="the first scrape")
        scene.deliver(500, 200)
        scene.deliver(200)
        scene.deliver(200)
        scene.deliver(404)
        # Three of five attempts.
        wait_until(
            lambda: ask(SUCCESS_RATE) == {"": pytest.approx(60, abs=0.5)}, within_s=PATIENCE_S, what="a success rate"
        )
        errors = ask(ERRORS)
        assert errors.keys() == {"500", "404"}
        assert errors["500"] == pytest.approx(errors["404"], rel=0.1)
        assert errors["500"] > 0
        # Of four deliveries one had one retry.
        (retries,) = ask(RETRIES).values()
        assert 0 < retries <= 1
        # After a scrape that came too late a gauge shows nothing until the next one.
        wait_until(lambda: ask(DEAD_LATELY) == {"": 2}, within_s=PATIENCE_S, what="the dead letters")


def test_every_series_and_label_of_the_contract_s_queries_is_on_the_page(scene: Scene, store: Store) -> None:
    scene.deliver(500, 200)
    scene.deliver(404)
    page = Exposition(store).page()[1].decode()
    shown = {one.name: set(one.labels) for family in parse(page) for one in family.samples}
    asked = {
        name for query in (SUCCESS_RATE, ERRORS, RETRIES, DEAD_LATELY) for name in re.findall(r"webhook_\w+", query)
    }
    assert asked <= shown.keys()
    assert "status_code" in shown["webhook_delivery_failure_total"]
    assert "le" in shown["webhook_retry_count_bucket"]
    # A quotient needs the same labels on both sides.
    assert shown["webhook_delivery_success_total"] == shown["webhook_delivery_total"]
