"""Values as an operator reads them: moments, ages, spans of time, long texts. And spans as an operator writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

MORE = "…"
CELL_CHARS_MAX = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0))
_WRITTEN = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|)\Z", re.ASCII)


def moment(at_us: int | None) -> str:
    """The time in this machine's zone, to the second: `2026-03-01T12:30:00+01:00`."""
    if at_us is None:
        return ""
    return (_EPOCH + timedelta(microseconds=at_us)).astimezone().isoformat(timespec="seconds")


def age(at_us: int | None, now_us: int) -> str:
    """How far away it is: `3 min ago`, `in 2 h`."""
    if at_us is None:
        return ""
    seconds = (now_us - at_us) / 1_000_000
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
    return f"{seconds * 1_000:.3g} ms"


def clean(text: str) -> str:
    """One line without control characters: what others wrote must not move the cursor or ring the bell."""
    if text.isprintable():
        return text
    return "".join(" " if letter.isspace() else letter if letter.isprintable() else "�" for letter in text)


def cut(text: str, chars_max: int = CELL_CHARS_MAX) -> str:
    """The text, ended with `…` where it is longer."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + MORE


def seconds_of(text: str) -> float:
    """A span as it is written on the command line: `90`, `90s`, `5m`, `2h`, `1d`.

    Raises:
        ValueError: with the forms that are understood.
    """
    found = _SPAN.match(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no span of time; write seconds, or a number with s, m, h or d: 90, 5m, 2h, 1d")
    return float(found[1]) * _WRITTEN[found[2]]


def moment_of(text: str, now_us: int) -> datetime:
    """A moment as it is written on the command line: an ISO 8601 time (local unless it names a zone), or how long ago.

    Raises:
        ValueError: with the forms that are understood.
    """
    try:
        return _EPOCH + timedelta(microseconds=now_us) - timedelta(seconds=seconds_of(text))
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no moment; write how long ago (30m, 2h, 1d) or 2026-03-01T12:30") from None
