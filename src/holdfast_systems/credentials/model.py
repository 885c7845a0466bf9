"""What events mean for people: contributions, evidence, vouches and the reputation they add up to. Pure.

Always true: what a set of events comes to does not depend on the order in which they arrive. A contribution is worth
what its evidence and its reviews say, however late they are heard; counts and points are sums of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.base import digest

CONTRIBUTION_POINTS = 50
EVIDENCE_POINTS = 10
VERIFIED_POINTS = 25
VOUCH_POINTS: Mapping[str, int] = {"light": 5, "moderate": 10, "strong": 15}
VOUCH_WEIGHT = "moderate"
"""Of a vouch that does not say."""


class EventType(StrEnum):
    """What a platform may tell."""

    CONTRIBUTION_CREATED = "contribution_created"
    POR_EVIDENCE = "por_evidence"
    CONTRIBUTION_VERIFIED = "contribution_verified"
    CONTRIBUTION_REJECTED = "contribution_rejected"
    VOUCH_SUBMITTED = "vouch_submitted"


class EvidenceType(StrEnum):
    """How it is shown that something happened."""

    PHOTO = "photo_with_timestamp"
    GPS = "gps_verification"
    WITNESS = "witness_attestation"


class Status(StrEnum):
    """What became of an event."""

    APPLIED = "applied"
    PARKED = "parked"
    """It is about a contribution that has not arrived; it counts when that comes."""
    KNOWN = "known"
    """Another event has said the same before; it adds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A genuine event whose payload is as it should be."""

    platform: str
    id: str
    type: EventType
    actor_id: str
    actor_name: str
    contribution_id: str = ""
    """Which one it is about; empty for a vouch."""
    contribution_type: str = ""
    title: str = ""
    evidence_type: EvidenceType | None = None
    vouchee_id: str = ""
    skill_id: str | None = None
    weight: str = VOUCH_WEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What has been said about a contribution, by anybody and in any order."""

    evidence: int = 0
    verified: int = 0
    rejected: int = 0

    def without(self, other: Heard) -> Heard:
        """What had been said before the other was."""
        return Heard(
            evidence=self.evidence - other.evidence,
            verified=self.verified - other.verified,
            rejected=self.rejected - other.rejected,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What somebody has, or what is to be added to it."""

    contributions: int = 0
    evidence: int = 0
    verified: int = 0
    rejected: int = 0
    vouches: int = 0
    reputation: int = 0

    def plus(self, other: Standing) -> Standing:
        """The sum."""
        return Standing(
            contributions=self.contributions + other.contributions,
            evidence=self.evidence + other.evidence,
            verified=self.verified + other.verified,
            rejected=self.rejected + other.rejected,
            vouches=self.vouches + other.vouches,
            reputation=self.reputation + other.reputation,
        )

    def minus(self, other: Standing) -> Standing:
        """The difference."""
        return Standing(
            contributions=self.contributions - other.contributions,
            evidence=self.evidence - other.evidence,
            verified=self.verified - other.verified,
            rejected=self.rejected - other.rejected,
            vouches=self.vouches - other.vouches,
            reputation=self.reputation - other.reputation,
        )


NOTHING = Standing()


def worth(heard: Heard) -> Standing:
    """What one contribution gives the person who made it. A rejected one counts as made, and is worth nothing."""
    verified, rejected = min(heard.verified, 1), min(heard.rejected, 1)
    points = CONTRIBUTION_POINTS + EVIDENCE_POINTS * heard.evidence + VERIFIED_POINTS * verified
    return Standing(
        contributions=1,
        evidence=heard.evidence,
        verified=verified,
        rejected=rejected,
        reputation=0 if rejected else points,
    )


def said_by(event: Event) -> Heard:
    """What this event says about its contribution."""
    return Heard(
        evidence=int(event.type is EventType.POR_EVIDENCE),
        verified=int(event.type is EventType.CONTRIBUTION_VERIFIED),
        rejected=int(event.type is EventType.CONTRIBUTION_REJECTED),
    )


def vouch(weight: str) -> Standing:
    """What a vouch gives whom it is for."""
    return Standing(vouches=1, reputation=VOUCH_POINTS[weight])


def contribution_id_of(platform: str, event_id: str) -> str:
    """The id of a contribution whose platform gave it none: the same for every repeat of its event."""
    return f"contrib_{digest([platform, event_id])[:16]}"
