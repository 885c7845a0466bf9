"""What the error classes for clients have in common: the tables that they decide by, taken from the catalogs.

Always true: a client never takes a failure for retryable that one of the catalogs it may come from does not retry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from holdfast.analysis.export import Entry, by_contract
from holdfast.base import Limits
from holdfast.catalog.received import CODES_RETRIED, STATUSES_RETRIED, fault_of_status
from holdfast.catalog.status import HTTP_STATUSES

Contract = tuple[int, bool]
FAILED_FIRST, FAILED_LAST = 200, 599


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Everything in a client that depends on catalogs or on settings."""

    faults: dict[str, Contract]
    """Each code with its status and whether it is retried."""
    differing: dict[str, dict[str, Contract]]
    """The codes on which catalogs disagree, by catalog."""
    codes_retried: list[str]
    """Codes that no catalog has, and that mean the same everywhere."""
    statuses_retried: list[int]
    """What a status says about a code that no catalog has."""
    unnamed: dict[int, str]
    """The code that stands for a reply without one, by status; a single digit is its whole hundred."""
    unnamed_retried: list[tuple[int, int]]
    """First and last of the statuses at which such a reply is retried."""
    retry_after_s_max: float


def tables(recorded: Sequence[Entry]) -> Tables:
    """The tables for these faults."""
    variants = by_contract(recorded)
    exact = {status: fault.code for status, fault in HTTP_STATUSES.exact.items()}
    return Tables(
        faults={
            code: (found[0].status, all(entry.retryable for entry in found)) for code, found in sorted(variants.items())
        },
        differing={
            code: {catalog: entry.contract for entry in found for catalog in entry.catalogs}
            for code, found in sorted(variants.items())
            if len(found) > 1
        },
        codes_retried=sorted(CODES_RETRIED),
        statuses_retried=sorted(STATUSES_RETRIED),
        unnamed=exact | {hundred: fault.code for hundred, fault in HTTP_STATUSES.ranges.items()},
        unnamed_retried=_ranges(
            [status for status in range(FAILED_FIRST, FAILED_LAST + 1) if fault_of_status(status, None).retryable]
        ),
        retry_after_s_max=Limits().retry_after_s_max,
    )


def template(name: str) -> str:
    """The source of a client, with a place for the tables."""
    return files("holdfast.analysis").joinpath("clients", name).read_text("utf-8")


def filled(source: str, marks: tuple[str, str], generated: str) -> str:
    """The source with the part between the marks replaced by what was generated."""
    head, _, rest = source.partition(marks[0])
    _, _, tail = rest.partition(marks[1])
    return f"{head}{generated}{tail}"


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
