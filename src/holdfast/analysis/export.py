"""Catalogs as plain records, from which every export is made and which two versions are compared by.

Always true: a fault that several catalogs share unchanged is one record that names them all; what differs in anything
but its address is two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.base import plain
from holdfast.catalog import Catalog, Fault
from holdfast.http.wording import retry_words
from holdfast.policy import Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One declared fault, and the catalogs that have it just so."""

    code: str
    status: int
    retryable: bool
    """Whether occurrences are retried as a rule."""
    conditional: bool = False
    """Whether the rule looks at each occurrence and may still refuse one."""
    retry: tuple[str, ...] = ()
    """The rule in plain sentences."""
    says: str
    says_retrying: str = ""
    """What the person reads while another attempt follows; empty where that is the same."""
    technical: str = ""
    blame: str
    severity: str
    causes: tuple[str, ...] = ()
    remedy: str = ""
    examples: tuple[Mapping[str, Any], ...] = ()
    related: tuple[str, ...] = ()
    documentation_url: str = ""
    catalogs: tuple[str, ...] = ()

    @property
    def contract(self) -> tuple[int, bool]:
        """What clients rely on: a change of it breaks them."""
        return self.status, self.retryable


def entries(catalogs: Sequence[Catalog]) -> list[Entry]:
    """Every fault of these catalogs, with the rules that are in force now."""
    found: dict[str, list[Entry]] = {}
    for catalog in catalogs:
        for fault in catalog:
            _gather(found.setdefault(fault.code, []), _entry(fault), catalog.name)
    return [entry for same_code in found.values() for entry in same_code]


def by_contract(recorded: Sequence[Entry]) -> dict[str, list[Entry]]:
    """For each code the entries that differ in what clients rely on; nearly always one."""
    found: dict[str, list[Entry]] = {}
    for entry in recorded:
        known = found.setdefault(entry.code, [])
        twin = next((number for number, one in enumerate(known) if one.contract == entry.contract), None)
        if twin is None:
            known.append(entry)
        else:
            known[twin] = replace(known[twin], catalogs=(*known[twin].catalogs, *entry.catalogs))
    return found


def _gather(known: list[Entry], entry: Entry, catalog: str) -> None:
    for number, one in enumerate(known):
        if replace(one, catalogs=(), documentation_url=entry.documentation_url) == entry:
            if catalog not in one.catalogs:
                known[number] = replace(one, catalogs=(*one.catalogs, catalog))
            return
    known.append(replace(entry, catalogs=(catalog,)))


def _entry(fault: Fault) -> Entry:
    rule = fault.rule
    once = isinstance(rule, Retry) and rule.attempts == 1
    return Entry(
        code=fault.code,
        status=fault.status,
        retryable=fault.retryable and not once,
        conditional=isinstance(rule, Retry) and rule.when is not None,
        retry=tuple(retry_words(rule)),
        says=fault.says,
        says_retrying=fault.says_retrying,
        technical=fault.technical,
        blame=fault.blame.value,
        severity=fault.severity.value,
        causes=fault.causes,
        remedy=fault.remedy,
        examples=tuple(plain(example) for example in fault.examples),
        related=fault.related,
        documentation_url=fault.documentation_url,
    )
