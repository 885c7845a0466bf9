"""Refused webhooks are shown to operators: why, from where, how often; bounded, and for all processes together."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast_systems.credentials import refusal_log, tables
from holdfast_systems.credentials.refusal_log import GATHERED_MAX, ROWS_MAX, SOMEWHERE, Refusal, RefusalLog, refusals

from .live import OPERATOR, PATIENCE_S, WEBHOOK, Live, created, signature

HTML = {**OPERATOR, "accept": "text/html"}
PLATFORM = "gotong_royong"


def told(live: Live) -> list[dict[str, Any]]:
    return list(live.ask("GET", f"/engine/v1/platforms/{PLATFORM}/refusals").json()["refusals"])


def count(live: Live) -> int:
    return sum(one["count"] for one in told(live))


def test_signature_failures_and_other_refusals_are_told_by_the_api_and_the_page(live: Live) -> None:
    for _ in range(3):
        assert live.send(created("evt_1"), secret="wrong").status_code == 401
    nameless = created("evt_2")
    del nameless["actor"]["username"]
    live.send(nameless)
    live.send(b"{")
    live.http.post(WEBHOOK, content=b"{}", headers={"x-gr-signature": "nonsense"})
    large = b" " * 1_048_577
    live.http.post(WEBHOOK, content=large, headers=signature(large))
    live.send(created("evt_good"))
    wait_until(lambda: count(live) == 7, within_s=PATIENCE_S, what="all are written down")
    found = {one["code"]: one for one in told(live)}
    assert {code for code, one in found.items() if one["signature"]} == {"UNAUTHORIZED", "INVALID_SIGNATURE_FORMAT"}
    assert (found["UNAUTHORIZED"]["count"], found["UNAUTHORIZED"]["address"]) == (3, "127.0.0.1")
    assert found["INVALID_PAYLOAD"]["field"] == "actor.username"
    assert {"INVALID_JSON", "PAYLOAD_TOO_LARGE"} <= set(found)
    text = live.http.get("/engine/", headers=HTML).text
    forged, _, rest = text.partition(">Signature failures</h2>")[2].partition(">Refused webhooks</h2>")
    assert ("Signature verification failed" in forged, "INVALID_PAYLOAD" in forged) == (True, False)
    assert ("Missing required field: actor.username" in rest, "INVALID_SIGNATURE_FORMAT" in rest) == (True, False)


def test_an_event_opens_to_what_it_came_to(live: Live) -> None:
    live.send(created("evt_1", "contrib_1"))
    overview = live.http.get("/engine/", headers=HTML).text
    assert f'href="events/{PLATFORM}/evt_1"' in overview
    text = live.http.get(f"/engine/events/{PLATFORM}/evt_1", headers=HTML).text
    assert all(words in text for words in ("contrib_1", f'href="../../people/{PLATFORM}/user123"', "+50"))
    for path in (f"{PLATFORM}/evt_none", "nowhere/evt_1", "x"):
        assert live.http.get(f"/engine/events/{path}", headers=HTML).status_code == 404


@pytest.fixture
def log(store: Store) -> RefusalLog:
    tables.prepare(store)
    return RefusalLog(store)


def rows(store: Store) -> list[dict[str, Any]]:
    return store.atomic(lambda tx: refusals(tx, PLATFORM), write=False)


def test_many_processes_count_together_and_nothing_twice(store: Store, log: RefusalLog) -> None:
    logs = [log, RefusalLog(store), RefusalLog(store)]

    def tell(one: RefusalLog) -> None:
        for number in range(30):
            one.note(Refusal(PLATFORM, "UNAUTHORIZED", "", f"192.0.2.{number % 3}"), "no")
            one.write()

    threads = [threading.Thread(target=tell, args=(one,)) for one in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((one["address"], one["count"]) for one in rows(store)) == [
        (f"192.0.2.{number}", 30) for number in range(3)
    ]


def test_only_the_latest_are_kept_however_many_addresses_there_are(store: Store, log: RefusalLog) -> None:
    for turn in range(3):
        for number in range(ROWS_MAX - 20):
            log.note(Refusal(PLATFORM, "UNAUTHORIZED", "", f"{turn}.{number}"), "no")
        log.write()
    assert ROWS_MAX >= len(rows(store)) >= ROWS_MAX - 20
    assert {one["address"].partition(".")[0] for one in rows(store)} >= {"2"}


def test_memory_is_bounded_while_the_store_does_not_answer(
    store: Store, log: RefusalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.catalog.core import CONNECTION_REFUSED

    def away(*_: Any, **__: Any) -> None:
        raise CONNECTION_REFUSED()

    total = GATHERED_MAX + 50
    with monkeypatch.context() as patch:
        patch.setattr(store, "atomic", away)
        for number in range(total):
            log.note(Refusal(PLATFORM, "UNAUTHORIZED", "", str(number)), "no")
        with pytest.raises(Failure):
            log.write()
    monkeypatch.setattr(refusal_log, "ROWS_MAX", 10 * GATHERED_MAX)
    log.write()
    found = {one["address"]: one["count"] for one in rows(store)}
    assert sum(found.values()) == total, "none is lost"
    assert found[SOMEWHERE] == 50
