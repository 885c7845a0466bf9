"""A policy file: retry rules in TOML or YAML that win over the declared ones.

An overlay changes numbers, not meaning: what it does not name stays as declared, and so does the condition
(`Retry.when`). A file is applied as a whole or, when anything in it is wrong, not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.base import limits
from holdfast.catalog import Catalog, RetryRule
from holdfast.policy.backoff import Backoff, PolicyInvalid
from holdfast.policy.jitter import Extra
from holdfast.policy.retry import Retry

TOP = "retry_policies"
BASE_DELAY_MS = 1_000
MAX_DELAY_MS = 300_000
BACKOFF_MULTIPLIER = 2.0
JITTER = 0.1
MULTIPLIER_MAX = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a policy file; an empty key is the file itself."""

    key: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}; {self.remedy}" if self.key else f"{self.reason}; {self.remedy}"


class OverlayInvalid(PolicyInvalid):
    """A policy file cannot be used; `problems` lists everything that is wrong with it."""

    def __init__(self, path: str, *problems: Problem) -> None:
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))
        self.path = path
        self.problems = problems


def apply_overlay(path: str | os.PathLike[str], catalog: Catalog) -> None:
    """Let the rules of the file win over those the catalog declares.

    Raises:
        OverlayInvalid: something in the file is wrong; nothing was changed.
    """
    catalog.overlay(load_overlay(path, catalog))


def load_overlay(path: str | os.PathLike[str], catalog: Catalog) -> dict[str, Retry | bool]:
    """Read and check the rules of the file: a `Retry` for each code, or False for never.

    Raises:
        OverlayInvalid: listing everything that is wrong.
    """
    place = os.fspath(path)
    document = read_document(place)
    problems = list(_document_problems(document, catalog))
    if problems:
        raise OverlayInvalid(place, *problems)
    return {code: _rule(block, catalog[code].retry) for code, block in document[TOP].items()}


def _rule(block: Mapping[str, Any], declared: RetryRule | bool) -> Retry | bool:
    if block.get("fatal") or block.get("max_attempts", 2) <= 1:
        return False
    rule = _declared_rule(declared)
    if "max_attempts" in block:
        rule = replace(rule, attempts=block["max_attempts"])
    if "respect_retry_after" in block:
        rule = replace(rule, honour_retry_after=block["respect_retry_after"])
    # Delays go together: one of them in the file means that the file describes the whole backoff.
    return replace(rule, backoff=_backoff(block)) if block.keys() & _DELAY_FIELDS else rule


def _declared_rule(declared: RetryRule | bool) -> Retry:
    if isinstance(declared, Retry):
        return declared
    return Retry(backoff=_backoff({}), when=None if isinstance(declared, bool) else declared.allows)


def _backoff(block: Mapping[str, Any]) -> Backoff:
    share = block.get("jitter", JITTER)
    jitter = Extra(share) if share else None
    if "delays_ms" in block:
        return Backoff.listed(*(delay_ms / 1_000 for delay_ms in block["delays_ms"]), jitter=jitter)
    return Backoff.exponential(
        block.get("base_delay_ms", BASE_DELAY_MS) / 1_000,
        factor=float(block.get("backoff_multiplier", BACKOFF_MULTIPLIER)),
        cap_s=block.get("max_delay_ms", MAX_DELAY_MS) / 1_000,
        jitter=jitter,
    )


def _document_problems(document: Any, catalog: Catalog) -> Iterator[Problem]:
    if not isinstance(document, dict):
        yield Problem("", f"holds {_shown(document)}, not a table", f"put the rules under {TOP}")
        return
    for key in document:
        if key != TOP:
            yield Problem(key, "is not known here", f"only {TOP} may stand at the top")
    if TOP not in document:
        yield Problem(TOP, "is missing", "put the rules under it, by code")
    elif not isinstance(document[TOP], dict):
        yield Problem(TOP, f"{_shown(document[TOP])} is not a table", "put the rules under it, by code")
    else:
        for code, block in document[TOP].items():
            if code not in catalog:
                yield Problem(f"{TOP}.{code}", f"{catalog.name} has no such code", _suggestion(code, catalog))
            yield from _block_problems(f"{TOP}.{code}", block)


def _block_problems(at: str, block: Any) -> Iterator[Problem]:
    if not isinstance(block, dict) or not block:
        yield Problem(at, f"{_shown(block)} is not a rule", f"give it at least one of {', '.join(_FIELDS)}")
        return
    wrong = False
    for name, value in block.items():
        check = _FIELDS.get(name)
        found = check(value) if check else ("is not a field of a rule", f"the fields are {', '.join(_FIELDS)}")
        if found:
            wrong = True
            yield Problem(f"{at}.{name}", *found)
    if not wrong:
        yield from _contradictions(at, block)


def _contradictions(at: str, block: Mapping[str, Any]) -> Iterator[Problem]:
    if block.get("fatal") and block.get("max_attempts", 0) > 1:
        reason = f"true contradicts max_attempts of {block['max_attempts']}"
        yield Problem(f"{at}.fatal", reason, "remove one of them")
    listed_too = [name for name in _CURVE_FIELDS if name in block]
    if "delays_ms" in block and listed_too:
        yield Problem(f"{at}.delays_ms", f"a list contradicts {', '.join(listed_too)}", "keep the list or the others")
    cap_ms = block.get("max_delay_ms", MAX_DELAY_MS)
    if block.get("base_delay_ms", 0) > cap_ms:
        unsaid = "" if "max_delay_ms" in block else ", its default"
        reason = f"{_shown(block['base_delay_ms'])} is above max_delay_ms ({_shown(cap_ms)}{unsaid})"
        yield Problem(f"{at}.base_delay_ms", reason, "raise max_delay_ms or lower this")


Found = tuple[str, str] | None
"""The reason and the remedy when a value is wrong."""


def _number(value: object, low: float, high: float, unit: str, *, whole: bool = False) -> Found:
    kind = "a whole number" if whole else "a number"
    remedy = f"use {kind}{unit} from {low:.12g} to {high:.12g}"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return f"{_shown(value)} is not {kind}", remedy
    if value < 0:
        return f"{_shown(value)} is negative", remedy
    if not low <= value <= high:
        return f"{_shown(value)} is out of range", remedy
    return None


def _attempts(value: object) -> Found:
    return _number(value, 0, limits().attempts_max, "", whole=True)


def _delay_ms(value: object) -> Found:
    return _number(value, 0, limits().delay_s_max * 1_000, " of milliseconds")


def _delays_ms(value: object) -> Found:
    most = limits().attempts_max
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        return f"{_shown(value)} is not a list of 1 to {most} delays", "write one delay in milliseconds for each retry"
    found = ((number, _delay_ms(delay)) for number, delay in enumerate(value, 1))
    return next(((f"delay {number}: {wrong[0]}", wrong[1]) for number, wrong in found if wrong), None)


def _flag(value: object) -> Found:
    return None if isinstance(value, bool) else (f"{_shown(value)} is neither true nor false", "use true or false")


_FIELDS: dict[str, Callable[[object], Found]] = {
    "max_attempts": _attempts,
    "base_delay_ms": _delay_ms,
    "max_delay_ms": _delay_ms,
    "backoff_multiplier": lambda value: _number(value, 1, MULTIPLIER_MAX, ""),
    "respect_retry_after": _flag,
    "fatal": _flag,
    "jitter": lambda value: _number(value, 0, 1, ""),
    "delays_ms": _delays_ms,
}
_CURVE_FIELDS = ("base_delay_ms", "max_delay_ms", "backoff_multiplier")
_DELAY_FIELDS = {*_CURVE_FIELDS, "jitter", "delays_ms"}


def _shown(value: object) -> str:
    """A value in a message: short, and never spelling out a container, which aliases can make endless."""
    if isinstance(value, dict | list | set | tuple):
        return f"{'an empty' if not value else 'a'} {'table' if isinstance(value, dict) else 'list'}"
    if value is None:
        return "nothing"
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number of more than 18 digits"
    text = repr(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _suggestion(code: str, catalog: Catalog) -> str:
    from difflib import get_close_matches  # only a mistake pays for loading it

    near = get_close_matches(code[:100], [fault.code for fault in catalog], n=1)
    return f"did you mean {near[0]}?" if near else "declare it in the catalog, or remove the rule"


def read_document(place: str) -> Any:
    """What a file in TOML or YAML says; nothing of it is checked yet.

    Raises:
        OverlayInvalid: it cannot be read, is too large, or is not what its name says.
    """
    reader = _READERS.get(os.path.splitext(place)[1].lower())
    if reader is None:
        raise _unreadable(place, "is neither TOML nor YAML", "name it .toml, .yaml or .yml")
    raw = _raw(place)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        line = raw.count(b"\n", 0, broken.start) + 1
        raise _unreadable(place, f"line {line} is not UTF-8", "save the file as UTF-8") from None
    try:
        return reader(place, text)
    except RecursionError:
        raise _unreadable(place, "is nested too deeply", "a rule needs no nesting") from None


def _raw(place: str) -> bytes:
    most = limits().policy_file_bytes_max
    if os.path.exists(place) and not os.path.isfile(place):
        raise _unreadable(place, "is not a file", "name the policy file itself")
    try:
        with open(place, "rb") as file:
            raw = file.read(most + 1)
    except (OSError, ValueError) as refused:
        reason = getattr(refused, "strerror", None) or str(refused)
        raise _unreadable(place, f"cannot be read ({reason})", "check its path and its rights") from None
    if len(raw) > most:
        raise _unreadable(place, f"is larger than {most} bytes", "shorten it or raise policy_file_bytes_max")
    return raw


def _from_toml(place: str, text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError as broken:
        raise _unreadable(place, f"is not TOML: {broken}", "correct the syntax") from None


def _from_yaml(place: str, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise _unreadable(place, "needs PyYAML to be read", 'pip install "holdfast[yaml]" or write TOML') from None

    class OneMeaning(yaml.SafeLoader):
        """Keys are text as written and stand once. Merging is refused: it hides doubles, and can grow without end."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            table: dict[Any, Any] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                    raise yaml.MarkedYAMLError(problem="a key must be plain text", problem_mark=key.start_mark)
                if key.value in table:
                    raise yaml.MarkedYAMLError(problem=f"{key.value!r} stands twice", problem_mark=key.start_mark)
                table[key.value] = self.construct_object(value, deep=deep)
            return table

    try:
        return yaml.load(text, OneMeaning)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as broken:
        # The loader lets plain Python errors through for values such as `2024-02-30`.
        reason = getattr(broken, "problem", None) or str(broken).partition("\n")[0]
        raise _unreadable(place, f"is not YAML: {reason}{_line_of(broken, text)}", "correct the syntax") from None


def _line_of(broken: Exception, text: str) -> str:
    mark, position = getattr(broken, "problem_mark", None), getattr(broken, "position", None)
    if mark is None and position is None:
        return ""
    return f" (at line {mark.line + 1 if mark else text.count(chr(10), 0, position) + 1})"


def _unreadable(place: str, reason: str, remedy: str) -> OverlayInvalid:
    return OverlayInvalid(place, Problem("", reason, remedy))


_READERS: dict[str, Callable[[str, str], Any]] = {".toml": _from_toml, ".yaml": _from_yaml, ".yml": _from_yaml}
