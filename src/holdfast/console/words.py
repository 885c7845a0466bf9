"""Values as the operator reads them: moments, spans of time, counts. Times are UTC, and every page says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.base import utc_text
from holdfast.http.markup import Markup, element

MORE = "…"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


def moment(at_us: int | None, now_us: int) -> Markup:
    """The time of the day, with the date where it is another day; the exact moment and its age on a closer look."""
    if at_us is None:
        return Markup()
    exact = utc_text(at_us // SECOND_US * SECOND_US)
    return element("time", clock(at_us, now_us), datetime=exact, title=f"{exact}, {age(at_us, now_us)}")


def clock(at_us: int, now_us: int) -> str:
    """`14:02:11`, or `03-01 14:02:11` on another day, or with the year in another year."""
    then, now = _EPOCH + timedelta(microseconds=at_us), _EPOCH + timedelta(microseconds=now_us)
    if then.date() == now.date():
        return then.strftime("%H:%M:%S")
    return then.strftime("%m-%d %H:%M:%S" if then.year == now.year else "%Y-%m-%d %H:%M:%S")


def age(at_us: int, now_us: int) -> str:
    """How far away it is: `3 min ago`, `in 2 h`."""
    seconds = (now_us - at_us) / SECOND_US
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def span(seconds: float | None) -> str:
    """A length of time in its largest unit: `1.5 s`, `3 min`, `2 d`."""
    if seconds is None:
        return ""
    for unit, length_s in _UNITS:
        if seconds >= length_s * (1 if unit == "s" else 2):
            count = seconds / length_s
            return f"{count:.0f} {unit}" if unit != "s" or count >= 10 else f"{count:.2g} {unit}"
    return f"{seconds * 1_000:.3g} ms" if seconds else "0 s"


def span_us(microseconds: int | None) -> str:
    """The same of a number of microseconds."""
    return "" if microseconds is None else span(microseconds / SECOND_US)


def count(number: int, *, most: int | None = None) -> str:
    """`1,234`; where counting stopped at `most`, `1,000+`."""
    if most is not None and number >= most:
        return f"{most:,}+"
    return f"{number:,}"


def plural(number: int, one: str, *, most: int | None = None) -> str:
    """`1 job`, `2 jobs`, `1,000+ jobs`."""
    return f"{count(number, most=most)} {one}{'' if number == 1 else 's'}"


def number(value: float) -> str:
    """A measured number, short: `0.25`, `12.3`, `1,234`."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def cut(text: str, chars_max: int) -> str:
    """The text, ended with `…` where it is longer."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + MORE


def us_of(moment_: datetime) -> int:
    """A moment with a zone as microseconds."""
    return (moment_ - _EPOCH) // timedelta(microseconds=1)


def moment_of(at_us: int) -> datetime:
    """Microseconds as a moment in UTC."""
    return _EPOCH + timedelta(microseconds=at_us)
