"""The client: typed answers, one error class, retries by the catalog, and no effect twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast.http import FileBody
from holdfast.policy import within
from holdfast.store import Store
from holdfast.testing import Faulty, instant
from holdfast.testing.ports import listening_socket
from holdfast_systems.records.client import AsyncRecords, Import, Records, RenderDBError

from .live import Live, lines, running, served


@pytest.fixture
def serving(store: Store, tmp_path: Path) -> Iterator[Live]:
    with running(store, tmp_path, worker=True) as live:
        yield live


@pytest.fixture
def records(serving: Live) -> Iterator[Records]:
    with Records(f"{serving.url}/records", api_key=serving.account().key) as client:
        yield client


def test_the_whole_api_is_there_with_types(records: Records) -> None:
    made = records.create_company("Acme", website="https://acme.example")
    assert made.slots_created == 3
    person = records.create_person(made.company_uid, "Ada", "ada@acme.example")
    other = records.create_person(made.company_uid, "Bob", "bob@acme.example", role="x")
    slot = f"SL-{made.company_uid}-CEO"
    assert records.assign_slot(slot, person.person_uid).status == "assigned"
    with pytest.raises(RenderDBError) as refused:
        records.assign_slot(slot, other.person_uid)
    assert (refused.value.code, refused.value.retryable) == ("SLOT_CONFLICT", False)
    assert refused.value.details["current_occupant"] == person.person_uid
    assert refused.value.request_id
    review = records.assign_slot(slot, other.person_uid, on_conflict="manual_review").review_id
    assert review is not None
    assert [one.review_id for one in records.reviews(status="open")] == [review]
    assert records.approve_review(review).status == "approved"
    assert records.company(made.company_uid).slots[0].person_uid == other.person_uid
    assert records.free_slot(slot).previous_occupant == other.person_uid
    assert records.change_company(made.company_uid, industry="Tools").industry == "Tools"
    assert {one.full_name for one in records.people(company_uid=made.company_uid, page_rows=1)} == {"Ada", "Bob"}
    assert records.person(person.person_uid).email == "ada@acme.example"
    assert records.change_person(person.person_uid, role="Boss").role == "Boss"
    assert records.verify("ada@acme.example").result == "valid"
    for one in (person, other):
        records.remove_person(one.person_uid)
    records.remove_company(made.company_uid)
    with pytest.raises(RenderDBError, match="COMPANY_NOT_FOUND"):
        records.company(made.company_uid)


def test_an_import_tells_of_its_progress(records: Records, tmp_path: Path) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_bytes(lines(*({"type": "company", "name": f"C{n}" if n % 5 else ""} for n in range(20))))
    sent = records.send_import(file)
    told: list[Import] = []
    done = records.wait_import(sent.import_id, progress=told.append, timeout_s=60)
    assert (done.status, done.rows_succeeded, done.rows_failed) == ("complete", 16, 4)
    assert told[-1] == done
    failed = list(records.import_rows(sent.import_id, status="failed"))
    assert [one.row for one in failed] == [1, 6, 11, 16]
    assert {one.error_code for one in failed} == {"VALIDATION_ERROR"}
    assert len(list(records.companies(page_rows=7))) == 16


def test_a_file_is_sent_without_being_read_whole(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_bytes(lines(*({"type": "company", "name": f"C{n} " + "x" * 190} for n in range(5_000))))
    pieces: list[int] = []
    read = FileBody.piece
    monkeypatch.setattr(FileBody, "piece", lambda *given: pieces.append(len(found := read(*given))) or found)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("the whole file is read"))
    sent = records.send_import(file)
    assert sum(pieces) == file.stat().st_size
    assert max(pieces) < file.stat().st_size / 3
    assert records.wait_import(sent.import_id, timeout_s=60).rows_succeeded == 5_000


def test_failing_providers_are_survived(serving: Live, records: Records) -> None:
    serving.http.put("/standins/millionverifier/faults", json={"status": 503}).raise_for_status()
    assert records.verify("a@acme.example", timeout_s=60).provider == "zerobounce"
    serving.http.put("/standins/zerobounce/faults", json={"reset": True}).raise_for_status()
    failed = records.verify("b@acme.example", timeout_s=60)
    assert failed.status == "failed"
    assert failed.error is not None
    assert (failed.error["error_code"], failed.error["retry_after"]) == ("VALIDATION_SERVICE_ERROR", 300)
    for name in ("millionverifier", "zerobounce"):
        serving.http.delete(f"/standins/{name}/faults").raise_for_status()
    assert records.verify("c@acme.example", timeout_s=60).result == "valid"


async def test_coroutines_have_the_same_calls(serving: Live) -> None:
    async with AsyncRecords(f"{serving.url}/records", api_key=serving.account().key) as records:
        made = await records.create_company("Acme")
        assert (await records.company(made.company_uid)).name == "Acme"
        assert [one.company_uid async for one in records.companies()] == [made.company_uid]
        assert (await records.verify("ada@acme.example")).result == "valid"
        sent = await records.send_import(lines({"type": "company", "name": "B"}))
        assert (await records.wait_import(sent.import_id, timeout_s=60)).status == "complete"
        with pytest.raises(RenderDBError) as refused:
            await records.create_person(made.company_uid, "", "nonsense")
        assert (refused.value.code, refused.value.details["total_errors"]) == ("VALIDATION_ERROR", 2)


@pytest.fixture
def behind(store: Store, tmp_path: Path) -> Iterator[tuple[Live, Faulty, str]]:
    """The system behind something that fails on demand."""
    with ExitStack() as stack:
        live = stack.enter_context(running(store, tmp_path))
        faulty = Faulty(live.front)
        listener = listening_socket()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        stack.enter_context(served(faulty, listener))
        yield live, faulty, url


def test_failures_that_pass_are_survived_and_each_write_has_one_effect(behind: tuple[Live, Faulty, str]) -> None:
    live, faulty, url = behind
    with Records(f"{url}/records", api_key=live.account().key) as records, instant() as time:
        for fault in ({"status": 503}, {"reset": True}, {"status": 429, "retry_after": 90}, {"garbage": True}):
            faulty.faults.switch(**fault, times=2)
            assert records.create_company("Acme").status == "created"
        assert 90 <= max(time.waits_s) < 200  # what the API asks for counts, and so does the policy of the code
        faulty.faults.clear()
        assert len(list(records.companies())) == 4


def test_a_reply_that_is_lost_after_the_work_leaves_one_company(store: Store, tmp_path: Path) -> None:
    with running(store, tmp_path) as live:
        lost = Losing(live.front)
        listener = listening_socket()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with served(lost, listener), Records(f"{url}/records", api_key=live.account().key) as records, instant():
            made = records.create_company("Acme")
            assert lost.lost == 1
            assert [one.company_uid for one in records.companies()] == [made.company_uid]


class Losing:
    """Does the work of the first write, and then answers with something else than it said."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.lost = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("method") != "POST" or self.lost:
            return await self._app(scope, receive, send)
        self.lost += 1

        async def nowhere(message: Any) -> None:
            return None

        await self._app(scope, receive, nowhere)
        headers = [(b"content-length", b"1000")]
        return await send({"type": "http.response.start", "status": 201, "headers": headers})


def test_what_cannot_help_is_not_tried_again(behind: tuple[Live, Faulty, str]) -> None:
    _, _, url = behind
    unknown = Records(f"{url}/records", api_key="rdb_" + "x" * 32)
    with unknown as records, instant() as time, pytest.raises(RenderDBError) as refused:
        records.company("CO-20240101-000001")
    assert (refused.value.code, refused.value.status, refused.value.retryable) == ("INVALID_API_KEY", 401, False)
    assert time.waits_s == []
    assert refused.value.documentation_url


def test_a_deadline_of_the_caller_ends_the_waiting(behind: tuple[Live, Faulty, str]) -> None:
    live, faulty, url = behind
    faulty.faults.switch(status=503, retry_after=60)
    client = Records(f"{url}/records", api_key=live.account().key)
    with client as records, within(5), pytest.raises(RenderDBError) as refused:
        records.company("CO-20240101-000001")
    assert (refused.value.retryable, refused.value.retry_after_s) == (True, 60.0)


def test_threads_may_share_a_client(records: Records) -> None:
    made: list[Any] = []
    threads = [threading.Thread(target=lambda: made.append(records.create_company("Acme"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({one.company_uid for one in made}) == 8
