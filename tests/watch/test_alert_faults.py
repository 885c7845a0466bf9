"""What a fault declares decides who is called: a critical one raises a critical alert at once, wherever it occurs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from holdfast.base import Secret
from holdfast.catalog import CORE, Catalog, Severity
from holdfast.guard import Link
from holdfast.http import Edge
from holdfast.policy import Retry
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.watch import Alerts, StoreSeries, WebhookSink, start
from holdfast.watch.promql_rules import rule_file
from holdfast.watch.rules_builtin import RULES
from holdfast.worker import Jobs, QueueSettings, Worker

from .alert_scene import Receiver, post

errors = Catalog("bank", extends=(CORE,))
VAULT_EMPTY = errors.fault("VAULT_EMPTY", status=500, says="There is no money left.", severity=Severity.CRITICAL)
ODD = errors.fault("ODD", status=500, says="That is odd.")
NEVER_BY_ITSELF_S = 3_600.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store.open(f"sqlite:///{tmp_path / 'bank.db'}")
    found.migrate()
    yield found
    found.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.close()


class Bank:
    """A process with a worker, a link and an edge, that judges and sends its own alerts."""

    def __init__(self, store: Store, receiver: Receiver) -> None:
        self.receiver = receiver
        self.jobs = Jobs(store)
        sink = WebhookSink(name="oncall", url=Secret(receiver.url))
        self.alerts = Alerts(store, StoreSeries(store), sinks=[sink], every_s=NEVER_BY_ITSELF_S)
        handlers = self.alerts.handlers(post)
        for fault in (VAULT_EMPTY, ODD):
            handlers.handle(fault.code, retry=Retry(attempts=1))(self._failing(fault))
        self.worker = Worker(store, handlers, queues=[QueueSettings("default"), self.alerts.queue()])
        self.watching = start(store, flush_s=NEVER_BY_ITSELF_S)
        self.alerts.start()
        self.worker.start()

    @staticmethod
    def _failing(fault):
        def handler(job):
            raise fault()

        return handler

    def close(self) -> None:
        self.worker.stop()
        self.worker.join()
        self.alerts.stop()
        self.watching.stop()
        self.jobs.close()

    def told(self) -> list[dict]:
        return [json.loads(got.body)["data"] for got in self.receiver.got]


@pytest.fixture
def bank(store: Store, receiver: Receiver) -> Iterator[Bank]:
    found = Bank(store, receiver)
    yield found
    found.close()


def called(bank: Bank) -> dict:
    wait_until(lambda: bool(bank.told()), within_s=60, what="somebody is called")
    (notice,) = bank.told()
    return notice


def test_a_critical_fault_of_a_job_calls_somebody_at_once(bank: Bank) -> None:
    bank.jobs.enqueue(ODD.code)
    bank.jobs.enqueue(VAULT_EMPTY.code)
    notice = called(bank)
    assert (notice["rule"], notice["cause"]) == ("critical_fault", "VAULT_EMPTY")
    assert notice["severity"] == "critical"


def test_a_critical_fault_of_a_link_calls_somebody_at_once(bank: Bank) -> None:
    @Link("bank → vault")
    def take() -> None:
        raise VAULT_EMPTY()

    with pytest.raises(Exception, match="VAULT_EMPTY"):
        take()
    assert called(bank)["cause"] == "VAULT_EMPTY"


def test_a_critical_fault_of_a_request_calls_somebody_at_once(bank: Bank) -> None:
    async def app(scope, receive, send) -> None:
        raise VAULT_EMPTY()

    async def ask() -> int:
        transport = httpx.ASGITransport(Edge(app, catalog=errors))
        async with httpx.AsyncClient(transport=transport, base_url="http://bank.test") as client:
            return (await client.get("/")).status_code

    assert asyncio.run(ask()) == 500
    assert called(bank)["cause"] == "VAULT_EMPTY"


def test_the_rule_of_critical_faults_is_exported_like_every_other() -> None:
    written = rule_file(RULES)
    assert "- alert: critical_fault" in written
    assert 'severity=\\"critical\\"' in written


def test_no_rule_lists_codes_to_say_whose_doing_something_is() -> None:
    by_name = {rule.name: rule for rule in RULES}
    assert "NOT_FOUND" not in rule_file(RULES)
    assert by_name["external_service_down"].what.of[0].only == (("blame", ("upstream",)),)  # type: ignore[union-attr]
    assert by_name["high_error_rate"].what.part.only == (("blame", ("server", "upstream")),)  # type: ignore[union-attr]
