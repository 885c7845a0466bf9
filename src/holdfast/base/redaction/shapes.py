"""Secrets that are known by their look, whatever stands before them: addresses with a password, keys, tokens, cards."""

from __future__ import annotations

import re
from functools import cache

from holdfast.base.secret import MASK

_WEB = frozenset({"http", "https", "ws", "wss"})
_PORT = re.compile(r"\d{1,5}(?=[/?#,.;)\]}]|\Z)", re.ASCII)


def masked_addresses(text: str) -> str:
    """The text with a mask for the password of each address, also where the password holds `@`, `:` or `/`."""
    if "://" not in text and "@" not in text:
        return text
    with_scheme, go_style = _addresses()
    return go_style.sub(rf"\1:{MASK}@", with_scheme.sub(_address, text))


def masked_shapes(text: str) -> str:
    """The text with a mask for each private key, token and card number."""
    for marks, pattern, mask in _shapes():
        if any(mark in text for mark in marks):
            text = pattern.sub(mask, text)
    text = _scheme().sub(_credentials, text)
    return _card().sub(_card_number, text)


def _address(found: re.Match[str]) -> str:
    rest = found["rest"]
    _, at, host = rest.rpartition("@")
    web = found["scheme"].lower() in _WEB
    if _PORT.match(rest) and (web or not at):
        return found[0]
    if not at and web:
        return found[0]
    # Without an `@` the text was cut or the password holds a quote.
    return f"{found['before']}{MASK}{at}{host if at else ''}"


def _credentials(found: re.Match[str]) -> str:
    given = found["given"]
    is_word = given.isalpha() and (given[1:].islower() or given.isupper()) and len(given) < 16
    return found[0] if is_word else f"{found['scheme']} {MASK}"


def _card_number(found: re.Match[str]) -> str:
    digits = [int(letter) for letter in found[0] if letter.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return found[0] if (sum(digits[-1::-2]) + sum(doubled)) % 10 else MASK


@cache
def _addresses() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return (
        re.compile(
            r"(?P<before>(?<![\w+.\-])(?P<scheme>[A-Za-z][\w+.\-]*+)://[^\s/?#:\[\]\"'<>`]*+:)(?P<rest>[^\s\"'<>`]*+)",
            re.ASCII,
        ),
        re.compile(r"(?<![^\s\"'=(])([\w.\-]{1,80}+):[^\s@]{1,200}+(?:@[^\s@(]{1,200}+){0,4}?@(?=(?:tcp|unix|udp)\()"),
    )


@cache
def _scheme() -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w\-])(?P<scheme>(?i:bearer|basic|negotiate|digest|apikey))[ \t]+(?P<given>[\w.~+/=\-]{6,})"
    )


@cache
def _card() -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w.\-])(?:[4-6]\d{3}([ \-]?)\d{4}\1\d{4}\1\d{1,7}|3[47]\d\d([ \-]?)\d{6}\2\d{5})(?![\w\-])"
    )


@cache
def _shapes() -> tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...]:
    """What a text must hold, the pattern and its mask; no pattern has two ways to match the same characters."""
    begin, label = r"(?<![A-Za-z0-9_])", r"[A-Z0-9 ]{0,40}"
    prefixed = "|".join((
        r"whs(?:ec|k|pk)_", r"(?:sk|rk|pk)_(?:live|test)_", r"gh[pousr]_", r"github_pat_", r"xox[abeoprs]-", r"xapp-",
        r"glpat-", r"gl(?:dt|ptt|cbt|ft|rt|soat)-", r"hv[sbr]\.", r"AIza", r"ya29\.", r"npm_", r"pypi-",
        r"SG\.", r"shp(?:at|ca|pa|ss)_", r"dop_v1_", r"hf_", r"gsk_", r"r8_", r"sq0(?:csp|atp)-", r"ATATT3x",
        r"dapi(?=[0-9a-f]{32})", r"AGE-SECRET-KEY-1", r"rubygems_", r"lin_api_", r"figd_", r"PMAK-",
        r"key-(?=[0-9a-f]{32})", r"EAACEdEose0cBA", r"nvapi-", r"xai-",
        r"sk-(?:proj-|ant-|or-|svcacct-|admin-)?(?=[A-Za-z_\-]{0,40}\d)",
    ))  # fmt: skip
    return (
        (
            ("-----BEGIN",),
            re.compile(rf"(?s)-----BEGIN {label}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END {label}-----|\Z)"),
            MASK,
        ),
        (
            ("_", "-", ".", "AIza", "ATATT3x", "dapi", "EAAC"),
            re.compile(rf"{begin}({prefixed})[A-Za-z0-9._+/=\-]{{8,}}"),
            rf"\1{MASK}",
        ),
        (
            ("KIA", "SIA", "AGPA", "AROA", "AIDA"),
            re.compile(rf"{begin}(A[KS]IA|AGPA|AROA|AIDA)[0-9A-Z]{{16}}(?![0-9A-Za-z])"),
            rf"\1{MASK}",
        ),
        (("eyJ",), re.compile(r"(?<![\w\-])eyJ[A-Za-z0-9_\-]{8,}+(?:\.[A-Za-z0-9_\-]*+){1,4}"), MASK),
        (("/",), re.compile(r"(?i)(hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/\-]+"), rf"\1{MASK}"),
        (("/",), re.compile(r"(?i)(discord(?:app)?\.com/api/webhooks/\d+/)[\w\-]+"), rf"\1{MASK}"),
        ((":",), re.compile(r"(?<![\w:])\d{8,10}:[A-Za-z0-9_\-]{35}(?![\w\-])"), MASK),
        (("-u",), re.compile(r"(?<!\S)((?:-u|--user)[ =]+[\"']?[^\s:\"']{1,80}:)[^\s\"']+"), rf"\1{MASK}"),
    )
