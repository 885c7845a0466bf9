"""From the bytes of a genuine request to an event: parsed, of a known type, complete, and with good evidence. Pure."""

from __future__ import annotations

import re
from typing import Any

from holdfast.base import CodecError, Json, decode, digest
from holdfast_systems.credentials import proof
from holdfast_systems.credentials.faults import INVALID_EVENT_TYPE, INVALID_JSON
from holdfast_systems.credentials.fields import COMMON, EVENT_ID_CHARS_MAX, REQUIRED, SHAPES, Problem, problems
from holdfast_systems.credentials.model import VOUCH_WEIGHT, Event, EventType, EvidenceType, contribution_id_of
from holdfast_systems.credentials.proof import invalid

EXPLANATION_CHARS_MAX = 200

_EVENT_ID = re.compile(rf"[A-Za-z0-9_.:-]{{1,{EVENT_ID_CHARS_MAX}}}\Z")


def parsed(body: bytes) -> dict[str, Json]:
    """The body as a JSON object.

    Raises:
        Failure: INVALID_JSON; INVALID_PAYLOAD when it is not an object.
    """
    try:
        document = decode(body, bytes_max=max(len(body), 1))
    except CodecError as broken:
        raise INVALID_JSON(reason=broken.reason, explanation=broken.explanation[:EXPLANATION_CHARS_MAX]) from broken
    if not isinstance(document, dict):
        raise invalid([Problem("body", "type")])
    return document


def event_id_of(document: dict[str, Json]) -> str:
    """The event's id; an event without one is known by what it says.

    Raises:
        Failure: INVALID_PAYLOAD when there is one that cannot be an id.
    """
    given = document.get("event_id")
    if given is None:
        return f"sha256:{digest(document)}"
    if not isinstance(given, str):
        raise invalid([Problem("event_id", "type")])
    if not _EVENT_ID.match(given):
        raise invalid([Problem("event_id", "format")])
    return given


def read_event(platform: str, event_id: str, document: dict[str, Json], now_us: int) -> Event:
    """The event that the document is.

    Raises:
        Failure: INVALID_EVENT_TYPE, INVALID_PAYLOAD with every bad field, or one of the codes of evidence.
    """
    event_type = _type_of(document)
    wrong = problems(document, SHAPES[event_type])
    if wrong:
        raise invalid(wrong)
    evidence_type = proof.check(document, now_us) if event_type is EventType.POR_EVIDENCE else None
    actor, subject = document["actor"], document["subject"]
    if event_type is EventType.VOUCH_SUBMITTED and subject["vouchee_id"] == actor["user_id"]:
        raise invalid([Problem("subject.vouchee_id", "self_vouch")])
    return _event(platform, event_id, event_type, evidence_type, actor, subject)


def _event(
    platform: str,
    event_id: str,
    event_type: EventType,
    evidence_type: EvidenceType | None,
    actor: dict[str, Any],
    subject: dict[str, Any],
) -> Event:
    about = subject.get("contribution_id")
    if about is None and event_type is EventType.CONTRIBUTION_CREATED:
        about = contribution_id_of(platform, event_id)
    return Event(
        platform=platform,
        id=event_id,
        type=event_type,
        actor_id=actor["user_id"],
        actor_name=actor["username"],
        contribution_id=about or "",
        contribution_type=subject.get("contribution_type") or "",
        title=subject.get("title") or "",
        evidence_type=evidence_type,
        vouchee_id=subject.get("vouchee_id") or "",
        skill_id=subject.get("skill_id"),
        weight=subject.get("weight_hint") or VOUCH_WEIGHT,
    )


def _type_of(document: dict[str, Json]) -> EventType:
    given = document.get("event_type")
    if not isinstance(given, str):
        reason = REQUIRED if given is None else "type"
        raise invalid([Problem("event_type", reason), *problems(document, COMMON)])
    try:
        return EventType(given)
    except ValueError:
        allowed = [kind.value for kind in EventType]
        raise INVALID_EVENT_TYPE(field="event_type", reason="unknown", allowed=allowed) from None
