"""A failure tells the person one thing and the log another, and loses nothing on its way."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import Limits, Private, Secret, World, plain, replaced
from holdfast.catalog import Blame, Catalog, Context, Failure, Fault, enriched
from holdfast.catalog.core import NETWORK_TIMEOUT
from holdfast.policy import Retry

errors = Catalog("failure-tests")
SILENT = errors.fault(
    "BANK_SILENT",
    status=503,
    says="The bank did not answer about {charge}.",
    technical="no reply from {host} about {charge}",
    retry=Retry(when=lambda failure: failure.details.get("again", True)),
)


def saying(sentence: str, **details: Any) -> str:
    return Failure(SILENT, sentence, details=details).message


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError("no text")


# -- what the person reads ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "details", "message"),
    [
        ("No facts.", {"a": 1}, "No facts."),
        ("{a} and {b}", {"a": 1, "b": "two"}, "1 and two"),
        ("{a} and {missing}", {"a": 1}, "1 and …"),
        ("{a", {"a": 1}, "{a"),
        ("a} {a} {", {"a": 1}, "a} 1 {"),
        ("{} {0} {a b}", {"a": 1}, "{} {0} {a b}"),
        ('{"json": {a}}', {"a": 1}, '{"json": 1}'),
        ("{{a}}", {"a": 1}, "{1}"),
        ("{ä_1}", {"ä_1": "ok"}, "ok"),
        ("{a}", {"a": "{b}", "b": "twice"}, "{b}"),
        ("{a}", {"a": None}, "None"),
        ("{a}", {"a": Secret("hunter2")}, "***"),
        ("{a}", {"a": ["x", Secret("hunter2")]}, "['x', ***]"),
        ("{a}", {"a": Private("db-7")}, "…"),
        ("{a}", {"a": [Private("db-7")]}, "[Private(…)]"),
        ("{a}", {"a": Unspeakable()}, "<Unspeakable>"),
    ],
)
def test_a_sentence_is_filled_from_the_details(sentence: str, details: dict[str, Any], message: str) -> None:
    assert saying(sentence, **details) == message


@pytest.mark.parametrize(
    "sentence",
    [
        "{key._value}",
        "{key.reveal}",
        "{key.__class__}",
        "{key!r}",
        "{n:>999999999}",
        "{items[0]}",
    ],
)
def test_a_sentence_from_outside_cannot_reach_into_the_details(sentence: str) -> None:
    assert saying(sentence, key=Secret("hunter2"), n=1, items=["x"]) == sentence


@given(st.text(), st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers() | st.none(), max_size=3))
def test_no_sentence_and_no_detail_make_a_message_fail(sentence: str, details: dict[str, Any]) -> None:
    failure = Failure(SILENT, sentence, details=details)
    assert isinstance(failure.message, str)
    assert str(failure).startswith("BANK_SILENT: ")
    assert isinstance(failure.technical, str)


def test_messages_are_bounded() -> None:
    with replaced(World(limits=Limits(message_chars_max=10))):
        failure = SILENT("x" * 50)
        failure.__cause__ = ValueError("y" * 50)
        assert failure.message == "x" * 10
        assert len(failure.technical) == 10


def test_an_empty_sentence_of_its_own_is_still_its_own() -> None:
    assert SILENT("").message == ""


# -- what the log reads -------------------------------------------------------------------------------------------


def test_private_facts_are_in_the_log_and_secrets_nowhere() -> None:
    failure = SILENT(charge="c1", host=Private("bank-7.internal"))
    assert failure.technical == "no reply from bank-7.internal about c1"
    assert failure.message == "The bank did not answer about c1."
    assert SILENT(charge="c1", host=Private(Secret("hunter2"))).technical == "no reply from *** about c1"
    assert SILENT(charge="c1", host=Secret("hunter2")).technical == "no reply from *** about c1"


def test_without_a_technical_line_the_log_reads_what_the_person_reads() -> None:
    fault = errors.fault("PLAIN", status=500, says="Something about {a}.")
    assert fault(a=1).technical == "Something about 1."


def ask_the_bank() -> None:
    try:
        raise ConnectionResetError("peer went away")
    except ConnectionResetError as lost:
        raise SILENT(charge="c1", host="bank") from lost


def test_the_cause_is_in_the_log_and_not_in_the_message() -> None:
    with pytest.raises(Failure) as caught:
        ask_the_bank()
    assert caught.value.technical == "no reply from bank about c1 (ConnectionResetError: peer went away)"
    assert "peer" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ConnectionResetError)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_a_cause_without_text_does_not_silence_the_log() -> None:
    failure = SILENT(charge="c1", host="bank")
    failure.__cause__ = Mute()
    assert failure.technical == "no reply from bank about c1 (Mute: <Mute>)"


# -- what it carries ----------------------------------------------------------------------------------------------


def test_a_failure_takes_the_context_and_the_moment_in_which_it_is_made() -> None:
    with replaced(World(wall_us=lambda: 42)), enriched(request_id="req_1"):
        failure = SILENT.occur()
    assert failure.context.request_id == "req_1"
    assert failure.at_us == 42
    assert SILENT.occur().context == Context()


def test_a_context_that_is_given_wins_over_the_one_in_force() -> None:
    with enriched(request_id="req_1"):
        assert Failure(SILENT, context=Context(account_id="a")).context == Context(account_id="a")


def test_what_the_fault_declares_can_be_asked_of_the_failure() -> None:
    failure = SILENT.occur()
    assert (failure.code, failure.status, failure.blame) == ("BANK_SILENT", 503, Blame.UPSTREAM)
    assert failure.details == {}
    assert failure.retry_after_s is None
    assert Failure(fault=SILENT).code == "BANK_SILENT"


def test_its_text_and_its_form_are_for_people() -> None:
    assert str(SILENT(charge="c1")) == "BANK_SILENT: The bank did not answer about c1."
    assert repr(SILENT(charge=Secret("hunter2"))) == "<Failure BANK_SILENT 503>"


class Capricious:
    """A rule that is not the policy's own."""

    def allows(self, failure: Failure) -> bool:
        return failure.details.get("mood") == "good"


@pytest.mark.parametrize(
    ("rule", "details", "retryable"),
    [
        (False, {}, False),
        (True, {}, True),
        (Retry(), {}, True),
        (Retry(attempts=1), {}, False),
        (Retry(when=lambda failure: failure.details["same"]), {"same": True}, True),
        (Retry(when=lambda failure: failure.details["same"]), {"same": False}, False),
        (Capricious(), {"mood": "good"}, True),
        (Capricious(), {"mood": "bad"}, False),
    ],
)
def test_whether_trying_again_may_help_is_for_the_rule_to_say(rule: Any, details: Any, retryable: bool) -> None:
    fault = Fault(code="A", status=500, says="a", blame=Blame.SERVER, retry=rule)
    assert fault(**details).retryable is retryable


# -- copies -------------------------------------------------------------------------------------------------------


def noted() -> Failure:
    with replaced(World(wall_us=lambda: 42)), enriched(request_id="req_1"):
        failure = SILENT("About {charge}.", retry_after_s=7.5, charge="c1", host=Private("bank-7"), tags=["x"])
    failure.add_note("tried twice")
    return failure


def assert_same(one: Failure, other: Failure) -> None:
    assert one is not other
    assert type(one) is type(other)
    for name in ("fault", "details", "retry_after_s", "context", "at_us", "message", "technical", "retryable"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.__notes__ == other.__notes__ == ["tried twice"]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_failure_arrives_whole(protocol: int) -> None:
    arrived = pickle.loads(pickle.dumps(noted(), protocol))
    assert_same(arrived, noted())
    assert arrived.fault is SILENT
    assert arrived.details["host"] == Private("bank-7")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copied_failure_is_the_same_failure(copied: Any) -> None:
    original = noted()
    original.__cause__ = OSError("x")
    twin = copied(original)
    assert_same(twin, original)
    assert twin.fault is SILENT
    assert twin.__cause__ is original.__cause__
    assert twin.__suppress_context__


def test_only_a_deep_copy_has_details_of_its_own() -> None:
    original = noted()
    shallow, deep = copy.copy(original), copy.deepcopy(original)
    original.details["tags"].append("y")
    assert (shallow.details["tags"], deep.details["tags"]) == (["x", "y"], ["x"])


def test_a_copy_keeps_its_secrets_and_a_pickle_does_not() -> None:
    failure = SILENT.occur(key=Secret("hunter2"), nested={"key": Secret("hunter2")}, inner=Private(Secret("hunter2")))
    assert copy.deepcopy(failure).details["key"] == Secret("hunter2")
    sent = pickle.dumps(failure)
    assert b"hunter2" not in sent
    assert pickle.loads(sent).details == {"key": "***", "nested": {"key": "***"}, "inner": Private("***")}


def test_a_detail_that_cannot_be_pickled_arrives_in_its_plain_form() -> None:
    arrived = pickle.loads(pickle.dumps(SILENT.occur(lock=threading.Lock(), call=lambda: 1, n=1, odd=Unspeakable())))
    assert arrived.details["n"] == 1
    assert arrived.details["lock"] == plain(threading.Lock())
    assert arrived.details["call"] == "<function>"


class Subclassed(Failure):
    """Parsed failures are subclasses too."""


def test_a_subclass_stays_a_subclass() -> None:
    assert type(copy.copy(Subclassed(SILENT))) is Subclassed
    assert type(copy.deepcopy(Subclassed(SILENT))) is Subclassed


def test_a_failure_survives_a_pool_of_processes() -> None:
    # Raised in the child by a function every process can import.
    raise_there = partial(exec, "from holdfast.catalog.core import NETWORK_TIMEOUT; raise NETWORK_TIMEOUT(host='h')")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(Failure) as caught:
        pool.submit(raise_there).result()
    assert caught.value.fault is NETWORK_TIMEOUT
    assert caught.value.details == {"host": "h"}
