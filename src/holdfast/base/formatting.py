"""Durations, times and counts as an operator reads and writes them; pages, commands and messages all use these."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

MORE = "…"
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
CELL_CHARS_MAX = 60

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = datetime.min.replace(tzinfo=UTC)
_CALENDAR_S = 1e11
_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))
_WRITTEN = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_SPAN = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)\s*(s|m|min|h|d|)\Z", re.ASCII)


def duration(seconds: float) -> str:
    """A configured length of time, exactly: `250 ms`, `1.5 s`, `5 min`, `1 h 30 min`."""
    if seconds == 0:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1_000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def span(seconds: float | None) -> str:
    """A measured length of time, rounded to its largest unit: `1.5 s`, `3 min`, `2 d`."""
    if seconds is None:
        return ""
    for unit, length_s in _UNITS:
        if seconds >= length_s * (1 if unit == "s" else 2):
            whole = seconds / length_s
            return f"{whole:.0f} {unit}" if unit != "s" or whole >= 10 else f"{whole:.2g} {unit}"
    return f"{seconds * 1_000:.3g} ms" if seconds else "0 s"


def span_us(microseconds: int | None) -> str:
    """`span` of a number of microseconds."""
    return "" if microseconds is None else span(microseconds / SECOND_US)


def age(at_us: int | None, now_us: int) -> str:
    """The distance from now: `3 min ago`, `in 2 h`."""
    if at_us is None:
        return ""
    seconds = (now_us - at_us) / SECOND_US
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def clock(at_us: int, now_us: int) -> str:
    """`14:02:11` in UTC, with the date on another day and the year in another year."""
    then, now = moment_of(at_us), moment_of(now_us)
    if then.date() == now.date():
        return then.strftime("%H:%M:%S")
    return then.strftime("%m-%d %H:%M:%S" if then.year == now.year else "%Y-%m-%d %H:%M:%S")


def local_time(at_us: int | None) -> str:
    """The time in this machine's zone, to the second: `2026-03-01T12:30:00+01:00`."""
    return "" if at_us is None else moment_of(at_us).astimezone().isoformat(timespec="seconds")


def count(number: int, *, most: int | None = None) -> str:
    """`1,234`; `1,000+` where counting stopped at `most`."""
    if most is not None and number >= most:
        return f"{most:,}+"
    return f"{number:,}"


def plural(number: int, one: str, *, most: int | None = None) -> str:
    """`1 job`, `2 jobs`, `1,000+ jobs`."""
    return f"{count(number, most=most)} {one}{'' if number == 1 else 's'}"


def number(value: float) -> str:
    """A measured number, short: `0.25`, `12.3`, `1,234`."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def cut(text: str, chars_max: int = CELL_CHARS_MAX) -> str:
    """The text, ended with `…` where it is longer."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + MORE


def clean(text: str) -> str:
    """One line without control characters, so that text from outside cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(" " if letter.isspace() else letter if letter.isprintable() else "�" for letter in text)


def us_of(moment: datetime) -> int:
    """A moment with a zone as microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(at_us: int) -> datetime:
    """Microseconds since 1970 as a moment in UTC."""
    return _EPOCH + timedelta(microseconds=at_us)


def read_span(text: str) -> float:
    """Seconds, from `90`, `90s`, `5m`, `2h` or `1d`.

    Raises:
        ValueError: with the forms that are understood.
    """
    found = _SPAN.match(text.strip())
    if found is None:
        raise ValueError(
            f"{text!r} is not a span of time; write seconds, or a number with s, m, h or d: 90, 5m, 2h, 1d"
        )
    return float(found[1]) * _WRITTEN[found[2]]


def read_moment(text: str, now_us: int, *, local: bool = False) -> datetime:
    """A moment, from how long ago (`30m`, `2h`) or an ISO 8601 time.

    Args:
        local: a time without a zone is in this machine's zone; otherwise it is UTC.

    Raises:
        ValueError: with the forms that are understood.
    """
    now = moment_of(now_us)
    try:
        # Longer ago than any calendar knows is always.
        return now - min(timedelta(seconds=min(read_span(text), _CALENDAR_S)), now - _FIRST)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone() if local or moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{text!r} is not a moment; write how long ago (30m, 2h, 1d) or a time such as 2026-03-01T12:30")
