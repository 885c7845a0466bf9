"""Ids are UUIDv7 as RFC 9562 lays them out, and later ids sort later."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base import World, id_floor, id_time_us, new_id, new_ids, now_us, prefixed_id, replaced

MOMENTS = st.integers(min_value=0, max_value=(1 << 48) * 1_000 - 1)


def at(wall_us: int, chance: bytes = b"\xff" * 8) -> World:
    return World(wall_us=lambda: wall_us, token_bytes=lambda count: chance[:count])


@given(MOMENTS, st.binary(min_size=8, max_size=8))
def test_the_layout_is_that_of_rfc_9562(wall_us: int, chance: bytes) -> None:
    with replaced(at(wall_us, chance)):
        text = new_id()
    parsed = uuid.UUID(text)
    assert str(parsed) == text
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == wall_us // 1_000
    assert parsed.int & (1 << 62) - 1 == int.from_bytes(chance) & (1 << 62) - 1


def test_the_example_of_rfc_9562_is_read_as_the_moment_it_names() -> None:
    # Appendix A.6: 2022-02-22 19:22:22 UTC; its rand_a is chance, which reads as a fraction of the millisecond.
    example = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F"
    assert id_time_us(example) // 1_000 == 1_645_557_742_000


@given(MOMENTS)
def test_an_id_tells_to_the_microsecond_when_it_was_made(wall_us: int) -> None:
    with replaced(at(wall_us)):
        assert id_time_us(new_id()) == wall_us


@given(MOMENTS, MOMENTS)
def test_later_moments_sort_later(one_us: int, other_us: int) -> None:
    with replaced(at(one_us)):
        one = new_id()
    with replaced(at(other_us, b"\x00" * 8)):
        other = new_id()
    if one_us != other_us:
        assert (one < other) == (one_us < other_us)


def ids_of(readings_us: list[int]) -> list[str]:
    clock = iter(readings_us)
    # Chance that falls, so that only the count can make the ids ascend.
    dealt = iter(range(len(readings_us), 0, -1))
    with replaced(World(wall_us=lambda: next(clock), token_bytes=lambda size: next(dealt).to_bytes(size))):
        return [new_id() for _ in readings_us]


@pytest.mark.parametrize(
    "readings_us",
    [
        pytest.param([1_700_000_000_000_000] * 10_000, id="stands still"),
        pytest.param([10**15 - step for step in range(200)], id="runs backwards"),
        pytest.param([10**15, 10**15 - 59_000_000, 10**15 - 59_000_000], id="steps back a minute"),
        pytest.param([10**15, 10**15 - 3_600_000_000, 10**15 - 3_599_000_000], id="steps back an hour"),
        pytest.param([10**15, 0, 5], id="falls to 1970"),
        pytest.param([0, 0, 0], id="begins in 1970"),
        pytest.param([10**15 + step for step in range(5_000)], id="ticks by microseconds"),
    ],
)
def test_ids_ascend_whatever_the_clock_does(readings_us: list[int]) -> None:
    made = ids_of(readings_us)
    assert all(before < after for before, after in pairwise(made))
    assert {uuid.UUID(text).version for text in made} == {7}


def test_an_overrun_of_the_fraction_carries_into_the_milliseconds() -> None:
    made = ids_of([1_000_000] * 4_097)
    assert uuid.UUID(made[-1]).int >> 80 == 1_001
    assert id_time_us(made[-1]) == 1_001_000


def test_ids_ascend_in_every_thread_and_repeat_in_none() -> None:
    per_thread: list[list[str]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda mine=mine: mine.extend(new_id() for _ in range(2_000))) for mine in per_thread
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(before < after for mine in per_thread for before, after in pairwise(mine))
    ticks = {uuid.UUID(text).int >> 62 for mine in per_thread for text in mine}
    assert len(ticks) == 8_000


def test_a_replaced_clock_counts_for_itself() -> None:
    before = new_id()
    with replaced(at(1_000_000)):
        assert id_time_us(new_id()) == 1_000_000
    with replaced(at(1_000_000)):
        assert id_time_us(new_id()) == 1_000_000
    with replaced(at(4_000_000_000_000_000)):
        new_id()
    after = new_id()
    assert before < after
    assert abs(id_time_us(after) - now_us()) < 60_000_000


def test_worlds_on_the_real_clock_share_one_order() -> None:
    made: list[str] = []
    for _ in range(200):
        made.append(new_id())
        with replaced(replace(World(), dice=lambda: 0.5)):
            made.append(new_id())
    assert made == sorted(made)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no id",
        str(uuid.UUID(int=0)),
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",  # version 1
        "f47ac10b-58cc-4372-a567-0e02b2c3d479",  # version 4
        "017f22e2-79b0-7cc3-08c4-dc0c0c07398f",  # another variant
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398",  # too short
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",  # too long
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f\n",
        "0_7f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "+17f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "٠17f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "zzzzzzzz-zzzz-7zzz-8zzz-zzzzzzzzzzzz",
        "------------7-------------------",
    ],
)
def test_what_is_no_uuid_version_7_has_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a UUIDv7"):
        id_time_us(text)


def test_the_time_of_an_id_may_be_read_in_any_spelling() -> None:
    made = new_id()
    assert id_time_us(made) == id_time_us(made.upper()) == id_time_us(made.replace("-", ""))


def test_a_real_id_carries_the_real_time() -> None:
    before = time.time_ns() // 1_000
    # The count of this process may run a little ahead when many ids were made within one microsecond.
    assert before <= id_time_us(new_id()) <= time.time_ns() // 1_000 + 60_000_000


def test_a_prefixed_id_has_its_prefix_and_as_much_chance_as_asked_for() -> None:
    made = {prefixed_id("evt", chance_bytes=12) for _ in range(100)}
    assert len(made) == 100
    assert all(text.startswith("evt_") and len(text) == 4 + 24 for text in made)


def test_many_ids_made_at_once_ascend_and_are_followed_by_later_ones() -> None:
    made = [new_id(), *new_ids(1_000), new_id(), *new_ids(10)]
    assert made == sorted(set(made))
    assert all(uuid.UUID(one).version == 7 and uuid.UUID(one).variant == "specified in RFC 4122" for one in made)


def test_an_id_floor_lies_below_every_id_of_its_moment() -> None:
    made = new_id()
    at_us = id_time_us(made)
    assert id_floor(at_us) < made < id_floor(at_us + 1_000)
    assert id_floor(-5) == "00000000-0000"
