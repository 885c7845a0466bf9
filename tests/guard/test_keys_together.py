"""Keys that are begun and finished together: each caller has its own verdict, and there are few commits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from holdfast.catalog import Failure
from holdfast.catalog.context import enriched
from holdfast.catalog.core import DATABASE_CONNECTION_ERROR
from holdfast.guard import key_batches
from holdfast.guard.idempotency import Answer, Begun, InProgress, Keys, Mismatch, Replay, Started
from holdfast.guard.key_batches import Finish, item, row_of
from holdfast.guard.key_ledger import Claim, stored
from holdfast.store import Store

CALLERS = 32
ANSWER = Answer(201, (("content-type", "text/plain"),), b"made", {"order": "o-1"})


def begin(keys: Keys, key: str, *, tenant: str = "t", request: str = "r") -> Begun:
    return keys.begin(tenant=tenant, operation="pay", key=key, request_hash=request)


def started(keys: Keys, key: str, *, tenant: str = "t") -> Started:
    begun = begin(keys, key, tenant=tenant)
    assert isinstance(begun, Started)
    return begun


def journal(store: Store, key: str) -> list[str]:
    with store.database.transaction(write=False) as execute:
        rows = execute("SELECT subject, verb FROM holdfast_journal ORDER BY id", {}).fetchall()
    return [verb for subject, verb in rows if f'"{key}"' in subject]


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each transaction."""
    made: list[int] = []

    def count(way: str) -> None:
        original = getattr(Store, way)

        def counted(self: Store, *args: Any, **kwargs: Any) -> Any:
            made.append(1)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(Store, way, counted)

    for way in ("atomic", "prepare_put", "many_rows", "many_rows_async"):
        count(way)
    return made


def test_each_claim_of_a_batch_has_the_verdict_that_it_would_have_alone(store: Store) -> None:
    keys = Keys(store)
    keys.finish(started(keys, "answered"), ANSWER)
    started(keys, "held")
    keys.release(started(keys, "released"))
    asked = [("new", "r"), ("answered", "r"), ("answered-2", "r"), ("held", "r"), ("released", "r"), ("other", "r")]
    keys.finish(started(keys, "answered-2"), ANSWER)
    claims = [keys._claim(tenant="t", operation="pay", key=key, request_hash=request) for key, request in asked]
    claims.append(keys._claim(tenant="t", operation="pay", key="answered", request_hash="another"))
    claims.append(keys._claim(tenant="u", operation="pay", key="new", request_hash="r"))
    twin = keys._claim(tenant="t", operation="pay", key="new", request_hash="r")
    verdicts = keys._together.write_all([*claims, twin])
    assert [type(verdict) for verdict in verdicts] == [
        *(Started, Replay, Replay, InProgress, Started, Started),
        Mismatch,
        Started,
        InProgress,
    ]
    assert [verdict.token for verdict in verdicts if isinstance(verdict, Started)] == [
        claim.token for claim, verdict in zip(claims, verdicts, strict=False) if isinstance(verdict, Started)
    ]
    assert all(verdict.answer == ANSWER for verdict in verdicts if isinstance(verdict, Replay))
    assert journal(store, "released") == ["key.released", "key.begun_again"]
    [again, *_] = keys._together.write_all(claims)
    assert isinstance(again, Started)
    assert again.token == claims[0].token, "a batch whose reply was lost recognises its own work"
    assert journal(store, "released") == ["key.released", "key.begun_again"]


@pytest.mark.parametrize("body", [b"made", b"\0" * (key_batches.GROUPED_BYTES_MAX + 1)], ids=["small", "large"])
def test_whoever_comes_too_late_in_a_batch_concerns_nobody_else(store: Store, body: bytes) -> None:
    keys = Keys(store)
    held = [started(keys, key) for key in ("a", "b", "c")] + [started(keys, "b", tenant="u")]
    assert keys.release(held[1])
    taken_over = started(keys, "b")
    kept = stored(Answer(200, (), body), frozenset())
    finishes = [Finish(one, kept, None) for one in held]
    assert keys._together.write_all(finishes) == [True, False, True, True]
    assert journal(store, "a") == ["key.finished"]
    assert [verb for verb in journal(store, "b") if verb == "key.lost"] == ["key.lost"]
    assert keys._together.write_all([finishes[0], finishes[2]]) == [True, True], "the same answer again is stored"
    replay = begin(keys, "a")
    assert isinstance(replay, Replay)
    assert replay.answer.body == body
    keys.finish(taken_over, ANSWER)


def test_what_an_answer_does_not_have_is_null(store: Store) -> None:
    """A batch is given empty texts instead."""
    keys = Keys(store)
    held = [started(keys, key) for key in ("bare", "full")]
    bare, full = (stored(Answer(204, (), b"", ids), frozenset()) for ids in ({}, {"order": "o-1"}))
    finishes = [Finish(held[0], bare, None), Finish(held[1], full, "NO_STOCK")]
    claim = keys._claim(tenant="t", operation="pay", key="new", request_hash="r")
    assert [type(told) for told in keys._together.write_all([*finishes, claim])] == [bool, bool, Started]
    with store.database.transaction(write=False) as execute:
        rows = execute("SELECT key, resources, lease_until_us IS NULL FROM holdfast_idempotency", {}).fetchall()
        noted = execute("SELECT code, reason FROM holdfast_journal ORDER BY id", {}).fetchall()
        (new,) = execute(
            "SELECT status, headers, body, resources FROM holdfast_idempotency WHERE key = 'new'", {}
        ).fetchall()
    assert sorted(map(tuple, rows)) == [("bare", None, True), ("full", '{"order":"o-1"}', True), ("new", None, False)]
    assert sorted(map(tuple, noted), key=str) == [("NO_STOCK", None), (None, None)]
    assert tuple(new) == (None, None, None, None)
    replay = begin(keys, "bare")
    assert isinstance(replay, Replay)
    assert replay.answer == Answer(204, (), b"")


def test_sqlite_is_given_nothing_that_its_driver_would_ask_to_adapt() -> None:
    """To ask costs more than to bind, and nobody else can run meanwhile."""
    claim = Claim("t", "pay", "k", 7, "r", 1, 2)
    writes = [claim, Finish(claim.started(5), stored(ANSWER, frozenset()), None)]
    assert {type(value) for write in writes for value in row_of(item(write, bytearray))} == {int, str, bytearray}


def test_a_key_that_was_there_before_costs_the_others_of_its_batch_little(store: Store, commits: list[int]) -> None:
    keys = Keys(store)
    keys.finish(started(keys, "answered"), ANSWER)
    kept = stored(ANSWER, frozenset())
    finishes = [Finish(started(keys, f"held-{number}"), kept, None) for number in range(CALLERS)]
    asked = ["answered", *(f"new-{number}" for number in range(CALLERS))]
    claims = [keys._claim(tenant="t", operation="pay", key=key, request_hash="r") for key in asked]
    commits.clear()
    replay, *begun = keys._together.write_all([*claims, *finishes])
    assert isinstance(replay, Replay)
    assert [type(one) for one in begun] == [Started] * CALLERS + [bool] * CALLERS
    assert all(begun[CALLERS:])
    assert len(commits) <= 3


def test_threads_that_come_together_share_commits(store: Store, commits: list[int]) -> None:
    keys, gate = Keys(store), threading.Barrier(CALLERS)
    found: list[Started] = []

    def call(number: int) -> None:
        gate.wait()
        one = started(keys, f"k-{number}")
        found.append(one)
        keys.finish(one, ANSWER)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len({one.token for one in found}) == CALLERS
    assert all(one.finished for one in found)
    assert len(commits) < 2 * CALLERS
    assert all(isinstance(begin(keys, f"k-{number}"), Replay) for number in range(CALLERS))


async def test_coroutines_that_come_together_share_commits(store: Store, commits: list[int]) -> None:
    keys = Keys(store)

    async def call(number: int) -> Started:
        one = await keys.begin_async(tenant="t", operation="pay", key=f"k-{number}", request_hash="r")
        assert isinstance(one, Started)
        await keys.finish_async(one, ANSWER)
        return one

    found = await asyncio.gather(*(call(number) for number in range(CALLERS)))
    assert len({one.token for one in found}) == CALLERS
    assert all(one.finished for one in found)
    assert len(commits) <= CALLERS // 2
    assert all(isinstance(begin(keys, f"k-{number}"), Replay) for number in range(CALLERS))


async def test_of_many_twins_one_begins(store: Store) -> None:
    keys = Keys(store)
    asked = {"tenant": "t", "operation": "pay", "key": "k", "request_hash": "r"}
    begun = await asyncio.gather(*(keys.begin_async(**asked) for _ in range(CALLERS)))
    assert sorted(type(one).__name__ for one in begun) == ["InProgress"] * (CALLERS - 1) + ["Started"]


async def test_a_failure_of_a_batch_is_told_to_each_as_one_of_its_own_request(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(store)

    def away(*_: object, **__: object) -> None:
        raise DATABASE_CONNECTION_ERROR()

    async def not_here(*_: object, **__: object) -> None:
        return None

    for way in ("atomic", "many_rows"):
        monkeypatch.setattr(Store, way, away)
    monkeypatch.setattr(Store, "prepare_put", lambda *_, **__: away)
    monkeypatch.setattr(Store, "many_rows_async", not_here)

    async def call(number: int) -> Failure:
        with enriched(request_id=f"req_{number}"), pytest.raises(Failure) as told:
            await keys.begin_async(tenant="t", operation="pay", key=f"k-{number}", request_hash="r")
        return told.value

    failures = await asyncio.gather(*(call(number) for number in range(CALLERS)))
    assert {failure.code for failure in failures} == {"DATABASE_CONNECTION_ERROR"}
    assert [failure.context.request_id for failure in failures] == [f"req_{number}" for number in range(CALLERS)]
    assert len({id(failure) for failure in failures}) == CALLERS
