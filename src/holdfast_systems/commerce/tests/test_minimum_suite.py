"""§7, the minimum end-to-end suite: five separate processes that share nothing but HTTP and the service token.

On SQLite each process has a database of its own; on PostgreSQL they share one server and one database.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from holdfast.base import REAL
from holdfast.testing.postgres import PostgresAddress
from holdfast.testing.processes import wait_until
from holdfast_systems.commerce.main import PARTS
from holdfast_systems.commerce.standins.vault import DEMO_SECRET

from .browser import launched, opened
from .live import PATIENCE_S, SERVICE, SERVICE_TOKEN, Live, Process, apart
from .widget import STREAM, Bought, buy, code, events

SALEOR_SECRET = "the secret that the shop signs with"


class Recorded(httpx.HTTPTransport):
    """Keeps what every service has answered, for the search at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        reply = super().handle_request(request)
        text = reply.read().decode("utf-8", "replace")
        self.answers.append(f"{request.method} {request.url.path} {dict(reply.headers)} {text}")
        return reply


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("suite")
    settings = {"saleor_secret": SALEOR_SECRET, "sweep_every_s": "1"}
    with ExitStack() as stack:
        if request.param == "sqlite":
            # One database for each service: whoever read another's tables would find none.
            stack.enter_context(pytest.MonkeyPatch.context()).setattr(Process, "__init__", _with_own_database)
            database = "sqlite:///"
        else:
            server: PostgresAddress = request.getfixturevalue("postgres_server")
            worker_id = request.getfixturevalue("worker_id")
            database = server.create_database(f"commerce_suite_{worker_id}")
        live = stack.enter_context(apart(database, folder, **settings))
        recorded = Recorded()
        live.http = stack.enter_context(httpx.Client(timeout=PATIENCE_S, transport=recorded))
        live.recorded = recorded  # type: ignore[attr-defined]
        live.folder = folder  # type: ignore[attr-defined]
        live.database = database  # type: ignore[attr-defined]
        yield live


_made = Process.__init__


def _with_own_database(self: Process, part: str, database: str, folder: Path, port: int, environment: Any) -> None:
    _made(self, part, f"{database}{folder / part}.db", folder, port, environment)


@pytest.fixture(autouse=True)
def healthy(suite: Live) -> Iterator[None]:
    yield
    for standin in ("langflow", "vault", "weather", "crm"):
        suite.fault(standin)


def call(live: Live, bought: Bought, tool: str, arguments: dict[str, Any], **more: Any) -> httpx.Response:
    body = {"arguments": arguments, **more}
    return live.post("connectors", f"/v1/instances/{bought.instance_id}/tools/{tool}", body, token=SERVICE)


# -- the five lines of §7 ------------------------------------------------------------------------------------------


def test_7_settle_idempotency_same_reservation_same_ledger_entry(suite: Live) -> None:
    bought = buy(suite, "s1", order="S1")
    asked = {"instanceId": bought.instance_id, "requestedBudget": 5, "runId": "settled-twice"}
    held = suite.post("control-plane", "/billing/authorize", asked, token=SERVICE).json()
    settle = {"reservationId": held["reservationId"], "amount": 3}
    answers = [suite.post("control-plane", "/billing/settle", settle, token=SERVICE).json() for _ in range(3)]
    assert len({answer["ledgerEntryId"] for answer in answers}) == 1
    assert [answer["charged"] for answer in answers] == [3, 3, 3]
    wallet = bought.wallet()
    assert (wallet["available"], wallet["held"], wallet["spent"]) == (97, 0, 3)


def webhook(live: Live, order: dict[str, Any]) -> httpx.Response:
    body = json.dumps({"order": order}).encode()
    signature = hmac.new(SALEOR_SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "Saleor-Event": "order_fully_paid",
        "Saleor-Domain": "127.0.0.1",
        "Saleor-Signature": signature,
    }
    return live.http.post(f"{live.urls['provisioner']}/webhooks/saleor/order-fully-paid", content=body, headers=headers)


def test_7_webhook_retries_duplicate_order_creates_no_duplicates(suite: Live) -> None:
    lines = [
        {"id": "L1", "productSku": "agent-basic", "quantity": 1},
        {"id": "L2", "productSku": "credits-100", "quantity": 1},
    ]
    order = {"id": "W1", "user": {"id": "w1", "email": "w1@shop.example"}, "lines": lines}
    first, again = webhook(suite, order), webhook(suite, order)
    assert (first.status_code, again.status_code) == (200, 200), first.text
    one, two = first.json()["lines"], again.json()["lines"]
    assert {line["status"] for line in one} == {"created"}
    assert {line["status"] for line in two} == {"already_processed"}
    assert [line["ledgerEntryId"] for line in one] == [line["ledgerEntryId"] for line in two]
    assert one[0]["instanceId"] == two[0]["instanceId"]
    wallet = suite.get("control-plane", f"/wallets/{one[0]['walletId']}").json()
    assert (wallet["available"], wallet["paidIn"]) == (200, 200)


def met(live: Live, standin: str) -> int:
    """How many requests are still to meet the fault of a stand-in."""
    left: dict[str, int] = live.http.get(f"{live.standin(standin)}/faults").json()
    return left.get("times", 0)


def test_7_tool_call_safety_read_is_retried_write_is_not(suite: Live) -> None:
    bought = buy(suite, "t1", order="T1")
    suite.fault("weather", status=503, times=2)
    read = call(suite, bought, "weather.read", {"city": "Oslo"})
    assert read.status_code == 200, read.text
    assert met(suite, "weather") == 0, "both faults were met: the read was tried three times"
    suite.fault("crm", status=503, times=2)
    write = call(suite, bought, "crm.note", {"text": "once"})
    assert write.status_code in (502, 503), write.text
    assert met(suite, "crm") == 1, "one fault was met: the write was tried once"
    suite.fault("crm")
    notes = suite.http.get(f"{suite.standin('crm')}/v1/notes").json()["notes"]
    assert [note for note in notes if note["text"] == "once"] == []


def test_7_vault_outage_tool_call_fails_closed_and_leaks_nothing(suite: Live) -> None:
    bought = buy(suite, "v1", order="V1")
    assert call(suite, bought, "weather.read", {"city": "Oslo"}).status_code == 200
    suite.fault("vault", status=503)
    suite.fault("weather", status=500, times=1)
    refused = call(suite, bought, "weather.read", {"city": "Oslo"})
    assert code(refused) == (503, "VAULT_UNAVAILABLE")
    assert met(suite, "weather") == 1, "the tool was not called"
    assert DEMO_SECRET.reveal() not in refused.text


def test_7_rate_limiting_429_with_retry_after(suite: Live) -> None:
    bought = buy(suite, "r1", order="R1")
    origin = "http://127.0.0.1:8123"
    replies = [bought.session(f"v{number}", origin) for number in range(90)]
    refused = [reply for reply in replies if reply.status_code == 429]
    assert [reply.status_code for reply in replies[:60]] == [200] * 60
    assert refused
    for reply in refused:
        assert code(reply) == (429, "RATE_LIMITED")
        assert int(reply.headers["retry-after"]) >= 1
        assert reply.headers["access-control-allow-origin"] == origin, "the page can read how long to wait"
        assert "retry-after" in reply.headers["access-control-expose-headers"]


def test_7_rate_limiting_the_widget_counts_down(suite: Live) -> None:
    plan = suite.get("control-plane", "/plans/agent-basic").json()
    document = {name: plan[name] for name in plan if name not in ("sku", "updatedAt")}
    document["limits"] = {**plan["limits"], "requestsPerMinute": 1}
    assert suite.put("control-plane", "/plans/agent-slow", document).is_success
    bought = buy(suite, "r2", "agent-slow", "R2")
    with launched() as browser, opened(browser) as page:
        page.goto(f"{suite.urls['gateway']}/widget/{bought.instance_id}")
        for text in ("One", "Two"):
            page.get_by_label("Message").fill(text)
            page.get_by_label("Message").press("Enter")
            if text == "One":
                expect(page.locator(".message:not(.mine)").last).to_contain_text("2 credits")
        notice = page.get_by_role("alert")
        expect(notice).to_contain_text("You can send it again in")
        expect(notice.get_by_role("button", name="Send again")).to_be_disabled()
    assert bought.settled(2)["available"] == 98


# -- the whole way, over five processes ----------------------------------------------------------------------------


def test_an_order_becomes_a_chat_and_a_charge(suite: Live) -> None:
    bought = buy(suite, "c1", order="C1")
    widget = bought.widget()
    *pieces, end = events(widget.run("c1", "/words 20", **STREAM).text)
    assert "".join(piece["text"] for piece in pieces) == end["output"]
    assert (end["charged"], end["billing"]) == (2, "settled")
    told = widget.run("c2", '/tool weather.read {"city": "Oslo"}').json()
    assert "temperatureC" in told["output"], "runner, runtime, connectors, vault and the tool's service were called"
    assert bought.settled(4)["available"] == 96


@pytest.mark.parametrize("part", ["control-plane", "runner", "gateway"])
def test_kill_9_of_a_service_and_a_new_start_lose_nothing(suite: Live, part: str) -> None:
    bought = buy(suite, f"k-{part}", order=f"K-{part}")
    widget = bought.widget()
    assert widget.run("before").status_code == 200
    suite.processes[part].kill()
    if part != "gateway":
        refused = widget.run("during")
        expected = {"control-plane": "BILLING_UNAVAILABLE", "runner": "EXECUTION_UNAVAILABLE"}[part]
        assert code(refused) == (503, expected)
    suite.processes[part].start()
    suite.processes[part].wait_ready(suite.http)

    def runs() -> bool:
        reply = widget.run("during")
        assert reply.status_code in (200, 409, 429, 503), reply.text
        if reply.status_code != 200:
            REAL.sleep(float(reply.headers["retry-after"]))  # as every client should
        return reply.status_code == 200

    wait_until(runs, within_s=PATIENCE_S, what="the same request runs again")
    assert bought.settled(4)["available"] == 96
    assert len(bought.charges()) == 2


def test_no_token_and_no_secret_is_in_a_log_a_reply_an_event_or_a_database(suite: Live) -> None:
    bought = buy(suite, "x1", order="X1")
    widget = bought.widget("canary-user")
    widget.run("x1", '/tool weather.read {"city": "Oslo"}')
    wrong = {"Authorization": f"Bearer {widget.token}x", "Origin": widget.origin}
    suite.post("gateway", f"/v1/instances/{bought.instance_id}/runs", {"input": 7}, token=wrong)
    suite.fault("langflow", reset=True)
    widget.run("x2")
    suite.fault("langflow")
    secrets = {
        "the service token": SERVICE_TOKEN,
        "the secret of the shop": SALEOR_SECRET,
        "the secret of the tool": DEMO_SECRET.reveal(),
        "the token of the widget": widget.token,
        "its signature": widget.token.rpartition(".")[2],
    }
    answers: list[str] = suite.recorded.answers  # type: ignore[attr-defined]
    places = {
        **{f"the log of {part}": process.log() for part, process in suite.processes.items()},
        **dict(_databases(suite)),
        "the replies": "\n".join(one for one in answers if "/v1/widget/sessions" not in one),
        "the metrics": "\n".join(suite.http.get(f"{process.url}/metrics").text for process in suite.processes.values()),
    }
    assert len(places["the replies"]) > 1_000
    for what, secret in secrets.items():
        for where, text in places.items():
            assert secret not in text, f"{what} is in {where}"


def _databases(live: Live) -> Iterator[tuple[str, str]]:
    """Everything that stands in each database, as text."""
    database: str = live.database  # type: ignore[attr-defined]
    if database.startswith("sqlite"):
        for part in PARTS:
            with sqlite3.connect(f"{live.folder / part}.db") as connection:  # type: ignore[attr-defined]
                yield f"the database of {part}", "\n".join(connection.iterdump())
            connection.close()
        return
    import psycopg

    with psycopg.connect(database) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (name,) in names:
            assert re.fullmatch(r"\w+", name)
            rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()  # type: ignore[arg-type]
            yield f"the table {name}", "\n".join(str(row) for row in rows)
