"""The validation table, rule by rule: what is refused, with which code, field and reason."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from holdfast.base import encode, utc_text
from holdfast.catalog import Failure
from holdfast_systems.credentials.fields import SHAPES, json_schema
from holdfast_systems.credentials.model import EventType
from holdfast_systems.credentials.payload import event_id_of, parsed, read_event

NOW_US = 1_770_000_000_000_000
DAY_US = 86_400_000_000
SECOND_US = 1_000_000
HASH = "0123456789abcdef" * 4
ACTOR = {"user_id": "user123", "username": "alice"}


def proof_of(kind: str, **proof: Any) -> dict[str, Any]:
    return {
        "event_id": "evt_a1b2c3d4e5f6789a",
        "event_type": "por_evidence",
        "actor": ACTOR,
        "subject": {"contribution_id": "contrib_abc", "evidence_type": kind, "evidence_data": {}},
        "proof": {"timestamp": utc_text(NOW_US - DAY_US), **proof},
    }


PHOTO = proof_of("photo_with_timestamp", media_hash=HASH)
GPS = proof_of("gps_verification", location={"lat": -6.2, "lon": 106.8})
WITNESS = proof_of("witness_attestation", witnesses=[{"witness_id": "farmer_002", "witness_name": "Siti"}])
CREATED = {"event_type": "contribution_created", "actor": ACTOR,
           "subject": {"contribution_type": "task_completion", "title": "Test"}}  # fmt: skip
VOUCH = {"event_type": "vouch_submitted", "actor": ACTOR, "subject": {"vouchee_id": "bob"}}
VERIFIED = {"event_type": "contribution_verified", "actor": ACTOR, "subject": {"contribution_id": "c1"}}
REJECTED = {**VERIFIED, "event_type": "contribution_rejected"}


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The document with another value at the path; `...` takes it away."""
    made = copy.deepcopy(document)
    *way, last = path.split(".")
    here = made
    for part in way:
        here = here.setdefault(part, {})
    if value is ...:
        del here[last]
    else:
        here[last] = value
    return made


def judged(document: dict[str, Any]) -> Failure | None:
    body = encode(document).encode()
    try:
        found = parsed(body)
        read_event("gotong_royong", event_id_of(found), found, NOW_US)
    except Failure as failure:
        return failure
    return None


@pytest.mark.parametrize("document", [PHOTO, GPS, WITNESS, CREATED, VOUCH, VERIFIED, REJECTED])
def test_what_is_as_it_should_be_is_taken(document: dict[str, Any]) -> None:
    assert judged(document) is None


@pytest.mark.parametrize(
    ("document", "path", "value"),
    [
        (PHOTO, "proof.timestamp", utc_text(NOW_US - 30 * DAY_US)),
        (PHOTO, "proof.timestamp", utc_text(NOW_US + 299 * SECOND_US)),
        (PHOTO, "proof.timestamp", "2026-02-01T09:40:00.123+07:00"),
        (PHOTO, "proof.media_hash", HASH.upper()),
        (PHOTO, "subject.evidence_data", ...),
        (GPS, "proof.location", {"lat": 90, "lon": -180}),
        (GPS, "proof.location", {"latitude": -90.0, "longitude": 180.0}),
        (WITNESS, "proof.witnesses", ["farmer_002"]),
        (CREATED, "subject.contribution_id", "contrib_1"),
        (CREATED, "event_id", "evt_a1b2c3d4e5f6789a"),
        (VOUCH, "subject.weight_hint", "strong"),
    ],
)
def test_at_the_edge_of_a_rule_it_is_still_taken(document: dict[str, Any], path: str, value: Any) -> None:
    assert judged(changed(document, path, value)) is None


NO_TIMES = (
    "2026-02-01", "02/09/2026", "2026-02-01T09:40:00", "2026-13-01T00:00:00Z", 1_644_408_600, "",
    "٢٠٢٦-02-01T00:00:00Z", "0001-01-01T00:00:00+23:59",
)  # fmt: skip
TOO_OLD = utc_text(NOW_US - 30 * DAY_US - SECOND_US)
RULES = [
    # timestamp
    (PHOTO, "proof.timestamp", ..., "INVALID_PAYLOAD", "proof.timestamp", "required"),
    (PHOTO, "proof.timestamp", TOO_OLD, "INVALID_TIMESTAMP", "proof.timestamp", "exceeds_max_age"),
    (PHOTO, "proof.timestamp", utc_text(NOW_US + 301 * SECOND_US), "INVALID_TIMESTAMP", "proof.timestamp", "in_future"),
    *((PHOTO, "proof.timestamp", wrong, "INVALID_TIMESTAMP", "proof.timestamp", "format") for wrong in NO_TIMES),
    # media hash
    (PHOTO, "proof.media_hash", ..., "INVALID_PAYLOAD", "proof.media_hash", "required"),
    *(
        (PHOTO, "proof.media_hash", wrong, "INVALID_MEDIA_HASH", "proof.media_hash", "format")
        for wrong in ("abc123", HASH[:-1], HASH + "0", "z" * 64, 7, HASH + "\n")
    ),
    (GPS, "proof.media_hash", "abc", "INVALID_MEDIA_HASH", "proof.media_hash", "format"),
    # coordinates
    (GPS, "proof.location", ..., "INVALID_PAYLOAD", "proof.location", "required"),
    (GPS, "proof.location", "here", "INVALID_COORDINATES", "proof.location", "type"),
    (GPS, "proof.location.lon", ..., "INVALID_PAYLOAD", "proof.location.lon", "required"),
    (GPS, "proof.location.lat", 90.0001, "INVALID_COORDINATES", "proof.location.lat", "out_of_range"),
    (GPS, "proof.location.lat", -91, "INVALID_COORDINATES", "proof.location.lat", "out_of_range"),
    (GPS, "proof.location.lon", 180.5, "INVALID_COORDINATES", "proof.location.lon", "out_of_range"),
    (GPS, "proof.location.lon", 10**400, "INVALID_COORDINATES", "proof.location.lon", "out_of_range"),
    (GPS, "proof.location.lat", "6.2", "INVALID_COORDINATES", "proof.location.lat", "not_a_number"),
    (GPS, "proof.location.lat", True, "INVALID_COORDINATES", "proof.location.lat", "not_a_number"),
    (PHOTO, "proof.location", {"lat": 95, "lon": 0}, "INVALID_COORDINATES", "proof.location.lat", "out_of_range"),
    # evidence type
    (PHOTO, "subject.evidence_type", "hearsay", "INVALID_EVIDENCE_TYPE", "subject.evidence_type", "unknown"),
    (PHOTO, "subject.evidence_type", ..., "INVALID_PAYLOAD", "subject.evidence_type", "required"),
    # witnesses
    (WITNESS, "proof.witnesses", ..., "MISSING_WITNESSES", "proof.witnesses", "required"),
    (WITNESS, "proof.witnesses", [], "MISSING_WITNESSES", "proof.witnesses", "min_items"),
    (WITNESS, "proof.witnesses", "Siti", "MISSING_WITNESSES", "proof.witnesses", "type"),
    (WITNESS, "proof.witnesses", [{}], "INVALID_PAYLOAD", "proof.witnesses.0", "required"),
    (WITNESS, "proof.witnesses", ["x"] * 51, "INVALID_PAYLOAD", "proof.witnesses", "max_items"),
    # the rest of the payload
    (CREATED, "event_type", ..., "INVALID_PAYLOAD", "event_type", "required"),
    (CREATED, "event_type", "gossip", "INVALID_EVENT_TYPE", "event_type", "unknown"),
    (CREATED, "event_id", 7, "INVALID_PAYLOAD", "event_id", "type"),
    (CREATED, "event_id", "x" * 51, "INVALID_PAYLOAD", "event_id", "format"),
    (CREATED, "event_id", "evt 1", "INVALID_PAYLOAD", "event_id", "format"),
    (CREATED, "actor", [], "INVALID_PAYLOAD", "actor", "type"),
    (CREATED, "actor.username", "", "INVALID_PAYLOAD", "actor.username", "min_length"),
    (CREATED, "actor.user_id", 123, "INVALID_PAYLOAD", "actor.user_id", "type"),
    (CREATED, "actor.user_id", "a\0b", "INVALID_PAYLOAD", "actor.user_id", "format"),
    (CREATED, "subject.title", "x" * 201, "INVALID_PAYLOAD", "subject.title", "max_length"),
    (VERIFIED, "subject.contribution_id", ..., "INVALID_PAYLOAD", "subject.contribution_id", "required"),
    (REJECTED, "subject.reason", "x" * 501, "INVALID_PAYLOAD", "subject.reason", "max_length"),
    (VOUCH, "subject.weight_hint", "enormous", "INVALID_PAYLOAD", "subject.weight_hint", "enum"),
    (VOUCH, "subject.vouchee_id", "user123", "INVALID_PAYLOAD", "subject.vouchee_id", "self_vouch"),
]


@pytest.mark.parametrize(("document", "path", "value", "code", "field", "reason"), RULES)
def test_what_breaks_a_rule_is_refused_with_its_code(
    document: dict[str, Any], path: str, value: Any, code: str, field: str, reason: str
) -> None:
    failure = judged(changed(document, path, value))
    assert failure is not None
    assert (failure.code, failure.details["field"], failure.details["reason"]) == (code, field, reason)
    assert failure.status == 400


def test_what_is_out_of_range_says_which_range() -> None:
    failure = judged(changed(GPS, "proof.location.lat", 95.0))
    assert failure is not None
    assert {name: failure.details[name] for name in ("min", "max", "actual")} == {"min": -90, "max": 90, "actual": 95.0}


def test_every_bad_field_is_listed_when_there_are_several() -> None:
    failure = judged({"event_type": "contribution_created", "actor": {"user_id": 1}, "subject": {}})
    assert failure is not None
    assert failure.message == "Invalid field: actor.user_id (type)"
    assert failure.details["errors"] == [
        {"field": "actor.user_id", "reason": "type"},
        {"field": "actor.username", "reason": "required"},
        {"field": "subject.contribution_type", "reason": "required"},
        {"field": "subject.title", "reason": "required"},
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"", "syntax"), (b"{", "syntax"), (b'{"a":1,"a":2}', "duplicate_key"), (b"\xff", "not_utf8"),
     (b"[" * 99, "too_deep"), (b'{"a":NaN}', "not_a_number")],
)  # fmt: skip
def test_what_is_no_json_is_told_apart(body: bytes, reason: str) -> None:
    with pytest.raises(Failure) as caught:
        parsed(body)
    assert (caught.value.code, caught.value.details["reason"]) == ("INVALID_JSON", reason)


def test_the_schema_describes_every_type_that_is_taken() -> None:
    described = {one["properties"]["event_type"]["const"]: one for one in json_schema()["oneOf"]}
    assert set(described) == {kind.value for kind in EventType} == {kind.value for kind in SHAPES}
    assert described["por_evidence"]["properties"]["subject"]["required"] == ["contribution_id", "evidence_type"]
