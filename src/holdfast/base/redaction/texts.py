"""Secrets inside a text, by the name before them: `password=…`, `"jwt": "…"`, `Authorization: …`, `--token …`.

Always true: the time is linear in the text, because a scan begins only where a name begins and goes on after the value.
"""

from __future__ import annotations

import re
from functools import cache

from holdfast.base.redaction.lines import printable
from holdfast.base.redaction.names import is_header, is_secret
from holdfast.base.redaction.shapes import masked_addresses, masked_shapes
from holdfast.base.secret import MASK

TEXT_CHARS_MAX = 8_192
"""A longer text is cut after it was masked, so that no secret is cut in half and then overlooked."""
READ_CHARS_MAX = 65_536
"""Of a longer text only the beginning is read."""
CUT = "…"

_PROSE = frozenset({
    "a", "an", "the", "must", "should", "is", "was", "are", "not", "no", "missing", "required", "invalid", "expired",
    "unexpected", "field", "value", "cannot", "can", "too", "may", "has", "does", "malformed", "incorrect", "wrong",
    "unknown", "unsupported", "empty", "input", "string", "expected", "ensure", "already",
})  # fmt: skip
"""Words that follow a name and a colon where a sentence goes on: `password: must have 8 characters`."""
_HARMLESS = re.compile(r"(?i:null|none|nil|true|false|undefined|\*\*\*\W{0,3})\Z")
_COUNT = re.compile(r"\d{1,9}\Z", re.ASCII)
_RANDOM = re.compile(r"(?=[A-Za-z+/_=]*\d)(?=[0-9+/_=]*[A-Za-z])[0-9A-Za-z+/_=]{16,}\Z")
_VERBS = (" is ", " was ")
_WHOLE_LINE = ("authorization", "cookie", "cookie2", "passphrase", "mnemonic", "phrase")


def redacted_text(text: str | None, chars_max: int = TEXT_CHARS_MAX) -> str:
    """The text without what looks like a secret and without control characters, cut where it is too long."""
    if not text:
        return ""
    if len(text) > READ_CHARS_MAX:
        # The last word may be half a secret.
        text = text[:READ_CHARS_MAX].rsplit(None, 1)[0] + CUT
    text = masked_addresses(text)
    for marks, pattern in _fields():
        if any(mark in text for mark in marks):
            text = _masked_fields(text, pattern)
    for mark, pattern in _enclosed():
        if mark in text:
            text = pattern.sub(_between, text)
    text = printable(masked_shapes(text))
    return text if len(text) <= chars_max else text[: chars_max - 1] + CUT


def _masked_fields(text: str, pattern: re.Pattern[str]) -> str:
    """The text with a mask for each value that follows a secret name."""
    told: list[str] = []
    done = at = 0
    while found := pattern.search(text, at):
        value = _value(text, found) if is_secret(found["name"]) or _is_key(found["name"]) else None
        if value is None:
            at = found.end("name")
            continue
        start, at = value.span("value")
        if at > start and _hides(found, value["value"], quoted=value.start() < start):
            told += (text[done:start], MASK)
            done = at
    return "".join((*told, text[done:])) if told else text


def _value(text: str, found: re.Match[str]) -> re.Match[str] | None:
    """What follows a name and its separator."""
    *others, line, line_in_quotes = _values()
    if found["separator"].strip() == ":" and not found["close"] and found["name"].lower().endswith(_WHOLE_LINE):
        before = text[found.start() - 1 : found.start()]
        others = [line_in_quotes if before and before in "\"'`" else line]
    return next((value for pattern in others if (value := pattern.match(text, found.end()))), None)


def _hides(found: re.Match[str], value: str, *, quoted: bool) -> bool:
    """Whether the value is to be masked; words of a sentence and counts are not."""
    name, separator = found["name"], found["separator"]
    if _HARMLESS.match(value):
        return False
    if _is_key(name):
        return _RANDOM.match(value) is not None
    if not quoted and separator.endswith(" ") and value.lower() in _PROSE:
        return False
    if not quoted and separator in _VERBS and value.rstrip(".!?").isalpha() and value.islower():
        return False
    return is_secret(name, int(value) if _COUNT.match(value) else value)


def _is_key(name: str) -> bool:
    """Whether it is called a key and nothing else: only what looks like one is masked then."""
    return name[-3:].lower() == "key" and (len(name) == len("key") or name[-4] == " ") and not is_secret(name)


def _between(found: re.Match[str]) -> str:
    """A value that stands between others: `<password>…</password>`, `('cookie', '…')`."""
    name, is_pair = found["name"], found["before"].rstrip("bB'\" ").endswith(",")
    hides = is_header(name) if is_pair else is_secret(name) or name.lower() == "identified"
    return f"{found['before']}{MASK}" if found["value"] and hides else found[0]


@cache
def _fields() -> tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]:
    """What comes before a value, and what a text must hold for that; compiled by the first text."""
    begin = r"(?<![\w.\-])"
    name = r"[\w.\-]++"
    # People write some names as two words: `API key`, `card number`.
    words = rf"{name}(?:[ ](?i:keys?|tokens?|secret|id|number|string|codes?|password|phrase))?"
    said = r"(?i:password|passphrase|secret)"
    close = r"(?P<close>(?:\\{0,4}[\"']|%22|%27)?(?:\]|%5[Dd])?)"
    annotated = r":[ ]?[\w.]{1,40}(?:\[[\w., ]{1,40}\])?(?: \| None)?[ ]?="
    separator = rf"(?P<separator>[ \t]{{0,4}}(?:{annotated}|=>|:=|->|==|=|:|%3[AaDd])[ \t]{{0,4}})"
    return (
        (("=", ":", "->", "%3"), re.compile(rf"{begin}(?P<name>{words}){close}{separator}")),
        (("--",), re.compile(rf"{begin}(?P<name>--{name})(?P<close>)(?P<separator>[ \t]{{1,4}})(?=[^\s\-])")),
        (_VERBS, re.compile(rf"{begin}(?P<name>{words})(?P<close>)(?P<separator>{'|'.join(_VERBS)})")),
        (("'", '"'), re.compile(rf"{begin}(?P<name>{said})(?P<close>)(?P<separator>[ \t]{{1,4}})(?=['\"])")),
    )


@cache
def _values() -> tuple[re.Pattern[str], ...]:
    """The forms of a value in the order in which they are tried; the last two go on to the end of the line."""
    # A value without quotes ends at a space or a mark, unless a letter follows the mark: `pa,ss` and `it's` go on.
    bare = (
        r"(?P<value>(?i:(?:bearer|basic|token|digest|apikey|negotiate)[ \t]+)?"
        r"(?:[^\s&;,\"'()<>\[\]{}\\]|,(?=[^\s,\"'])(?![A-Za-z_][\w.\-]{0,40}[=:])|['()\[\]{}](?=\w)|\\(?![rnt\"']))++)"
    )
    return tuple(
        re.compile(form)
        for form in (
            r"[bBrRuUfF]{0,2}\\{1,4}[\"'](?P<value>[^\"'\\\r\n]*+)",
            r"[bBrRuUfF]{0,2}\"(?P<value>(?:[^\"\\\r\n]++|\\.)*+)",
            r"[bBrRuUfF]{0,2}'(?P<value>(?:[^'\\\r\n]++|\\.)*+)",
            r"(?P<value>\[[^\]\r\n]*+\]?|\{[^}\r\n]*+\}?|\([^)\r\n]*+\)?)",
            bare,
            # Written as two characters, a line feed ends the line, too.
            r"(?P<value>(?:(?!\\[rn])[^\r\n])*+)",
            r"(?P<value>(?:(?!\\[rn])[^\r\n\"'`])*+)",
        )
    )


@cache
def _enclosed() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Names and values that no separator stands between, and what a text must hold for that."""
    return tuple(
        (mark, re.compile(form))
        for mark, form in (
            ("<", r"(?P<before><(?:\w{1,40}:)?(?P<name>[\w.\-]{1,80})(?:\s[^<>]{0,200})?>)(?P<value>[^<]*+)"),
            (
                ",",
                r"(?P<before>[bB]?([\"'])(?P<name>[\w\-]{1,80})\2\s{0,4},\s{0,4}[bB]?([\"']))(?P<value>[^\"'\r\n]*+)",
            ),
            (
                "name=",
                r"(?P<before>name=\"?(?P<name>[\w.\[\]\-]{1,80})\"?(?:\r?\n[^\r\n]{1,200}){0,3}\r?\n\r?\n)"
                r"(?P<value>[^\r\n]*+)",
            ),
            ("'", r"(?i)(?P<before>(?P<name>identified)[ \t]{1,4}by[ \t]{1,4}')(?P<value>[^'\r\n]*+)"),
        )
    )
