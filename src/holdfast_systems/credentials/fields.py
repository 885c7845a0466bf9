"""The shape of each event type as a table; it checks payloads, and it is what the API's schema says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast_systems.credentials.model import VOUCH_POINTS, EventType, EvidenceType

NAME_CHARS_MAX = 200
TITLE_CHARS_MAX = 200
TEXT_CHARS_MAX = 2_000
NOTE_CHARS_MAX = 500
EVENT_ID_CHARS_MAX = 50
PROBLEMS_MAX = 50
"""Maximum number of bad fields that are reported."""
REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a payload."""

    path: str
    kind: type = str
    required: bool = True
    chars_max: int = NAME_CHARS_MAX
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """One field that is not as it should be."""

    field: str
    reason: str

    @property
    def message(self) -> str:
        missing = self.reason == REQUIRED
        return f"Missing required field: {self.field}" if missing else f"Invalid field: {self.field} ({self.reason})"


ACTOR = (
    Field(path="actor", kind=dict),
    Field(path="actor.user_id"),
    Field(path="actor.username"),
)
SUBJECT = Field(path="subject", kind=dict)
COMMON = (*ACTOR, SUBJECT)
ABOUT = Field(path="subject.contribution_id")
SHAPES: Mapping[EventType, Sequence[Field]] = {
    EventType.CONTRIBUTION_CREATED: (
        *COMMON,
        Field(path="subject.contribution_id", required=False),
        Field(path="subject.contribution_type"),
        Field(path="subject.title", chars_max=TITLE_CHARS_MAX),
        Field(path="subject.description", required=False, chars_max=TEXT_CHARS_MAX),
    ),
    EventType.POR_EVIDENCE: (
        *COMMON,
        ABOUT,
        Field(path="subject.evidence_type", choices=tuple(EvidenceType)),
        Field(path="subject.evidence_data", kind=dict, required=False),
        Field(path="proof", kind=dict),
    ),
    EventType.CONTRIBUTION_VERIFIED: (
        *COMMON,
        ABOUT,
        Field(path="subject.note", required=False, chars_max=NOTE_CHARS_MAX),
    ),
    EventType.CONTRIBUTION_REJECTED: (
        *COMMON,
        ABOUT,
        Field(path="subject.reason", required=False, chars_max=NOTE_CHARS_MAX),
    ),
    EventType.VOUCH_SUBMITTED: (
        *COMMON,
        Field(path="subject.vouchee_id"),
        Field(path="subject.skill_id", required=False),
        Field(path="subject.weight_hint", required=False, choices=tuple(VOUCH_POINTS)),
        Field(path="subject.message", required=False, chars_max=NOTE_CHARS_MAX),
    ),
}

# Its own code says more than INVALID_PAYLOAD would, so the table does not ask for the value here.
JUDGED_ELSEWHERE = frozenset({"subject.evidence_type"})


def find(document: Mapping[str, Any], path: str) -> Any:
    """What stands at the path; None where there is nothing, or where the way there is blocked."""
    here: Any = document
    for part in path.split("."):
        here = here.get(part) if isinstance(here, dict) else None
    return here


def problems(document: Mapping[str, Any], shape: Sequence[Field]) -> list[Problem]:
    """Every field that is not as the shape says, in its order; nothing below a field that is itself wrong."""
    found: list[Problem] = []
    for field in shape:
        parent = field.path.rpartition(".")[0]
        if parent and not isinstance(find(document, parent), dict):
            continue
        reason = _reason(find(document, field.path), field)
        if reason is not None:
            found.append(Problem(field.path, reason))
    return found[:PROBLEMS_MAX]


def text_reason(value: object, chars_max: int = NAME_CHARS_MAX) -> str | None:
    """Why this is not a text that can be kept; None when it is."""
    if not isinstance(value, str):
        return "type"
    if not value.strip():
        return "min_length"
    if len(value) > chars_max:
        return "max_length"
    return "format" if "\0" in value else None  # no database keeps that sign in a text


def _reason(value: object, field: Field) -> str | None:
    if value is None:
        return REQUIRED if field.required else None
    if field.kind is dict:
        return None if isinstance(value, dict) else "type"
    reason = text_reason(value, field.chars_max)
    if reason is None and field.choices and field.path not in JUDGED_ELSEWHERE and value not in field.choices:
        return "enum"
    return reason


def json_schema() -> dict[str, Any]:
    """The payloads as JSON Schema, for the API's description."""
    return {"oneOf": [_schema(event_type, shape) for event_type, shape in SHAPES.items()]}


def _schema(event_type: EventType, shape: Sequence[Field]) -> dict[str, Any]:
    return {
        "title": event_type.value,
        "type": "object",
        "required": ["event_type", *_required(shape, "")],
        "properties": {
            "event_id": {"type": "string", "maxLength": EVENT_ID_CHARS_MAX, "examples": ["evt_a1b2c3d4e5f6789a"]},
            "event_type": {"const": event_type.value},
            **dict(_properties(shape, "")),
        },
    }


def _properties(shape: Sequence[Field], under: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for field in _below(shape, under):
        name = field.path.rpartition(".")[2]
        if field.kind is dict:
            inner = {"properties": dict(_properties(shape, field.path)), "required": _required(shape, field.path)}
            yield name, {"type": "object", **{key: value for key, value in inner.items() if value}}
        else:
            choices = {"enum": list(field.choices)} if field.choices else {}
            yield name, {"type": "string", "minLength": 1, "maxLength": field.chars_max, **choices}


def _required(shape: Sequence[Field], under: str) -> list[str]:
    return [field.path.rpartition(".")[2] for field in _below(shape, under) if field.required]


def _below(shape: Sequence[Field], under: str) -> list[Field]:
    return [field for field in shape if field.path.rpartition(".")[0] == under]
