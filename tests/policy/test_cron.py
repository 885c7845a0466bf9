"""Schedules: what a cron expression means, minute by minute, and what is refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.policy.cron import Cron, CronInvalid, Every, read_cron, read_schedule

SCAN_MINUTES = 3 * 24 * 60


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def shown(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("text", "after", "due"),
    [
        ("* * * * *", "2024-05-01 10:00", "2024-05-01 10:01"),
        ("* * * * *", "2024-12-31 23:59", "2025-01-01 00:00"),
        ("*/15 * * * *", "2024-05-01 10:07", "2024-05-01 10:15"),
        ("0 3 * * *", "2024-05-01 03:00", "2024-05-02 03:00"),
        ("30 9-17/4 * * *", "2024-05-01 09:30", "2024-05-01 13:30"),
        ("0 0 1 * *", "2024-01-01 00:00", "2024-02-01 00:00"),
        ("0 0 31 * *", "2024-04-01 00:00", "2024-05-31 00:00"),
        ("0 0 29 2 *", "2024-03-01 00:00", "2028-02-29 00:00"),
        ("0 0 29 2 *", "2096-03-01 00:00", "2104-02-29 00:00"),
        ("0 12 * * MON-FRI", "2024-05-03 12:00", "2024-05-06 12:00"),
        ("0 12 * * sat-sun", "2024-05-03 12:00", "2024-05-04 12:00"),
        ("0 12 * * 0-0", "2024-05-03 12:00", "2024-05-05 12:00"),
        ("0 12 * * 0", "2024-05-03 12:00", "2024-05-05 12:00"),
        ("0 12 * * 7", "2024-05-03 12:00", "2024-05-05 12:00"),
        ("0 0 * jan,Jul *", "2024-02-01 00:00", "2024-07-01 00:00"),
        ("5,10,40-42 8 * * *", "2024-05-01 08:40", "2024-05-01 08:41"),
        # Either day field is enough when both are restricted: the 13th, or a Friday.
        ("0 0 13 * 5", "2024-05-01 00:00", "2024-05-03 00:00"),
        ("0 0 13 * 5", "2024-05-11 00:00", "2024-05-13 00:00"),
        # A field that begins with a star restricts nothing away: both must match.
        ("0 0 */2 * 5", "2024-05-01 00:00", "2024-05-03 00:00"),
        ("0 0 */2 * 5", "2024-05-03 00:00", "2024-05-17 00:00"),
        ("0 0 31 2 1", "2024-02-01 00:00", "2024-02-05 00:00"),
        ("@hourly", "2024-05-01 10:00", "2024-05-01 11:00"),
        ("@daily", "2024-05-01 10:00", "2024-05-02 00:00"),
        ("@midnight", "2024-05-01 10:00", "2024-05-02 00:00"),
        ("@weekly", "2024-05-01 10:00", "2024-05-05 00:00"),
        ("@Monthly", "2024-05-01 10:00", "2024-06-01 00:00"),
        ("@yearly", "2024-05-01 10:00", "2025-01-01 00:00"),
        (" @annually ", "2024-05-01 10:00", "2025-01-01 00:00"),
        ("@every 300", "2024-05-01 10:00", "2024-05-01 10:05"),
        ("@every 3600s", "2024-05-01 10:20", "2024-05-01 11:00"),
    ],
)
def test_the_next_firing_is_the_first_one_later(text: str, after: str, due: str) -> None:
    assert shown(read_schedule(text).next_us(us(after))) == due


def test_a_firing_in_the_middle_of_a_minute_is_the_next_whole_one() -> None:
    assert shown(read_cron("* * * * *").next_us(us("2024-05-01 10:00") + 1)) == "2024-05-01 10:01"
    assert shown(read_cron("* * * * *").next_us(us("2024-05-01 10:00") - 1)) == "2024-05-01 10:00"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has 0 fields; write five"),
        ("* * * *", "has 4 fields; write five: minute, hour, day-of-month, month, day-of-week"),
        ("* * * * * *", "has 6 fields"),
        ("60 * * * *", "minute: '60': 60 is not between 0 and 59"),
        ("* 24 * * *", "hour: '24': 24 is not between 0 and 23"),
        ("* * 0 * *", "day-of-month: '0': 0 is not between 1 and 31"),
        ("* * * 13 *", "month: '13': 13 is not between 1 and 12"),
        ("* * * * 8", "day-of-week: '8': 8 is not between 0 and 7"),
        ("* * * foo *", "month: 'foo': 'foo' is not a name of a month"),
        ("mon * * * *", "minute: 'mon': 'mon' is not a number"),
        ("*/0 * * * *", "minute: '\\*/0': the step 0 is not between 1 and 59"),
        ("*/60 * * * *", "the step 60 is not between 1 and 59"),
        ("5/15 * * * *", "a step needs a range; write 5-59/15"),
        ("30-10 * * * *", "minute: '30-10': the range '30-10' runs backwards"),
        ("* * * * fri-mon", "day-of-week: 'fri-mon': the range 'fri-mon' runs backwards"),
        ("1,,2 * * * *", "minute: '1,,2': a value is missing"),
        ("-1 * * * *", "minute: '-1': '-1' is not understood"),
        ("*-5 * * * *", "is not understood"),
        ("٣ * * * *", "is not understood"),
        ("0 0 30 2 *", "day-of-month: '30' never comes in month '2'"),
        ("0 0 31 4,6 *", "day-of-month: '31' never comes"),
        ("@sometimes", "'@sometimes' is not a shorthand; known: @hourly"),
        ("@every", "every_s: '@every': write @every and a number of seconds"),
        ("@every soon", "every_s: '@every soon': write"),
        ("@every 0", "every_s: 0.0 is not a number of seconds between 1 and"),
        ("@every nan", "every_s: nan is not"),
        ("* " * 200, "characters; at most 200 are read"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_the_name_of_its_field(text: str, message: str) -> None:
    with pytest.raises(CronInvalid, match=message):
        read_schedule(text)


@given(every_s=st.floats(1, 10_000_000), after_us=st.integers(0, 4_000_000_000_000_000))
def test_an_interval_fires_at_moments_on_which_every_process_agrees(every_s: float, after_us: int) -> None:
    every = Every(every_s)
    due_us = every.next_us(after_us)
    step_us = round(every_s * 1_000_000)
    assert due_us % step_us == 0
    assert after_us < due_us <= after_us + step_us
    assert read_schedule(every.text) == every


def items(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """Part of a field, and independently of the parser the values that it names."""
    value = st.integers(low, high)
    step = st.integers(1, high)
    ordered = st.tuples(value, value).map(sorted)
    return st.one_of(
        value.map(lambda one: (str(one), frozenset({one}))),
        step.map(lambda by: (f"*/{by}", frozenset(range(low, high + 1, by)))),
        ordered.map(lambda ends: (f"{ends[0]}-{ends[1]}", frozenset(range(ends[0], ends[1] + 1)))),
        st.tuples(ordered, step).map(
            lambda both: (f"{both[0][0]}-{both[0][1]}/{both[1]}", frozenset(range(both[0][0], both[0][1] + 1, both[1])))
        ),
        st.just(("*", frozenset(range(low, high + 1)))),
    )


def fields(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    return st.lists(items(low, high), min_size=1, max_size=3).map(
        lambda found: (",".join(text for text, _ in found), frozenset().union(*(values for _, values in found)))
    )


def scanned(after: datetime, parts: list[tuple[str, frozenset[int]]]) -> datetime | None:
    """The first firing, found by looking at every minute."""
    (_, minutes), (_, hours), (day_text, days), (_, months), (weekday_text, weekdays) = parts
    moment = after.replace(second=0, microsecond=0)
    for _ in range(SCAN_MINUTES):
        moment += timedelta(minutes=1)
        if moment.minute not in minutes or moment.hour not in hours or moment.month not in months:
            continue
        by_date = moment.day in days
        by_weekday = bool({moment.isoweekday() % 7, moment.isoweekday()} & weekdays)
        starred = day_text.startswith("*") or weekday_text.startswith("*")
        if (by_date and by_weekday) if starred else (by_date or by_weekday):
            return moment
    return None


@settings(max_examples=150, deadline=None)
@given(
    parts=st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12), fields(0, 7)).map(list),
    after_us=st.integers(us("1999-01-01"), us("2105-01-01")),
)
def test_the_next_firing_is_the_one_that_a_look_at_every_minute_finds(
    parts: list[tuple[str, frozenset[int]]], after_us: int
) -> None:
    text = " ".join(part for part, _ in parts)
    after = datetime.fromtimestamp(after_us // 1_000_000, UTC)
    expected = scanned(after, parts)
    try:
        cron = read_cron(text)
    except CronInvalid:
        assert expected is None
        return
    found = datetime.fromtimestamp(cron.next_us(after_us) // 1_000_000, UTC)
    if expected is None:
        assert found > after + timedelta(minutes=SCAN_MINUTES - 1)
    else:
        assert found == expected


def test_a_leap_day_on_one_day_of_the_week_is_found_across_a_century() -> None:
    cron = Cron("", (0,), (0,), frozenset({29}), frozenset({2}), frozenset({1}), either_day=False)
    assert shown(cron.next_us(us("2072-03-01 00:00"))) == "2112-02-29 00:00"
