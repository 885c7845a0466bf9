"""What evidence has to be: recent, in bounds, of a known kind, hashed, witnessed. Each rule has a code of its own.

The first rule that is broken answers: a body has one code, and the details are that code's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from holdfast_systems.credentials.faults import (
    INVALID_COORDINATES,
    INVALID_EVIDENCE_TYPE,
    INVALID_MEDIA_HASH,
    INVALID_PAYLOAD,
    INVALID_TIMESTAMP,
    MISSING_WITNESSES,
)
from holdfast_systems.credentials.fields import REQUIRED, Problem, find, text_reason
from holdfast_systems.credentials.model import EvidenceType

AGE_DAYS_MAX = 30
AHEAD_S_MAX = 300
"""Maximum time by which the sender's clock may be ahead of ours."""
WITNESSES_MAX = 50
DAY_S = 86_400
TIMESTAMP, MEDIA_HASH, WITNESSES = "proof.timestamp", "proof.media_hash", "proof.witnesses"

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_HASH = re.compile(r"[0-9a-fA-F]{64}\Z")

# Where coordinates may stand; the first place that has any is the one that counts.
PLACES = ("proof.location", "subject.evidence_data.location", "subject.evidence_data")
NAMES = (("lat", "lon"), ("latitude", "longitude"))
BOUNDS = (90, 180)


def check(document: Mapping[str, Any], now_us: int) -> EvidenceType:
    """The kind of evidence, when it is good.

    Raises:
        Failure: INVALID_EVIDENCE_TYPE, INVALID_TIMESTAMP, INVALID_MEDIA_HASH, INVALID_COORDINATES,
            MISSING_WITNESSES; INVALID_PAYLOAD when a field of the proof is missing.
    """
    kind = _kind(document)
    _check_timestamp(find(document, TIMESTAMP), now_us)
    media_hash, witnesses = find(document, MEDIA_HASH), _witnesses(document)
    if kind is EvidenceType.PHOTO or media_hash is not None:
        _check_hash(media_hash)
    place = next(_places(document), None)
    if place is not None:
        _check_coordinates(document, *place)
    elif kind is EvidenceType.GPS:
        raise _missing("proof.location")
    if kind is EvidenceType.WITNESS or witnesses:
        _check_witnesses(witnesses)
    return kind


def _kind(document: Mapping[str, Any]) -> EvidenceType:
    given = find(document, "subject.evidence_type")
    try:
        return EvidenceType(given)
    except ValueError:
        raise INVALID_EVIDENCE_TYPE(
            field="subject.evidence_type", reason="unknown", allowed=[kind.value for kind in EvidenceType]
        ) from None


def _check_timestamp(given: object, now_us: int) -> None:
    if given is None:
        raise _missing(TIMESTAMP)
    moment = _moment(given)
    if moment is None:
        raise INVALID_TIMESTAMP(
            "Invalid timestamp format. Expected RFC3339", field=TIMESTAMP, reason="format", expected="RFC 3339"
        )
    age_s = now_us / 1_000_000 - moment.timestamp()
    if age_s < -AHEAD_S_MAX:
        raise INVALID_TIMESTAMP("Timestamp is in the future", field=TIMESTAMP, reason="in_future")
    if age_s > AGE_DAYS_MAX * DAY_S:
        raise INVALID_TIMESTAMP(
            "Timestamp is too old: {actual_age_days} days",
            field=TIMESTAMP,
            reason="exceeds_max_age",
            max_age_days=AGE_DAYS_MAX,
            actual_age_days=int(age_s // DAY_S),
        )


def _moment(given: object) -> datetime | None:
    if not isinstance(given, str) or not _RFC_3339.match(given):
        return None
    try:
        # Years at the ends of the calendar have no UTC form in every zone.
        return datetime.fromisoformat(given.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _check_hash(given: object) -> None:
    if given is None:
        raise _missing(MEDIA_HASH)
    if not isinstance(given, str) or not _HASH.match(given):
        raise INVALID_MEDIA_HASH(field=MEDIA_HASH, reason="format", expected="64 hex digits")


def _places(document: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    for place in PLACES:
        found = find(document, place)
        if place == PLACES[0] and found is not None and not isinstance(found, dict):
            raise INVALID_COORDINATES(field=place, reason="type", expected="an object with lat and lon")
        for names in NAMES:
            if isinstance(found, dict) and any(name in found for name in names):
                yield place, names
        if place == PLACES[0] and isinstance(found, dict):
            yield place, NAMES[0]  # it is there, and has neither


def _check_coordinates(document: Mapping[str, Any], place: str, names: tuple[str, str]) -> None:
    for name, bound in zip(names, BOUNDS, strict=True):
        field, given = f"{place}.{name}", find(document, f"{place}.{name}")
        if given is None:
            raise _missing(field)
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise INVALID_COORDINATES(field=field, reason="not_a_number", min=-bound, max=bound)
        if not -bound <= given <= bound:
            raise INVALID_COORDINATES(field=field, reason="out_of_range", min=-bound, max=bound, actual=_shown(given))


def _shown(given: float) -> float:
    # A whole number may have thousands of digits.
    return given if abs(given) < 1e15 else float(f"{float(min(max(given, -1e300), 1e300)):.3g}")


def _witnesses(document: Mapping[str, Any]) -> Any:
    stated = find(document, WITNESSES)
    return find(document, "subject.evidence_data.witnesses") if stated is None else stated


def _check_witnesses(given: object) -> None:
    if not isinstance(given, list) or not given:
        reason = REQUIRED if given is None else "min_items" if given == [] else "type"
        raise MISSING_WITNESSES(field=WITNESSES, reason=reason, min_items=1)
    if len(given) > WITNESSES_MAX:
        raise invalid([Problem(WITNESSES, "max_items")], max_items=WITNESSES_MAX)
    bad = [Problem(f"{WITNESSES}.{place}", REQUIRED) for place, one in enumerate(given) if not _is_somebody(one)]
    if bad:
        raise invalid(bad)


def _is_somebody(witness: object) -> bool:
    """A witness is a name or an id, or an object that has one."""
    if isinstance(witness, dict):
        return any(text_reason(witness.get(name)) is None for name in ("witness_name", "witness_id", "user_id", "name"))
    return text_reason(witness) is None


def invalid(found: Sequence[Problem], **facts: Any) -> Exception:
    """INVALID_PAYLOAD for the first problem; where there are more, all of them are listed."""
    first = found[0]
    listed: dict[str, Any] = {}
    if len(found) > 1:
        listed["errors"] = [{"field": one.field, "reason": one.reason} for one in found]
    return INVALID_PAYLOAD(_plain(first.message), field=first.field, reason=first.reason, **facts, **listed)


def _missing(field: str) -> Exception:
    return invalid([Problem(field, REQUIRED)])


def _plain(message: str) -> str:
    return message.replace("{", "(").replace("}", ")")  # braces would be taken for the names of details
