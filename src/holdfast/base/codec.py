"""JSON in and out: compact, UTF-8, bounded, and closed to secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Set
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from enum import Enum
from functools import cache
from math import isfinite
from typing import Any

from holdfast.base.collection import fewer_collections
from holdfast.base.json_values import explained, refuse_keys
from holdfast.base.secret import Private, Secret, SecretLeak
from holdfast.base.world import limits

Json = Any
"""What JSON can say: None, bool, int, float, str, list of Json, dict of str to Json."""


class CodecError(ValueError):
    """The text is not JSON that we accept; `reason` is a word a program can compare."""

    def __init__(self, reason: str, explanation: str) -> None:
        super().__init__(reason, explanation)  # both, so that it can be pickled
        self.reason = reason
        self.explanation = explanation

    def __str__(self) -> str:
        return self.explanation


def encode(value: object) -> str:
    """Compact JSON text.

    Raises:
        SecretLeak: the value holds a `Secret`.
        TypeError: the value holds something JSON cannot say, or a key that is not text.
        ValueError: the value holds itself, a NaN, an infinity or half a surrogate pair.
    """
    text = _utf8(_ENCODER.encode(value))
    refuse_keys(value, json_form)
    return text


def canonical(value: object) -> str:
    """JSON text that is the same for the same JSON, however it was spelt: keys sorted, no spaces.

    Raises:
        SecretLeak, TypeError, ValueError: as `encode` does.
    """
    text = _utf8(_CANONICAL.encode(value))
    refuse_keys(value, json_form)
    return text


def why_no_json(value: object, error: BaseException) -> str:
    """Why the value could not be encoded, and where in it."""
    return explained(value, error, json_form)


def canonical_json(value: Json) -> str:
    """The same for a value that came out of `decode`: its keys are text and it does not hold itself; cheaper."""
    return _utf8(_canonical_text(value))


def canonical_list(*texts: str) -> str:
    """The same for a list of texts; cheaper."""
    return _utf8(f"[{','.join(map(_quoted, texts))}]")


def digest(value: object) -> str:
    """SHA-256 of the canonical text, in hex."""
    return text_digest(canonical(value))


def text_digest(text: str) -> str:
    """SHA-256 of the text, in hex."""
    made: str = _sha256()(text.encode()).hexdigest()
    return made


@cache
def _sha256() -> Callable[[bytes], Any]:
    import hashlib  # loaded when first needed: it maps the crypto library

    return hashlib.sha256


def decode(text: str | bytes, *, bytes_max: int | None = None, depth_max: int | None = None) -> Json:
    """Parse JSON from outside: bounded in size and depth, duplicate keys and NaN refused.

    Raises:
        CodecError: with reason `too_large`, `not_utf8`, `too_deep`, `duplicate_key`, `not_a_number`,
            `number_too_large` or `syntax`.
    """
    bound = limits()
    _check_size(text, bound.json_bytes_max if bytes_max is None else bytes_max)
    try:
        text = _utf8(text) if isinstance(text, str) else text.decode()
        _check_depth(text, bound.json_depth_max if depth_max is None else depth_max)
        value = _DECODER.decode(text) if len(text) <= _PIECE_CHARS else _decoded_large(text)
        if _SURROGATE.search(text):
            _utf8(_ENCODER.encode(value))
    except CodecError:
        raise
    except json.JSONDecodeError as broken:
        raise CodecError("syntax", f"{broken.msg} at line {broken.lineno} column {broken.colno}") from None
    except (UnicodeDecodeError, UnicodeEncodeError) as broken:
        raise CodecError("not_utf8", f"not UTF-8: {broken.reason}") from None
    except RecursionError:
        raise CodecError("too_deep", "nested too deeply") from None
    except ValueError:  # the interpreter refuses whole numbers that take long to read
        raise CodecError("number_too_large", "a whole number has too many digits") from None
    return value


def utc_text(wall_us: int) -> str:
    """Microseconds since 1970 as ISO 8601 in UTC: `2024-08-28T15:30:00Z`, with a fraction only where there is one."""
    moment = datetime.fromtimestamp(wall_us // 1_000_000, UTC).replace(microsecond=wall_us % 1_000_000)
    return moment.isoformat().replace("+00:00", "Z")


def json_form(value: object) -> object:
    """One step towards JSON for a value that JSON does not know.

    Raises:
        SecretLeak: the value is a `Secret`.
        TypeError: there is no such step.
    """
    if isinstance(value, Secret):
        raise SecretLeak
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if any(kind.__name__ in _AS_TEXT for kind in type(value).__mro__):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Set):
        return sorted(value, key=lambda item: (str(item), type(item).__name__))
    if is_dataclass(value) and not isinstance(value, type | Private):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")


# By name, so that the modules that define these types are loaded only by the code that uses them.
_AS_TEXT = frozenset({"UUID", "Decimal", "PurePath"})


# Possessive, and content with a missing closing quote, so that hostile text costs linear time.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_WHOLE = re.compile(r'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_BRACKET = re.compile(r"[][{}]")
_PIECE_CHARS = 65_536
"""Number of characters searched in one go: a longer search would hold up every other thread, also an event loop."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _check_size(text: str | bytes, bytes_max: int) -> None:
    # A str has at most four bytes a character, so only long ones need the exact count.
    size = len(text)
    if isinstance(text, str) and size * 4 > bytes_max >= size:
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > bytes_max:
        raise CodecError("too_large", f"{size} bytes where {bytes_max} are allowed")


def _check_depth(text: str, depth_max: int) -> None:
    # Cheap bound first: fewer opening brackets than the limit can never nest too deep.
    if text.count("[") + text.count("{") <= depth_max:
        return
    depth = start = 0
    size = _PIECE_CHARS
    while start < len(text) and size < 2 * len(text) + 2 * _PIECE_CHARS:
        whole = _WHOLE.match(text, start, start + size)
        if whole is None or whole.end() == start:
            size *= 2  # a string is longer than the piece, or never ends
            continue
        for bracket in _BRACKET.findall(_STRING.sub("", whole[0])):
            depth += 1 if bracket in "[{" else -1
            if depth > depth_max:
                raise CodecError("too_deep", f"nested deeper than {depth_max} levels")
        start, size = whole.end(), _PIECE_CHARS


def _decoded_large(text: str) -> Json:
    # A million small lists are built in a twentieth of a second, and collecting garbage meanwhile takes ten times that.
    with fewer_collections():
        return _SHARING.decode(text)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise CodecError("duplicate_key", f"the key {twice!r} stands twice in one object")
    return result


def _no_constant(name: str) -> Json:
    raise CodecError("not_a_number", f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise CodecError("number_too_large", "a number is too large")
    return value


def _utf8(text: str) -> str:
    if not text.isascii():
        text.encode()  # half a surrogate pair has no UTF-8
    return text


_quoted = json.encoder.encode_basestring
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=json_form)
_CANONICAL = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True, default=json_form
)


def _made_once() -> Callable[[Json], str]:
    """The canonical encoder without the parts that `JSONEncoder.encode` makes anew for each value."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # not CPython
        return _CANONICAL.encode
    pieces = make(None, json_form, _quoted, None, ":", ",", True, False, False)
    return lambda value: "".join(pieces(value, 0))


_canonical_text = _made_once()
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
# A function of ours for each number lets other threads have a turn, which the scanner by itself does not.
_SHARING = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=lambda digits: int(digits)
)
