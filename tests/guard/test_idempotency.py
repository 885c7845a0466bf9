"""Idempotency keys: the same request, however often it comes, has one effect and one answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast import Catalog, Failure, Secret
from holdfast.base import Limits, SecretLeak, decode, replaced, world
from holdfast.catalog import Dialect
from holdfast.catalog.durable import COMMIT_UNKNOWN
from holdfast.guard import key_ledger
from holdfast.guard.idempotency import (
    Answer,
    AnswerInvalid,
    InProgress,
    Keys,
    Mismatch,
    Replay,
    Started,
    request_hash,
)
from holdfast.guard.key_ledger import Claim
from holdfast.policy import within
from holdfast.store import Store
from holdfast.testing import instant

SHOP = Catalog("shop")
DECLINED = SHOP.fault("CARD_DECLINED", status=402, says="The card was declined: {reason}.")
BANK_SILENT = SHOP.fault("BANK_SILENT", status=503, says="The bank is silent.", retry=True)
FINAL_OUTAGE = SHOP.fault("BANK_GONE", status=503, says="The bank is gone.", retry=True, replayed=True)
FLEETING = SHOP.fault("OUT_OF_STOCK", status=409, says="Sold out for now.", replayed=False)

MADE = Answer(
    201,
    (("Content-Type", "application/json"), ("Location", "/instances/inst_7")),
    b'{"instanceId": "inst_7"}\n',
    {"instanceId": "inst_7", "ledgerEntryId": "led_9"},
)


class Counted:
    """Work that counts how often it is done."""

    def __init__(self, outcome: Answer | BaseException = MADE) -> None:
        self.times = 0
        self.outcome = outcome

    def __call__(self, started: Started) -> Answer:
        self.times += 1
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def begun(keys: Keys, key: str = "k", *, request: object = "r", tenant: str = "") -> Any:
    return keys.begin(tenant=tenant, operation="charge", key=key, request_hash=request_hash(body=request))


def journal(store: Store, key: str = "k") -> list[tuple[str, str | None, str | None]]:
    subject = f'["","charge","{key}"]'
    rows = store.atomic(lambda tx: tx.records("job.history", id=subject, after=0, count=100), write=False)
    return [(row["verb"], row["code"], row["reason"]) for row in rows]


# -- replay --------------------------------------------------------------------------------------------------------


def test_a_replay_is_byte_equal_and_marked(store: Store) -> None:
    keys, work = Keys(store), Counted()
    first = keys.once("charge", "k", {"amount": 5}, work)
    again = keys.once("charge", "k", {"amount": 5}, work)
    assert (first.replayed, again.replayed, work.times) == (False, True, 1)
    assert again.answer == first.answer == MADE
    assert ("Idempotent-Replayed", "true") in again.headers
    assert ("Idempotent-Replayed", "true") not in first.headers


@pytest.mark.parametrize("body", [b"", b"\x00\xff\xfe", bytes(range(256)) * 8], ids=["empty", "not text", "all bytes"])
def test_a_body_comes_back_as_it_was(store: Store, body: bytes) -> None:
    keys = Keys(store)
    keys.once("charge", "k", b"", Counted(Answer(200, body=body)))
    assert keys.once("charge", "k", b"", Counted()).answer.body == body


def test_only_headers_on_the_list_are_kept(store: Store) -> None:
    answer = Answer(200, (("ETag", '"1"'), ("Set-Cookie", "session=1"), ("X-Request-Id", "r"), ("Link", "</a>")))
    keys = Keys(store, headers_kept=frozenset({"etag", "link"}))
    assert keys.once("charge", "k", 1, Counted(answer)).answer.headers == answer.headers
    assert keys.once("charge", "k", 1, Counted()).answer.headers == (("ETag", '"1"'), ("Link", "</a>"))


def test_a_final_failure_is_an_answer_and_stays_the_same(store: Store) -> None:
    keys, work = Keys(store, dialect=Dialect.FLAT), Counted(DECLINED(reason="expired"))
    first = keys.once("charge", "k", 1, work)
    again = keys.once("charge", "k", 1, work)
    assert work.times == 1
    assert first.failure is work.outcome
    assert (first.answer, first.replayed, again.replayed) == (again.answer, False, True)
    assert again.answer.status == 402
    assert decode(again.answer.body)["code"] == "CARD_DECLINED"
    assert journal(store) == [("key.finished", "CARD_DECLINED", None)]


@pytest.mark.parametrize("failure", [BANK_SILENT(retry_after_s=1), FLEETING(), COMMIT_UNKNOWN()], ids=repr)
def test_a_failure_that_is_no_answer_runs_again(store: Store, failure: Failure) -> None:
    keys, work = Keys(store), Counted(failure)
    with pytest.raises(Failure) as caught:
        keys.once("charge", "k", 1, work)
    assert caught.value is failure
    work.outcome = MADE
    assert not keys.once("charge", "k", 1, work).replayed
    assert work.times == 2
    assert journal(store)[:2] == [("key.released", failure.code, None), ("key.begun_again", None, "released")]


def test_a_fault_may_say_that_its_failures_are_replayed_though_they_are_retried(store: Store) -> None:
    keys, work = Keys(store), Counted(FINAL_OUTAGE())
    assert keys.once("charge", "k", 1, work).answer.status == 503
    assert keys.once("charge", "k", 1, work).replayed
    assert work.times == 1


def test_an_exception_that_nobody_knows_is_raised_and_runs_again(store: Store) -> None:
    keys, work = Keys(store), Counted(ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        keys.once("charge", "k", 1, work)
    work.outcome = MADE
    assert keys.once("charge", "k", 1, work).answer == MADE


def test_an_undeclared_exception_that_is_final_is_raised_once_and_then_the_answer(store: Store) -> None:
    import ssl

    keys, work = Keys(store), Counted(ssl.SSLCertVerificationError("expired"))
    with pytest.raises(ssl.SSLCertVerificationError):
        keys.once("charge", "k", 1, work)
    again = keys.once("charge", "k", 1, work)
    assert (again.answer.status, again.replayed, work.times) == (502, True, 1)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_gives_the_key_back(store: Store, interruption: type[BaseException]) -> None:
    keys = Keys(store)
    with pytest.raises(interruption):
        keys.once("charge", "k", 1, Counted(interruption()))
    assert isinstance(begun(keys, request=1), Started)


@pytest.mark.parametrize(
    ("unfit", "cause"),
    [
        (Answer(200, body=b"x" * (Limits().answer_bytes_max + 1)), AnswerInvalid),
        (Answer(200, resources={"token": Secret("s3cr3t")}), SecretLeak),  # type: ignore[dict-item]
        (Answer(200, (("Location", Secret("s3cr3t")),)), SecretLeak),  # type: ignore[arg-type]
    ],
    ids=["too large", "secret resource", "secret header"],
)
def test_an_answer_that_cannot_be_kept_does_not_run_the_work_again(
    store: Store, unfit: Any, cause: type[Exception]
) -> None:
    keys, work = Keys(store), Counted(unfit)
    with pytest.raises(Failure, match="INTERNAL_ERROR") as caught:
        keys.once("charge", "k", 1, work)
    assert isinstance(caught.value.__cause__, cause)
    again = keys.once("charge", "k", 1, work)
    assert (again.answer.status, work.times) == (500, 1)
    assert b"s3cr3t" not in again.answer.body


def test_work_that_returns_no_answer_is_told_what_to_return_and_does_not_run_again(store: Store) -> None:
    keys, work = Keys(store), Counted({"id": 7})  # type: ignore[arg-type]
    with pytest.raises(TypeError) as refused:
        keys.once("charge", "k", 1, work)
    assert str(refused.value) == "the work returned dict; return an Answer, such as Answer.of_json(...)"
    again = keys.once("charge", "k", 1, work)
    assert (again.answer.status, work.times) == (500, 1)


def test_a_connection_is_no_transaction_to_finish_with(store: Store) -> None:
    keys = Keys(store)
    started = keys.begin(operation="charge", key="k", request_hash="h")
    assert isinstance(started, Started)
    with pytest.raises(TypeError, match=r"^tx: give store.join\(connection\), not the connection itself$"):
        keys.finish(started, Answer(200), tx=object())  # type: ignore[arg-type]
    assert not started.finished


def test_a_body_of_the_largest_size_is_kept(store: Store) -> None:
    keys, largest = Keys(store), b"x" * Limits().answer_bytes_max
    keys.once("charge", "k", 1, Counted(Answer(200, body=largest)))
    assert keys.once("charge", "k", 1, Counted()).answer.body == largest


# -- the same request ------------------------------------------------------------------------------------------------


def test_another_payload_under_the_same_key_is_refused(store: Store) -> None:
    keys, work = Keys(store), Counted()
    keys.once("charge", "k", {"amount": 5}, work)
    with pytest.raises(Failure) as caught:
        keys.once("charge", "k", {"amount": 6}, work)
    assert (caught.value.code, caught.value.status, work.times) == ("IDEMPOTENCY_PAYLOAD_MISMATCH", 409, 1)


def test_another_payload_is_refused_while_the_first_is_worked_on_and_after_its_holder_died(
    virtual_store: Store,
) -> None:
    with instant() as time:
        keys = Keys(virtual_store, lease_s=10)
        assert isinstance(begun(keys, request=1), Started)
        assert begun(keys, request=2) == Mismatch()
        time.advance(11)
        assert begun(keys, request=2) == Mismatch()


@pytest.mark.parametrize("other", [{"tenant": "b"}, {"operation": "refund"}, {"key": "k2"}], ids=str)
def test_the_same_key_of_another_tenant_or_operation_is_another_key(store: Store, other: dict[str, str]) -> None:
    keys, work = Keys(store), Counted()
    here = {"operation": "charge", "key": "k", "tenant": "a"}
    for scope, request in ((here, 1), (here | other, 2), (here, 1), (here | other, 2)):
        keys.once(scope["operation"], scope["key"], request, work, tenant=scope["tenant"])
    assert work.times == 2


# -- holders -------------------------------------------------------------------------------------------------------


def test_a_twin_is_told_when_to_ask_again(store: Store) -> None:
    keys = Keys(store, lease_s=30, retry_after_s=2.0)
    begun(keys, request=1)
    with pytest.raises(Failure) as caught:
        keys.once("charge", "k", 1, Counted())
    assert (caught.value.code, caught.value.status) == ("IDEMPOTENCY_IN_PROGRESS", 409)
    assert caught.value.retry_after_s == 2.0


def test_a_twin_is_not_told_to_wait_longer_than_the_lease(virtual_store: Store) -> None:
    with instant() as time:
        keys = Keys(virtual_store, lease_s=10, retry_after_s=60)
        begun(keys)
        time.advance(7)
        assert begun(keys) == InProgress(3.0)


def test_a_twin_that_waits_gets_the_first_ones_answer(virtual_store: Store) -> None:
    with instant() as time:
        keys = Keys(virtual_store, lease_s=60)
        started = begun(keys)

        def wait(seconds: float) -> None:
            time.wait(seconds)
            if len(time.waits_s) == 3:
                keys.finish(started, MADE)

        with replaced(replace(world(), sleep=wait)):
            answered = keys.once("charge", "k", "r", Counted(), wait_s=30)
        assert (answered.answer, answered.replayed) == (MADE, True)
        assert len(time.waits_s) == 3


def test_a_twin_waits_no_longer_than_asked_or_than_its_deadline_allows(virtual_store: Store) -> None:
    keys = Keys(virtual_store, lease_s=600)
    for wait_s, deadline_s, waited_s in ((5.0, 60.0, 5.0), (60.0, 3.0, 3.0)):
        with instant() as time, within(deadline_s):
            begun(keys)
            with pytest.raises(Failure, match="IDEMPOTENCY_IN_PROGRESS"):
                keys.once("charge", "k", "r", Counted(), wait_s=wait_s)
            assert time.passed_s == pytest.approx(waited_s)


def test_a_twin_that_waits_takes_over_when_the_holder_dies(virtual_store: Store) -> None:
    with instant() as time:
        keys, work = Keys(virtual_store, lease_s=10), Counted()
        begun(keys)
        assert not keys.once("charge", "k", "r", work, wait_s=60).replayed
        assert 10 <= time.passed_s <= 12
        assert journal(virtual_store)[0] == ("key.begun_again", None, "lapsed")


def test_renewing_keeps_the_key_of_slow_work(virtual_store: Store) -> None:
    with instant() as time:
        keys = Keys(virtual_store, lease_s=10, expires_s=15)
        started = begun(keys)
        for _ in range(5):
            time.advance(9)
            keys.renew(started)
            assert isinstance(begun(keys), InProgress)
            assert keys.prune() == 0
        keys.finish(started, MADE)
        assert begun(keys) == Replay(MADE)


def test_a_zombie_can_neither_finish_nor_renew_nor_release(virtual_store: Store) -> None:
    with instant() as time:
        keys = Keys(virtual_store, lease_s=10)
        zombie = begun(keys)
        time.advance(10)
        holder = begun(keys)
        assert holder.token != zombie.token
        for act in (lambda: keys.finish(zombie, MADE), lambda: keys.renew(zombie)):
            with pytest.raises(Failure, match="IDEMPOTENCY_LOST"):
                act()
        assert zombie.lost
        assert not keys.release(zombie)
        keys.finish(holder, Answer(200, body=b"mine"))
        with pytest.raises(Failure, match="IDEMPOTENCY_LOST"):
            keys.finish(zombie, MADE)
        assert begun(keys) == Replay(Answer(200, body=b"mine"))
        assert [verb for verb, _, _ in journal(virtual_store)].count("key.lost") == 2


def test_work_that_lost_its_key_is_refused_and_the_other_answer_stands(virtual_store: Store) -> None:
    with instant() as time:
        keys = Keys(virtual_store, lease_s=600)  # its real beats are far apart

        def slow(started: Started) -> Answer:
            time.advance(601)
            keys.finish(begun(keys), MADE)
            return Answer(200, body=b"late")

        with pytest.raises(Failure, match="IDEMPOTENCY_LOST"):
            keys.once("charge", "k", "r", slow)
        assert begun(keys) == Replay(MADE)


def test_a_lease_that_ran_out_while_nobody_came_is_still_the_holders(virtual_store: Store) -> None:
    with instant() as time:
        keys = Keys(virtual_store, lease_s=10)
        started = begun(keys)
        time.advance(100)
        keys.finish(started, MADE)
        assert begun(keys) == Replay(MADE)


def test_a_released_key_is_nobodys(store: Store) -> None:
    keys = Keys(store)
    started = begun(keys)
    assert keys.release(started)
    assert not keys.release(started)
    with pytest.raises(Failure, match="IDEMPOTENCY_LOST"):
        keys.finish(started, MADE)
    assert isinstance(begun(keys), Started)


def test_the_same_answer_again_is_stored_and_another_is_refused(store: Store) -> None:
    keys = Keys(store)
    started = begun(keys)
    keys.finish(started, MADE)
    keys.finish(started, MADE)
    with pytest.raises(Failure, match="IDEMPOTENCY_LOST"):
        keys.finish(started, Answer(500))
    assert begun(keys) == Replay(MADE)
    assert [verb for verb, _, _ in journal(store)] == ["key.finished", "key.lost"]


def test_a_claim_whose_reply_was_lost_is_recognised(store: Store) -> None:
    claim = Claim(
        tenant="", operation="charge", key="k", request_hash="h", token=7, lease_us=10_000_000, expires_us=10_000_000
    )
    first, again = (store.atomic(lambda tx: key_ledger.begin(tx, claim)) for _ in range(2))
    assert isinstance(first, Started)
    assert isinstance(again, Started)
    assert again.first_seen_us == first.first_seen_us
    assert journal(store) == []
