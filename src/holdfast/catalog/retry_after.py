"""Retry-After, as it arrives: whole seconds or an HTTP-date (RFC 9110 §10.2.3), and plenty of neither."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from holdfast.base import limits, now_us

PARTS_MAX = 8
TEXT_CHARS_MAX = 64
"""No date is longer; a longer header is not worth reading."""

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?\Z")
_BETWEEN = re.compile(r"\s*,\s*(?=[0-9.]+\s*(?:,|\Z)|[A-Za-z]{3,9},)")
"""The commas between two values; the one behind the day of a date is not among them."""
_CLOCK_TIME = re.compile(r"\b[0-9]{1,2}:[0-9]{2}:[0-9]{2}\b")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def retry_after_s(value: object) -> float | None:
    """The seconds to wait that a header or a body member asks for.

    Takes a number, or text with seconds or an HTTP-date, or several of them with commas between: then the longest
    counts. Never negative, never above `limits().retry_after_s_max`; a date that has passed is 0; None when it says
    nothing readable. Never raises.
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    asked_s = _of_text(value.strip()) if isinstance(value, str) else _of_number(value)
    # `0 <= nan` is false, so this also refuses what is not a number.
    return min(asked_s, limits().retry_after_s_max) if asked_s is not None and asked_s >= 0 else None


def _of_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else None


def longest_s(headers: Mapping[str, str] | None) -> float | None:
    """What the Retry-After of these headers asks for, in any case; where it stands twice, the longest."""
    if headers is None:
        return None
    asked = (retry_after_s(value) for name, value in headers.items() if name.lower() == "retry-after")
    return max((seconds for seconds in asked if seconds is not None), default=None)


def _of_text(text: str) -> float | None:
    parts = _BETWEEN.split(text[: TEXT_CHARS_MAX * PARTS_MAX])
    return max((seconds for seconds in map(_of_part, parts) if seconds is not None), default=None)


def _of_part(text: str) -> float | None:
    if _SECONDS.match(text):
        return float(text)
    # The parser below guesses at almost anything; only what has a time of day is a date here.
    if len(text) > TEXT_CHARS_MAX or not text.isascii() or not _CLOCK_TIME.search(text):
        return None
    moment = _moment(text)
    if moment is None:
        return None
    wall_us = (moment - _EPOCH) // timedelta(microseconds=1)
    return max(0.0, (wall_us - now_us()) / 1_000_000)


def _moment(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # loaded at the first date: it pulls in the socket library

    try:
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
