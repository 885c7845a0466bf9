"""When periodic work is due: cron expressions and fixed intervals, in UTC. Time is an argument.

    minute  hour  day-of-month  month  day-of-week
    0-59    0-23  1-31          1-12   0-7 (0 and 7 are Sunday)

A field is `*`, a value, a range `a-b`, a step `*/n` or `a-b/n`, or a list of these with commas; months and days of the
week may be named (`jan`, `MON`). As in every cron, when both day fields are restricted (neither begins with `*`) a day
counts if either matches. Also `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually` and
`@every <seconds>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from math import isfinite

from holdfast.base.arguments import numeric, shown
from holdfast.policy.backoff import PolicyInvalid

EXPRESSION_CHARS_MAX = 200
EVERY_S_MIN = 1.0
EVERY_S_MAX = 366 * 86_400.0
DAYS_MAX = 41 * 366
"""The longest that a schedule can be silent: 29 February on a given day of the week, across a year like 2100."""

MINUTE_US = 60_000_000
DAY_US = 24 * 60 * MINUTE_US
EPOCH_DAY = date(1970, 1, 1).toordinal()
_SOME_DAY = date(2000, 1, 1).toordinal() - EPOCH_DAY

SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
EVERY = "@every"


class CronInvalid(PolicyInvalid):
    """The schedule cannot be meant; the text names the field."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression, read: the minutes, hours and days on which it fires, in UTC."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either_day: bool
    """Whether a day counts when only one of the two day fields matches."""

    def next_us(self, after_us: int) -> int:
        """The first firing strictly later than the given time, in UTC microseconds."""
        day, within_us = divmod(after_us, DAY_US)
        minute = within_us // MINUTE_US + 1
        for candidate in self._days_from(day):
            found = self._minute_from(minute if candidate == day else 0)
            if found is not None:
                return candidate * DAY_US + found * MINUTE_US
        raise CronInvalid(f"{self.text!r}: no day within {DAYS_MAX} days matches")

    def _days_from(self, first: int) -> Iterator[int]:
        return (day for day in range(first, first + DAYS_MAX) if self._matches(date.fromordinal(EPOCH_DAY + day)))

    def _matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.either_day else by_date and by_weekday

    def _minute_from(self, first: int) -> int | None:
        """The first firing of a day, in minutes since midnight, not before the given one."""
        return next(
            (at for hour in self.hours for minute in self.minutes if (at := hour * 60 + minute) >= first),
            None,
        )


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed interval, counted from 1970 so that every process and every restart agrees on the moments."""

    every_s: float

    def __post_init__(self) -> None:
        if not (isfinite(self.every_s) and EVERY_S_MIN <= self.every_s <= EVERY_S_MAX):
            raise CronInvalid(
                f"every_s: {self.every_s} is not a number of seconds between {EVERY_S_MIN:g} and {EVERY_S_MAX:.0f}"
            )

    @property
    def text(self) -> str:
        """As it is stored and read again."""
        return f"{EVERY} {self.every_s!r}"

    def next_us(self, after_us: int) -> int:
        """The first moment strictly later than the given time."""
        step_us = round(self.every_s * 1_000_000)
        return (after_us // step_us + 1) * step_us


Schedule = Cron | Every


def read_schedule(text: str) -> Schedule:
    """Read a cron expression, a shorthand such as `@daily`, or `@every <seconds>`.

    Raises:
        CronInvalid: with the field and what it allows.
    """
    if len(text) > EXPRESSION_CHARS_MAX:
        raise CronInvalid(f"the schedule has {len(text)} characters; at most {EXPRESSION_CHARS_MAX} are read")
    words = text.split()
    if words and words[0].lower() == EVERY:
        return _read_every(text, words[1:])
    return read_cron(text)


def read_times(schedule: str | None, every_s: float | None) -> Schedule:
    """A schedule as text, or an interval: exactly one of the two is given.

    Raises:
        CronInvalid: with the field and what it allows.
    """
    if (schedule is None) == (every_s is None):
        raise CronInvalid("give either a schedule or every_s")
    if schedule is not None:
        if not isinstance(schedule, str):
            raise CronInvalid(f"schedule: {shown(schedule)} is not text; write '*/5 * * * *', or every_s=300")
        return read_schedule(schedule)
    numeric("every_s", every_s, raises=CronInvalid)
    return Every(float(every_s or 0))


def read_cron(text: str) -> Cron:
    """Read a cron expression or a shorthand.

    Raises:
        CronInvalid: with the field and what it allows.
    """
    parts = SHORTHANDS.get(text.strip().lower(), text).split()
    if len(parts) == 1 and parts[0].startswith("@"):
        raise CronInvalid(f"{parts[0]!r} is not a shorthand; known: {', '.join(SHORTHANDS)}, {EVERY} <seconds>")
    if len(parts) != len(_FIELDS):
        raise CronInvalid(f"{text!r} has {len(parts)} fields; write five: {', '.join(part.name for part in _FIELDS)}")
    minutes, hours, days, months, weekdays = (field.values(part) for field, part in zip(_FIELDS, parts, strict=True))
    cron = Cron(
        text=text.strip(),
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either_day=not (parts[2].startswith("*") or parts[4].startswith("*")),
    )
    if next(cron._days_from(_SOME_DAY), None) is None:
        raise CronInvalid(f"day-of-month: {parts[2]!r} never comes in month {parts[3]!r}")
    return cron


@dataclass(frozen=True, slots=True)
class _Field:
    """One of the five fields: what it may hold."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    """Names of the values, from `low` on."""

    def values(self, text: str) -> frozenset[int]:
        return frozenset(value for item in text.split(",") for value in self._item(item, text))

    def _item(self, item: str, text: str) -> range:
        found = _ITEM.match(item)
        if found is None:
            raise self._refused(text, f"{item!r} is not understood" if item else "a value is missing")
        first, last, step_text = found["first"], found["last"], found["step"]
        step = 1 if step_text is None else int(step_text)
        if not 1 <= step <= self.high:
            raise self._refused(text, f"the step {step} is not between 1 and {self.high}")
        if first == "*":
            return range(self.low, self.high + 1, step)
        if step_text is not None and last is None:
            raise self._refused(text, f"a step needs a range; write {first}-{self.high}/{step_text}")
        low = self._value(first, text)
        high = low if last is None else self._value(last, text)
        if low > high == 0 and self.name == "day-of-week":
            high = 7  # Sunday may end a week as well as begin it
        if low > high:
            raise self._refused(text, f"the range {item!r} runs backwards")
        return range(low, high + 1, step)

    def _value(self, word: str, text: str) -> int:
        if word.lower() in self.names:
            return self.names.index(word.lower()) + self.low
        if not word.isdecimal():
            raise self._refused(text, f"{word!r} is not a {f'name of a {self.name}' if self.names else 'number'}")
        if not self.low <= int(word) <= self.high:
            raise self._refused(text, f"{word} is not between {self.low} and {self.high}")
        return int(word)

    def _refused(self, text: str, why: str) -> CronInvalid:
        return CronInvalid(f"{self.name}: {text!r}: {why}")


_ITEM = re.compile(
    r"(?P<first>\*|[0-9]{1,4}|[A-Za-z]+)"
    r"(?:(?<!\*)-(?P<last>[0-9]{1,4}|[A-Za-z]+))?"
    r"(?:/(?P<step>[0-9]{1,4}))?\Z"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day-of-month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day-of-week", 0, 7, _WEEKDAYS),
)


def _read_every(text: str, words: list[str]) -> Every:
    try:
        (seconds,) = words
        return Every(float(seconds.removesuffix("s")))
    except CronInvalid:
        raise
    except ValueError:
        raise CronInvalid(f"every_s: {text!r}: write {EVERY} and a number of seconds, such as {EVERY} 300") from None
