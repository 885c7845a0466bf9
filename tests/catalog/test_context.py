"""The circumstances of a failure: local to the task, W3C on the wire, and no keys in the open."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.base import World, replaced
from holdfast.catalog import Context, continued, current_context, enriched, new_request_id, obfuscated

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
CHANCE = World(token_bytes=lambda size: b"\xab" * size)


# -- traceparent --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "flags"),
    [
        (f"00-{TRACE}-{PARENT}-01", "01"),
        (f"00-{TRACE}-{PARENT}-00", "00"),
        (f"00-{TRACE}-{PARENT}-03", "01"),
        (f"00-{TRACE}-{PARENT}-fe", "00"),
        (f"  00-{TRACE}-{PARENT}-01\t", "01"),
        (f"cc-{TRACE}-{PARENT}-01", "01"),
        (f"cc-{TRACE}-{PARENT}-01-what-the-future-will-be-like", "01"),
        (f"01-{TRACE}-{PARENT}-09-", "01"),
        (f"fe-{TRACE}-{PARENT}-01-x", "01"),
    ],
)
def test_a_valid_header_continues_the_callers_trace_in_a_new_span(header: str, flags: str) -> None:
    with replaced(CHANCE):
        assert continued(header) == {"trace_id": TRACE, "span_id": "ab" * 8, "trace_flags": flags}


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "garbage",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT.upper()}-01",
        f"00-{TRACE}-{PARENT}-0A",
        f"CC-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-extra",
        f"00-{TRACE}-{PARENT}-01-",
        f"cc-{TRACE}-{PARENT}-01.extra",
        f"cc-{TRACE}-{PARENT}-01extra",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{TRACE}0-{PARENT}-01",
        f"00-{TRACE}-{PARENT[:-1]}-01",
        f"00-{TRACE}-{PARENT}-1",
        f"0-{TRACE}-{PARENT}-01",
        f"00{TRACE}{PARENT}01",
        f"00_{TRACE}_{PARENT}_01",
        f"00-{TRACE[:-1]}g-{PARENT}-01",
        f"00-{TRACE[:-1]}٣-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01,00-{TRACE}-{PARENT}-01",
    ],
)
def test_a_header_that_is_no_good_starts_a_new_trace(header: str | None) -> None:
    with replaced(CHANCE):
        assert continued(header) == {"trace_id": "ab" * 16, "span_id": "ab" * 8, "trace_flags": "01"}


@given(st.text(max_size=80) | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", fullmatch=True))
def test_whatever_comes_in_a_valid_header_goes_out(header: str) -> None:
    out = Context(**continued(header)).traceparent
    again = continued(out)
    assert out.startswith("00-")
    assert len(out) == 55
    assert again["trace_id"] == out[3:35]
    assert again["trace_flags"] == out[-2:]


@pytest.mark.parametrize(
    ("context", "header"),
    [
        (Context(), ""),
        (Context(trace_id=TRACE), ""),
        (Context(span_id=PARENT), ""),
        (Context(trace_id=TRACE, span_id=PARENT), f"00-{TRACE}-{PARENT}-01"),
        (Context(trace_id=TRACE, span_id=PARENT, trace_flags="00"), f"00-{TRACE}-{PARENT}-00"),
    ],
)
def test_the_header_goes_out_only_inside_a_trace(context: Context, header: str) -> None:
    assert context.traceparent == header


# -- enriching ----------------------------------------------------------------------------------------------------


def test_facts_are_added_inside_the_block_and_gone_after_it() -> None:
    with enriched(request_id="req_1", endpoint="/a") as outer:
        assert outer is current_context()
        with enriched(endpoint="/b", account_id="acct"):
            assert current_context() == Context(request_id="req_1", endpoint="/b", account_id="acct")
        assert current_context() is outer
    assert current_context() == Context()


def test_the_context_comes_back_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), enriched(request_id="a"), enriched(request_id="b"):
        raise ZeroDivisionError
    assert current_context() == Context()


def test_an_unknown_fact_is_refused_and_changes_nothing() -> None:
    with pytest.raises(TypeError, match="colour"), enriched(colour="red"):
        pass
    assert current_context() == Context()


async def test_tasks_do_not_see_each_others_facts() -> None:
    async def work(name: str) -> str:
        with enriched(request_id=name):
            await asyncio.sleep(0)
            return current_context().request_id

    assert await asyncio.gather(work("a"), work("b"), work("c")) == ["a", "b", "c"]
    assert current_context() == Context()


def test_a_thread_sees_the_facts_only_of_a_context_it_was_given() -> None:
    seen: list[str] = []

    def look() -> None:
        seen.append(current_context().request_id)

    with enriched(request_id="req_1"):
        for run in (contextvars.copy_context().run, contextvars.Context().run):
            thread = threading.Thread(target=run, args=(look,))
            thread.start()
            thread.join()
    assert seen == ["req_1", ""]


def test_known_facts_are_those_with_a_value() -> None:
    assert Context().known() == {}
    assert Context(request_id="r", database_shard="s7").known() == {"request_id": "r", "database_shard": "s7"}


def test_every_fact_of_the_design_has_a_place() -> None:
    facts = [
        *("request_id", "trace_id", "span_id", "user_agent", "api_version", "endpoint", "server_id"),
        *("database_shard", "external_service", "api_key_id", "account_id", "request_source"),
    ]
    given = {name: f"<{name}>" for name in facts}
    assert Context(**given).known() == given


def test_a_context_can_cross_processes() -> None:
    context = Context(request_id="r", trace_id=TRACE)
    assert pickle.loads(pickle.dumps(context)) == context


def test_a_new_request_id_is_a_new_one() -> None:
    made = {new_request_id() for _ in range(50)}
    assert len(made) == 50
    assert all(text.startswith("req_") and len(text) == 28 for text in made)


# -- keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("sk_live_4eC39HqLyjWDarjtT1zdp7dc", "sk_***p7dc"),
        ("4eC39HqLyjWDarjtT1zdp7dc", "***p7dc"),
        ("sk_0123456789abcdef", "sk_***cdef"),
        ("sk_0123456789abcde", "***"),
        ("0123456789abcde", "***"),
        ("password_1", "***"),
        ("correcthorsebatterystaple_1", "***le_1"),
        ("short", "***"),
        ("a_b", "***"),
        ("_", "***"),
        ("", "***"),
    ],
)
def test_a_key_is_shown_by_its_prefix_and_its_end(key: str, shown: str) -> None:
    assert obfuscated(key) == shown


@given(st.text(alphabet="abcdefgh_01", max_size=60))
@example("_" * 40)
def test_at_least_twelve_characters_of_a_key_stay_hidden_and_short_keys_show_nothing(key: str) -> None:
    shown = obfuscated(key).split("***", 1)
    revealed = sum(map(len, shown))
    assert key.startswith(shown[0])
    assert key.endswith(shown[1])
    assert revealed == 0 or len(key) - revealed >= 12
