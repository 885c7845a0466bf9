"""Companies, people and slots as plain values: ids, roles, scopes and what makes two websites the same. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

DAY_US = 86_400_000_000
ACCOUNT_CHARS_MAX = 200

COMPANY_SHAPE = r"CO-[0-9]{8}-[0-9]{6,12}"
PERSON_SHAPE = r"PE-[0-9]{8}-[0-9]{6,12}"
SLOT_SHAPE = rf"SL-({COMPANY_SHAPE})-(CEO|CFO|HR)"
ID_SHAPE = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PLAIN_WEBSITE = re.compile(rf"https?://({_LABEL}(?:\.{_LABEL})*)(/[A-Za-z0-9/._~-]*)?\Z", re.ASCII)
_SLOT = re.compile(rf"{SLOT_SHAPE}\Z", re.ASCII)


class Kind(StrEnum):
    """What has a number of its own in an id."""

    COMPANY = "CO"
    PERSON = "PE"


class Role(StrEnum):
    """The slots of every company."""

    CEO = "CEO"
    CFO = "CFO"
    HR = "HR"


class Scope(StrEnum):
    """What an API key may do."""

    READ = "read"
    WRITE = "write"
    VERIFY = "verify"
    IMPORT = "import"


class OnConflict(StrEnum):
    """What happens when somebody else sits in the slot."""

    FAIL = "fail"
    FORCE = "force_reassign"
    REVIEW = "manual_review"


class Decision(StrEnum):
    """What a person decides about a review."""

    APPROVE = "approve"
    REJECT = "reject"


RESOLUTION_OPTIONS = ("force_reassign", "assign_to_different_slot", "manual_review")


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of one company."""

    company_uid: str
    role: Role

    @property
    def uid(self) -> str:
        """Such as `SL-CO-20240828-000001-CEO`."""
        return f"SL-{self.company_uid}-{self.role}"


def uid(kind: Kind, day: str, number: int) -> str:
    """An id such as `CO-20240828-000001`; more than a million a day have longer numbers."""
    return f"{kind}-{day}-{number:06d}"


def day_of(at_us: int) -> str:
    """The day of a moment in UTC, such as `20240828`."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y%m%d")


def slot_of(text: str) -> Slot | None:
    """The slot that an id names; None when it names none."""
    found = _SLOT.match(text)
    return None if found is None else Slot(found[1], Role(found[2]))


def is_plain_website(website: str) -> bool:
    """Whether the address is spelt as most are: no port, no query, no special characters. Cheap to ask."""
    return _PLAIN_WEBSITE.match(website) is not None


def website_key(website: str) -> str:
    """What two spellings of one website have in common: host and path, without scheme, case and last slash."""
    plain = _PLAIN_WEBSITE.match(website)
    if plain is not None:
        return f"{plain[1].lower()}{(plain[2] or '').rstrip('/')}"
    parts = urlsplit(website)
    host = (parts.hostname or "").rstrip(".")
    standard = {"http": 80, "https": 443}[parts.scheme.lower()]
    port = "" if parts.port in (None, standard) else f":{parts.port}"
    query = f"?{parts.query}" if parts.query else ""
    return f"{host}{port}{parts.path.rstrip('/')}{query}"


def scope_of(method: str, path: str) -> Scope:
    """The scope that a request needs; `path` begins after `/v1`."""
    if method in ("GET", "HEAD", "OPTIONS"):
        return Scope.READ
    first = path.strip("/").partition("/")[0]
    return {"verifications": Scope.VERIFY, "imports": Scope.IMPORT}.get(first, Scope.WRITE)
