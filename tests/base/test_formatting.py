"""Durations, times and counts: how they are shown, and how they are written by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.base.formatting import (
    age,
    clean,
    clock,
    count,
    cut,
    duration,
    local_time,
    number,
    plural,
    read_moment,
    read_span,
    span,
)

NOW_US = 1_800_000_000_000_000


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (1.5, "1.5 s"),
        (90, "90 s"),
        (150, "2 min 30 s"),
        (300, "5 min"),
        (3_600, "1 h"),
        (5_400, "1 h 30 min"),
    ],
)
def test_a_configured_duration_is_written_exactly(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "now"), (5, "5 s ago"), (90, "90 s ago"), (180, "3 min ago"), (7_200, "2 h ago"), (-7_200, "in 2 h"),
     (3 * 86_400, "3 d ago")],
)  # fmt: skip
def test_an_age_is_told_in_its_largest_unit(seconds: float, said: str) -> None:
    assert age(NOW_US - int(seconds * 1_000_000), NOW_US) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, ""), (0.0005, "0.5 ms"), (1.234, "1.2 s"), (61.0, "61 s"), (600.0, "10 min")]
)
def test_a_span_is_told_in_its_largest_unit(seconds: float | None, said: str) -> None:
    assert span(seconds) == said


def test_a_moment_names_its_zone() -> None:
    assert datetime.fromisoformat(local_time(NOW_US)) == datetime.fromtimestamp(NOW_US / 1_000_000, UTC)


@given(st.text())
def test_nothing_from_outside_steers_the_terminal(text: str) -> None:
    assert clean(text).isprintable()
    assert len(clean(text)) == len(text)


@given(st.text(), st.integers(1, 50))
def test_a_cut_text_is_never_longer_than_allowed(text: str, most: int) -> None:
    assert len(cut(text, most)) <= most
    assert cut(text, most) == text or cut(text, most).endswith("…")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("5m", 300), ("5 min", 300), ("2h", 7_200), ("1d", 86_400)]
)
def test_spans_are_read(text: str, seconds: float) -> None:
    assert read_span(text) == seconds
    assert read_moment(text, NOW_US) == datetime.fromtimestamp(NOW_US / 1_000_000, UTC) - timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "-5", "5w", "1e9", "nan", "٣"])
def test_what_is_no_span_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(ValueError, match="90, 5m, 2h, 1d"):
        read_span(text)


@pytest.mark.parametrize("text", ["soon", "2026-13-01"])
def test_what_is_no_moment_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(ValueError, match="2026-03-01T12:30"):
        read_moment(text, NOW_US)


def test_counts_and_numbers_are_short() -> None:
    assert [span(0), span(0.012), span(1.5), span(90), span(7_200), span(200_000)] == [
        "0 s", "12 ms", "1.5 s", "90 s", "2 h", "2 d",
    ]  # fmt: skip
    assert (age(0, 3_000_000), age(3_000_000, 0), age(1, 2)) == ("3 s ago", "in 3 s", "now")
    assert (count(1_000, most=1_000), count(999, most=1_000), plural(1, "job"), plural(2_000, "job")) == (
        "1,000+", "999", "1 job", "2,000 jobs",
    )  # fmt: skip
    assert (number(0.25), number(1_234.5)) == ("0.25", "1,234")


def test_a_clock_shows_the_date_only_on_another_day() -> None:
    assert [clock(NOW_US - days * 86_400_000_000, NOW_US) for days in (0, 1, 400)] == [
        "08:00:00", "01-14 08:00:00", "2025-12-11 08:00:00",
    ]  # fmt: skip


def test_longer_ago_than_any_calendar_is_the_first_moment() -> None:
    assert read_moment("99999999999d", NOW_US).year == 1


def test_a_time_without_a_zone_is_utc_unless_local_times_are_asked_for() -> None:
    assert read_moment("2026-03-01T12:30", NOW_US) == datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    assert read_moment("2026-03-01T12:30", NOW_US, local=True) == datetime(2026, 3, 1, 12, 30).astimezone()
    assert read_moment("2026-03-01T12:30+02:00", NOW_US) == datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
