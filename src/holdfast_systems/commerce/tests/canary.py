"""Looks for secrets everywhere: in logs, events, traces, metrics, responses, files, and every table of a database.

```python
with watched(store, database_url) as canary:
    canary.listen_to(live.http)
    ...
    assert canary.found(SECRET) == []
```
"""

from __future__ import annotations

import io
import logging
import sqlite3
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import psycopg
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.base import bus
from holdfast.store import Store
from holdfast.watch import Exposition, log_events, start, trace_events

FLUSH_S = 600.0


class Canary:
    """What was seen, by where it was seen."""

    def __init__(self, store: Store, database_url: str) -> None:
        self._store = store
        self._database_url = database_url
        self._spans = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.logged, self.told = io.StringIO(), io.StringIO()
        self.events: list[str] = []
        self.responses: list[str] = []
        self.files: list[Path] = []

    def listen_to(self, client: httpx.Client) -> None:
        """Remember every answer that the client gets."""
        client.event_hooks["response"] = [*client.event_hooks["response"], self._answered]

    def search_in(self, *folders: Path) -> None:
        """Look into the files of these folders too: data, logs, whatever is there in the end."""
        self.files += folders

    def places(self) -> dict[str, str]:
        """Everything that was written anywhere, as text, by its place."""
        spans = [span.to_json() for span in self._spans.get_finished_spans()]
        return {
            "log": self.logged.getvalue(),
            "structured log": self.told.getvalue(),
            "events": "\n".join(self.events),
            "traces": "\n".join(spans),
            "responses": "\n".join(self.responses),
            "metrics": Exposition(self._store, remembered_s=0.0).page()[1].decode(),
            **{f"table {name}": text for name, text in dump(self._database_url).items()},
            **{f"file {path}": text for path, text in _files(self.files)},
        }

    def found(self, *secrets: str) -> list[str]:
        """Where one of the secrets is, as it is or encoded; empty when it is nowhere."""
        forms = {form for secret in secrets for form in forms_of(secret)}
        return [place for place, text in self.places().items() if any(form in text for form in forms)]

    def _answered(self, response: httpx.Response) -> None:
        response.read()
        self.responses.append(f"{response.status_code} {dict(response.headers)} {response.text}")


@contextmanager
def watched(store: Store, database_url: str) -> Iterator[Canary]:
    """Everything that this process tells is remembered within the block."""
    canary = Canary(store, database_url)
    handler = logging.StreamHandler(canary.logged)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    ends = [
        log_events(stream=canary.told, json=True, level="debug"),
        trace_events(canary.provider),
        bus.listen(lambda *facts: canary.events.append(repr(facts))),
    ]
    watching = start(store, flush_s=FLUSH_S)
    try:
        yield canary
    finally:
        watching.stop()
        for end in ends:
            end()
        root.setLevel(before)
        root.removeHandler(handler)


def forms_of(secret: str) -> set[str]:
    """The secret as it is, and as it looks inside JSON, an address or base64."""
    encoded = b64encode(secret.encode()).decode().rstrip("=")
    return {secret, quote(secret, safe=""), quote(secret), encoded, secret.encode().hex()}


def dump(database_url: str) -> dict[str, str]:
    """Every row of every table of the database, as text, by the table's name."""
    if database_url.startswith("sqlite"):
        with sqlite3.connect(database_url.partition("///")[2]) as connection:
            return _tables(connection, "SELECT name FROM sqlite_master WHERE type = 'table'")
    with psycopg.connect(database_url) as connection:
        return _tables(connection, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")


def _tables(connection: Any, listing: str) -> dict[str, str]:
    names = [name for (name,) in connection.execute(listing).fetchall()]
    found = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
    return {name: "\n".join(_text(row) for row in rows) for name, rows in found.items()}


def _text(row: tuple[Any, ...]) -> str:
    return " ".join(
        bytes(value).decode("latin-1") if isinstance(value, bytes | memoryview) else str(value) for value in row
    )


def _files(folders: list[Path]) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path, path.read_bytes().decode("latin-1")
