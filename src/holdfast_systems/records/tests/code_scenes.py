"""One scene for each code that the API documents: it ends with a reply of a server on loopback that has this code."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.base import now_us, utc_text
from holdfast.http import BodyRule
from holdfast.http.asgi import Reply, Scope, give
from holdfast.store import Store, Tx, connections
from holdfast.testing import Faulty
from holdfast.testing.ports import listening_socket
from holdfast.testing.postgres import PostgresServer
from holdfast_systems.records import api, companies
from holdfast_systems.records.service import BODY_BYTES_MAX

from .live import PATIENCE_S, Account, Live, running, served

JSON_TYPE = {"Content-Type": "application/json"}
WAIT = {"Prefer": "wait=30"}
NOBODYS = "0190aaaa-0000-7000-8000-000000000000"
NOBODYS_COMPANY = "CO-20240828-999999"
NOBODYS_PERSON = "PE-20240828-999999"


class Stage:
    """Where a scene is played: a server of its own, with the settings that the scene needs."""

    def __init__(self, folder: Path, stack: ExitStack, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.stack = stack
        self.patch = patch

    def live(self, *, worker: bool = False, database: str | None = None, **settings: str) -> Live:
        """The system on SQLite, unless another database is named."""
        store = Store.open(database or f"sqlite:///{self.folder / 'scene.db'}")
        self.stack.callback(store.close)
        store.migrate()
        return self.stack.enter_context(running(store, self.folder / "records", worker=worker, **settings))

    def account(self, **settings: Any) -> Account:
        """An account of a system with these settings."""
        return self.live(**settings).account()

    def website(self, **fault: Any) -> tuple[str, str]:
        """The host and the address of a website on loopback that has this fault."""

        async def answer(scope: Scope, receive: Any, send: Any) -> None:
            await give(Reply(body=b"<title>Acme</title>"), send, head=False)

        app, listener = Faulty(answer), listening_socket()
        app.faults.switch(**fault)
        self.stack.enter_context(served(app, listener))
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        return host, f"http://{host}"

    def enriched(self, host: str, url: str, **settings: str) -> httpx.Response:
        """The reply to an enrichment from this website that is waited for."""
        targets = {"ENRICHMENT_TARGETS": host, "ENRICHMENT_TIMEOUT_S": "0.5", "ENRICHMENT_HOST_INTERVAL_S": "0.05"}
        account = self.account(worker=True, **{**targets, **settings})
        return account.post("/enrichments", {"company_uid": account.company(website=url)}, headers=WAIT)


Scene = Callable[[Stage], httpx.Response]


def expired(stage: Stage) -> httpx.Response:
    account = stage.live().account(expires_at=utc_text(now_us() + 500_000))
    account.seen("/companies", lambda body: "error_code" in body)
    return account.get("/companies")


def duplicate(stage: Stage) -> httpx.Response:
    account = stage.account()
    account.company(website="https://acme.example")
    return account.post("/companies", {"name": "Other", "website": "https://acme.example/"})


def other_company(stage: Stage) -> httpx.Response:
    account = stage.account()
    person = account.person(account.company())
    return account.put_slot(f"SL-{account.company('Other')}-CEO", person)


def taken_slot(stage: Stage) -> httpx.Response:
    account = stage.account()
    uid = account.company()
    account.put_slot(f"SL-{uid}-CEO", account.person(uid))
    return account.put_slot(f"SL-{uid}-CEO", account.person(uid, "Bob"))


def other_payload(stage: Stage) -> httpx.Response:
    account = stage.account()
    account.post("/companies", {"name": "Acme"}, headers={"Idempotency-Key": "one"})
    return account.post("/companies", {"name": "Other"}, headers={"Idempotency-Key": "one"})


def maintenance(stage: Stage) -> httpx.Response:
    live = stage.live()
    account = live.account()
    live.operate("PUT", "/maintenance", json={"until": utc_text(now_us() + 60_000_000)})
    return account.get("/companies")


def limited(quota: dict[str, int]) -> Scene:
    def scene(stage: Stage) -> httpx.Response:
        live = stage.live()
        account = live.account()
        live.operate("PUT", f"/quotas/{account.account_id}", json=quota)
        account.get("/companies")
        return account.get("/companies")

    return scene


def overloaded(stage: Stage) -> httpx.Response:
    """One request works in the only thread, one waits, and the next is shed."""
    go_on, inside = threading.Event(), threading.Event()
    page = companies.page

    def slow(*given: Any, **more: Any) -> Any:
        inside.set()
        assert go_on.wait(PATIENCE_S)
        return page(*given, **more)

    stage.patch.setattr(companies, "page", slow)
    account = stage.account(THREADS="1", QUEUEING_TARGET_S="0.01", QUEUEING_INTERVAL_S="0.01")

    def ask() -> None:
        with _alone(account) as http:
            http.get("/records/v1/companies")

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert inside.wait(PATIENCE_S)
    try:
        while True:
            with _alone(account) as http:
                try:
                    return http.get("/records/v1/companies", timeout=0.5)
                except httpx.TimeoutException:
                    continue  # it waits for its turn too: not overloaded for long enough yet
    finally:
        go_on.set()
        for thread in threads:
            thread.join(PATIENCE_S)


def full_queue(stage: Stage) -> httpx.Response:
    account = stage.account(VERIFICATION_QUEUE_MAX="1")
    account.post("/verifications", {"email": "a@acme.example"})
    return account.post("/verifications", {"email": "b@acme.example"})


def both_providers_down(stage: Stage) -> httpx.Response:
    live = stage.live(worker=True, VERIFICATION_TIMEOUT_S="2", VERIFICATION_BUDGET_S="4")
    for name in ("millionverifier", "zerobounce"):
        live.http.put(f"/standins/{name}/faults", json={"status": 503}).raise_for_status()
    return live.account().post("/verifications", {"email": "a@acme.example"}, headers=WAIT)


def deaf_network(stage: Stage) -> httpx.Response:
    """A host that lets nobody in: once those who wait to be accepted are too many, the kernel answers no one."""
    deaf = stage.stack.enter_context(socket.socket())
    deaf.bind(("127.0.0.1", 0))
    deaf.listen(0)
    for _ in range(4):
        waiting = stage.stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(deaf.getsockname())
    host = f"127.0.0.1:{deaf.getsockname()[1]}"
    return stage.enriched(host, f"http://{host}")


def no_database(stage: Stage) -> httpx.Response:
    stage.patch.setattr(connections, "WAIT_S", 0.5)
    server = stage.stack.enter_context(PostgresServer.start(stage.folder / "postgres", fsync=False))
    account = stage.account(database=server.create_database("gone"))
    uid = account.company()
    server.kill()
    return account.get(f"/companies/{uid}")


def broken_database(stage: Stage) -> httpx.Response:
    live = stage.live()
    account = live.account()
    _run(live, "DROP TABLE holdfast_records_review")
    return account.get("/reviews")


def broken_row(stage: Stage) -> httpx.Response:
    """Data that this program cannot have written: a mistake nobody has foreseen."""
    live = stage.live()
    account = live.account()
    uid = account.company()
    _run(live, "UPDATE holdfast_records_company SET contact_emails = '{', enriched_us = 1")
    return account.get(f"/companies/{uid}")


def full_disk(stage: Stage) -> httpx.Response:
    live = stage.live()
    account = live.account()

    def shrink(tx: Tx) -> None:
        """No further page for the only connection that writes; SQLite answers as it does for a full disk."""
        pages = tx._execute("PRAGMA page_count", {}).fetchall()[0][0]
        tx._execute(f"PRAGMA max_page_count = {pages}", {}).fetchall()

    live.store.atomic(shrink)
    large = {"name": "x" * 200, "industry": "y" * 200}
    while True:
        reply = account.post("/companies", large)
        if reply.status_code != 201:
            return reply


def no_artifacts(stage: Stage) -> httpx.Response:
    with listening_socket() as closed:
        port = closed.getsockname()[1]
    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}.items():
        stage.patch.setenv(name, value)
    stage.patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    account = stage.account(ARTIFACTS="s3://nowhere/imports")
    row = b'{"type": "company", "name": "Acme"}\n'
    return account.ask("POST", "/imports", content=row, headers={"Content-Type": "application/x-ndjson"})


def late_body(stage: Stage) -> httpx.Response:
    stage.patch.setattr(api, "SMALL", BodyRule(bytes_max=BODY_BYTES_MAX, wait_s=0.2))
    account = stage.account()
    head = f"POST /records/v1/companies HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {account.key}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with _connected(account) as connection:
        connection.sendall(head.encode() + b'{"name":')
        return _read(connection)


SCENES: dict[str, Scene] = {
    "INVALID_API_KEY": lambda stage: stage.live().http.get("/records/v1/companies"),
    "API_KEY_EXPIRED": expired,
    "INSUFFICIENT_PERMISSIONS": lambda stage: stage.live().account(scopes=["read"]).post("/companies", {"name": "A"}),
    "VALIDATION_ERROR": lambda stage: stage.account().post("/companies", {"name": "", "website": "not-a-url"}),
    "MALFORMED_JSON": lambda stage: stage.account().ask("POST", "/companies", content=b"{", headers=JSON_TYPE),
    "UNSUPPORTED_CONTENT_TYPE": lambda stage: stage.account().ask("POST", "/companies", content=b"a,b"),
    "PAYLOAD_TOO_LARGE": lambda stage: stage.account().post("/companies", {"name": "x" * 2 * BODY_BYTES_MAX}),
    "METHOD_NOT_ALLOWED": lambda stage: stage.account().ask("PUT", "/companies", json={}),
    "IDEMPOTENCY_KEY_INVALID": lambda stage: stage.account().post(
        "/companies", {"name": "Acme"}, headers={"Idempotency-Key": "k" * 300}
    ),
    "DEADLINE_EXCEEDED": lambda stage: stage.account().get("/companies", headers={"X-Deadline-Ms": "0"}),
    "REQUEST_TIMEOUT": late_body,
    "COMPANY_NOT_FOUND": lambda stage: stage.account().get(f"/companies/{NOBODYS_COMPANY}"),
    "PERSON_NOT_FOUND": lambda stage: stage.account().get(f"/people/{NOBODYS_PERSON}"),
    "SLOT_NOT_FOUND": lambda stage: stage.account().ask("DELETE", f"/slots/SL-{NOBODYS_COMPANY}-CEO"),
    "REVIEW_NOT_FOUND": lambda stage: stage.account().post(f"/reviews/{NOBODYS}/approve"),
    "IMPORT_NOT_FOUND": lambda stage: stage.account().get(f"/imports/{NOBODYS}"),
    "VERIFICATION_NOT_FOUND": lambda stage: stage.account().get(f"/verifications/{NOBODYS}"),
    "ENRICHMENT_NOT_FOUND": lambda stage: stage.account().get(f"/enrichments/{NOBODYS}"),
    "KEY_NOT_FOUND": lambda stage: stage.live().operate("DELETE", f"/keys/{NOBODYS}"),
    "DUPLICATE_RECORD": duplicate,
    "BUSINESS_RULE_VIOLATION": other_company,
    "SLOT_CONFLICT": taken_slot,
    "IDEMPOTENCY_CONFLICT": other_payload,
    "TEMPORARY_UNAVAILABLE": maintenance,
    "RATE_LIMIT_EXCEEDED": limited({"per_minute": 1}),
    "QUOTA_EXCEEDED": limited({"daily": 1}),
    "SERVICE_OVERLOADED": overloaded,
    "VALIDATION_QUEUE_FULL": full_queue,
    "VALIDATION_SERVICE_ERROR": both_providers_down,
    "NETWORK_TIMEOUT": deaf_network,
    "CONNECTION_RESET": lambda stage: stage.enriched(*stage.website(reset=True)),
    "EXTERNAL_SERVICE_TIMEOUT": lambda stage: stage.enriched(*stage.website(hang=True)),
    "EXTERNAL_SERVICE_ERROR": lambda stage: stage.enriched(*stage.website(status=503)),
    "DATABASE_CONNECTION_ERROR": no_database,
    "DATABASE_ERROR": broken_database,
    "INTERNAL_ERROR": broken_row,
    "STORAGE_FULL": full_disk,
    "STORAGE_UNAVAILABLE": no_artifacts,
}


def _alone(account: Account) -> httpx.Client:
    headers = {"Authorization": f"Bearer {account.key}"}
    return httpx.Client(base_url=account.http.base_url, timeout=PATIENCE_S, headers=headers)


def _run(live: Live, statement: str) -> None:
    live.store.atomic(lambda tx: tx._execute(statement, {}))


@contextmanager
def _connected(account: Account) -> Iterator[socket.socket]:
    url = account.http.base_url
    assert url.port is not None
    with socket.create_connection((url.host, url.port), timeout=PATIENCE_S) as connection:
        yield connection


def _read(connection: socket.socket) -> httpx.Response:
    """The whole reply, up to the end of the connection."""
    received = b""
    while more := connection.recv(65_536):
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    return httpx.Response(int(first.split()[1]), headers=[line.split(": ", 1) for line in rest], content=body)
