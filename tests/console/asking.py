"""Asks a console without a network: one request in, one whole reply out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from holdfast.base import Secret
from holdfast.catalog import CORE, Catalog
from holdfast.console import Console, console
from holdfast.store import Store

from .standing import ROOT, TOKEN

HOST = "ops.test"
ADDRESS = f"http://{HOST}{ROOT}"
ORIGIN = f"http://{HOST}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole reply."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def cookie(self) -> str:
        """What a browser would send back."""
        return self.headers.get("set-cookie", "").partition(";")[0]

    @property
    def csrf(self) -> str:
        """What the first form of the page carries."""
        return self.text.partition('name="csrf" value="')[2].partition('"')[0]


ASKED: list[Console] = []
"""The consoles of the test that runs; they are closed when it ends, because each listens to what happens."""


@dataclass(slots=True)
class Asker:
    """A browser of sorts: it keeps its cookie."""

    console: Console
    cookie: str = ""
    client: tuple[str, int] = ("127.0.0.1", 5_000)
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ASKED.append(self.console)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, form: dict[str, str] | None = None, **headers: str) -> Answer:
        given = {"origin": ORIGIN, "content_type": "application/x-www-form-urlencoded", **headers}
        return self.ask("POST", path, urlencode(form or {}).encode(), **given)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        given = {"host": HOST, "accept": "text/html", **self.headers}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            given.setdefault("cookie", self.cookie)
        parts = urlsplit(path)
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "root_path": ROOT,
            "path": ROOT + parts.path,
            "query_string": parts.query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items() if value],
            "client": self.client,
        }
        return asyncio.run(_whole(self.console.app, scope, body))

    def enter(self) -> Asker:
        """Come in with the token."""
        answer = self.post("/enter", {"token": TOKEN})
        assert answer.status == 303, answer.text
        self.cookie = answer.cookie
        return self

    def act(self, path: str, form: dict[str, str] | None = None, page: str = "/") -> Answer:
        """Send a form that a page of ours holds."""
        return self.post(path, {"csrf": self.get(page).csrf, "back": page, **(form or {})})


def asker(store: Store, catalogs: tuple[Catalog, ...] = (CORE,), **settings: Any) -> Asker:
    """Somebody in front of a new console."""
    return Asker(console(store, Secret(TOKEN), catalogs, address=ADDRESS, **settings))


async def _whole(app: Any, scope: dict[str, Any], body: bytes) -> Answer:
    sent: list[dict[str, Any]] = []
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], headers, b"".join(part.get("body", b"") for part in sent[1:]))
