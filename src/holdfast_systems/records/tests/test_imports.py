"""Imports: streamed, stored in batches, each row once, and what became of each row."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.artifact import Artifacts
from holdfast.store import Store
from holdfast.worker import Jobs
from holdfast_systems.records import import_rows
from holdfast_systems.records.import_rows import Format, count_rows, cut, read_row, rows
from holdfast_systems.records.imports import Importer, Lost, Position
from holdfast_systems.records.receiving import receive
from holdfast_systems.records.tables import Numbers

from .live import Account, Live, lines, running

NDJSON = {"Content-Type": "application/x-ndjson"}
CSV = {"Content-Type": "text/csv"}


@pytest.fixture
def importing(store: Store, tmp_path: Path) -> Iterator[Live]:
    with running(store, tmp_path, worker=True, IMPORT_BATCH_ROWS="3") as live:
        yield live


def send(account: Account, content: bytes, headers: dict[str, str] = NDJSON) -> str:
    reply = account.ask("POST", "/imports", content=content, headers=headers)
    assert reply.status_code == 202, reply.text
    return str(reply.json()["import_id"])


def test_one_bad_row_spoils_nothing_and_each_row_says_what_became_of_it(importing: Live) -> None:
    account = importing.account()
    uid = account.company("Known", website="https://known.example")
    content = lines(
        {"type": "company", "name": "One", "website": "https://one.example"},
        {"type": "company", "name": "", "website": "nonsense"},
        {"type": "person", "company_uid": uid, "full_name": "Ada", "email": "ada@known.example"},
        {"type": "company", "name": "Twin", "website": "http://one.example/"},
        {"type": "company", "name": "Known again", "website": "https://known.example"},
        {"type": "person", "company_uid": "CO-20200101-000001", "full_name": "B", "email": "b@known.example"},
        {"type": "planet", "name": "Mars"},
        {"type": "company", "name": "Two"},
    )
    content = content.replace(b'{"type": "planet"', b'not json\n\n{"type": "planet"')
    import_id = send(account, content)
    found = account.settled(f"/imports/{import_id}")
    assert found["status"] == "complete"
    assert (found["rows_total"], found["rows_succeeded"], found["rows_failed"]) == (9, 3, 6)
    assert found["progress"] == 1.0
    failed = account.get(f"/imports/{import_id}/rows?status=failed").json()["rows"]
    assert [(one["row"], one["error_code"]) for one in failed] == [
        (2, "VALIDATION_ERROR"),
        (4, "DUPLICATE_RECORD"),
        (5, "DUPLICATE_RECORD"),
        (6, "COMPANY_NOT_FOUND"),
        (7, "MALFORMED_JSON"),
        (8, "VALIDATION_ERROR"),
    ]
    assert failed[0]["details"]["total_errors"] == 2
    assert all(one["message"] for one in failed)
    good = account.get(f"/imports/{import_id}/rows?status=succeeded").json()["rows"]
    assert [one["row"] for one in good] == [1, 3, 9]
    assert len(account.get(f"/companies/{good[0]['uid']}").json()["slots"]) == 3
    assert account.get(f"/people/{good[1]['uid']}").json()["company_uid"] == uid
    download = account.get(f"/imports/{import_id}/rows", headers={"Accept": "application/x-ndjson"})
    assert [json.loads(line)["row"] for line in download.text.splitlines()] == list(range(1, 10))
    first = account.get(f"/imports/{import_id}/rows?limit=4").json()
    rest = account.get(f"/imports/{import_id}/rows", params={"limit": 9, "cursor": first["next_cursor"]}).json()
    assert [one["row"] for one in [*first["rows"], *rest["rows"]]] == list(range(1, 10))


def test_csv_has_the_same_rows_in_columns(importing: Live) -> None:
    account = importing.account()
    uid = account.company()
    content = (
        "type,name,website,company_uid,full_name,email\r\n"
        'company,"Acme, Inc.",https://acme.example,,,\r\n'
        'company,"Two\nlines ""quoted""",,,,\r\n'
        f"person,,,{uid},Ada,ada@acme.example\r\n"
        f"person,misplaced,,{uid},Ada,ada@acme.example\r\n"
    ).encode()
    import_id = send(account, content, CSV)
    found = account.settled(f"/imports/{import_id}")
    assert (found["rows_total"], found["rows_succeeded"], found["rows_failed"]) == (4, 2, 2)
    failed = account.get(f"/imports/{import_id}/rows?status=failed").json()["rows"]
    assert [one["row"] for one in failed] == [2, 4]  # a name has no line break, and a person no name of a company
    names = {one["name"] for one in account.get("/companies").json()["companies"]}
    assert names == {"Acme", "Acme, Inc."}
    bad = account.ask("POST", "/imports", content=b"kind,name\ncompany,Acme\n", headers=CSV)
    assert (bad.status_code, bad.json()["error_code"]) == (400, "VALIDATION_ERROR")
    assert [one["field"] for one in bad.json()["details"]["errors"]] == ["kind", "type"]


def test_a_file_without_rows_or_of_another_type_is_refused(importing: Live) -> None:
    account = importing.account()
    empty = account.ask("POST", "/imports", content=b"\n\n", headers=NDJSON)
    assert (empty.status_code, empty.json()["error_code"]) == (400, "VALIDATION_ERROR")
    other = account.ask("POST", "/imports", content=b"x", headers={"Content-Type": "application/json"})
    assert (other.status_code, other.json()["error_code"]) == (415, "UNSUPPORTED_CONTENT_TYPE")
    assert "text/csv" in other.json()["details"]["supported"]
    left = [path for path in (importing.folder / "artifacts").glob("imports/**/*") if path.is_file()]
    assert left == []


def test_the_same_file_under_the_same_key_is_imported_once(importing: Live) -> None:
    account = importing.account()
    content = lines({"type": "company", "name": "One"})
    keyed = {**NDJSON, "Idempotency-Key": "file-1"}
    first = account.ask("POST", "/imports", content=content, headers=keyed)
    again = account.ask("POST", "/imports", content=content, headers=keyed)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["import_id"] == first.json()["import_id"]
    other = account.ask("POST", "/imports", content=content * 2, headers=keyed)
    assert (other.status_code, other.json()["error_code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert other.json()["details"]["retryable"] is False
    account.settled(f"/imports/{first.json()['import_id']}")
    assert len(account.get("/companies").json()["companies"]) == 1


def test_other_accounts_see_nothing_of_an_import(importing: Live) -> None:
    owner, other = importing.account(), importing.account("acct_other")
    import_id = send(owner, lines({"type": "company", "name": "One"}))
    unknown = "01980000-0000-7000-8000-000000000000"
    for path in ("/imports/{}", "/imports/{}/rows"):
        replies = [other.get(path.format(one)).json() for one in (import_id, unknown, "nonsense")]
        assert [one["error_code"] for one in replies] == ["IMPORT_NOT_FOUND"] * 3
    assert other.get("/imports").json()["imports"] == []
    assert [one["import_id"] for one in owner.get("/imports").json()["imports"]] == [import_id]


def test_a_file_is_cut_into_parts_at_the_ends_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_rows, "PART_BYTES", 50)
    monkeypatch.setattr(import_rows, "ROW_BYTES_MAX", 60)
    content = b"".join(b'company,"N%d\nx"\n' % number for number in range(30))
    for step in (1, 7, 100):
        buffer, parts = bytearray(), []
        for at in range(0, len(content), step):
            buffer += content[at : at + step]
            while (part := cut(buffer, Format.CSV, last=False)) is not None:
                parts.append(part)
        while (part := cut(buffer, Format.CSV, last=True)) is not None:
            parts.append(part)
        assert b"".join(parts) == content
        assert len(parts) > 5
        assert sum(count_rows(part, Format.CSV, headed=False) for part in parts) == 30
        found = [row for part in parts for row in rows(part, Format.CSV, ["type", "name"], headed=False)]
        assert len(found) == 30
    with pytest.raises(Exception, match="VALIDATION_ERROR"):
        cut(bytearray(b"x" * 200), Format.NDJSON, last=False)


async def test_a_large_file_is_never_in_memory(tmp_path: Path) -> None:
    line = json.dumps({"type": "company", "name": "x" * 900}).encode() + b"\n"
    piece, pieces = line * 70, 800

    async def arriving() -> AsyncIterator[bytes]:
        for _ in range(pieces):
            yield piece

    tracemalloc.start()
    try:
        received = await receive(arriving(), Format.NDJSON, Artifacts.open(str(tmp_path)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (received.bytes, received.rows) == (len(piece) * pieces, 70 * pieces)
    assert received.bytes > 50_000_000
    assert peak < 25_000_000


def test_a_worker_that_was_overtaken_stores_nothing(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path) as live:
        account = live.account()
        import_id = send(account, lines(*({"type": "company", "name": f"C{n}"} for n in range(4))))
        with live.working():
            account.settled(f"/imports/{import_id}")
        importer: Any = Importer(store, Jobs(store), Artifacts.open("memory://"), Numbers(store), batch_rows=2)
        stale = Position(id=import_id, account_id=account.account_id, parts=1, part=0, row=0, done=0)
        with pytest.raises(Lost):
            importer._store_batch(None, stale, [read_row({"type": "company", "name": "Again"})], last=True)
        assert len(account.get("/companies").json()["companies"]) == 4
