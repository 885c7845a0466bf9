"""The engine's pages, each as a function from what it shows to HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from holdfast.http.markup import Markup, element, joined
from holdfast_systems.credentials.pages.layout import (
    Frame,
    badge,
    choices,
    document,
    facts,
    fault,
    lead,
    moment,
    section,
    table,
    tiles,
    whole,
)

COUNTS = (
    ("reputation", "Reputation"),
    ("contribution_count", "Contributions"),
    ("verified_count", "Verified"),
    ("rejected_count", "Rejected"),
    ("evidence_count", "Evidence"),
    ("vouch_count", "Vouches"),
)
TOTALS = (
    ("events", "events processed"),
    ("users", "people"),
    ("contributions", "contributions"),
    ("parked", "waiting for their contribution"),
)


def overview(
    frame: Frame,
    *,
    platforms: Sequence[str],
    platform: str,
    totals: Mapping[str, int],
    members: Sequence[Mapping[str, Any]],
    latest: Sequence[Mapping[str, Any]],
    refused: Sequence[Mapping[str, Any]],
) -> str:
    """Who has earned what on one platform, what arrived last, and what was refused."""
    others = [(name, f"./?platform={quote(name)}", name == platform) for name in platforms]
    forged = [one for one in refused if one["signature"]]
    rest = [one for one in refused if not one["signature"]]
    return whole(
        "Credentials",
        frame,
        element("h1", "Credentials"),
        lead("What people have done, and what it comes to. Each event counts once."),
        choices("Platforms", others) if len(others) > 1 else "",
        tiles([(words, totals[name]) for name, words in TOTALS]),
        section("People", _members(platform, members)),
        section("Latest events", _events(frame, platform, latest)),
        section("Signature failures", _refusals(forged, "Every signature of the last week was right.")),
        section("Refused webhooks", _refusals(rest, "No webhook was refused in the last week.")),
    )


def person(frame: Frame, platform: str, found: Mapping[str, Any]) -> str:
    """One person and their contributions."""
    rows = [
        [
            element("span", one["title"]),
            element("code", one["contribution_type"]),
            _standing(one),
            str(one["evidence_count"]),
            moment(one["created_at"]),
        ]
        for one in found["contributions"]
    ]
    name = found["username"] or found["user_id"]
    heads = ("Title", "Type", "State", "Evidence", "Arrived")
    return whole(
        name,
        frame,
        element("h1", name),
        lead(element("code", found["user_id"]), " on ", element("code", platform)),
        tiles([(words, found[key]) for key, words in COUNTS]),
        section("Contributions", table("Contributions, the latest first", heads, rows, numeric=frozenset({3}))),
    )


def event(frame: Frame, platform: str, found: Mapping[str, Any]) -> str:
    """One event that was processed, and what it came to."""
    result = found["result"]
    user_id = result.get("user_id")
    delta = result.get("reputation_delta")
    return whole(
        found["event_id"],
        frame,
        element("h1", found["event_id"], class_="code"),
        lead(element("code", found["event_type"]), " ", badge(result["status"])),
        facts(
            {
                "Platform": element("code", platform),
                "Processed": moment(found["processed_at"]),
                "Person": _person(frame, platform, user_id, user_id) if user_id else "",
                "Contribution": element("code", result["contribution_id"]) if result.get("contribution_id") else "",
                "Reputation": "" if delta is None else f"{delta:+,}",
                "Statements released": str(result.get("released", "")),
            }
        ),
        section("Answer to repeats", document(result)),
    )


def nobody(frame: Frame) -> str:
    """There is no such person and no such event."""
    words = "Nothing is known of this user or event: nothing of it has arrived."
    everybody = element("p", element("a", "Everybody", href=frame.root or "./"))
    return whole("Not found", frame, element("h1", "Not found"), lead(words), everybody)


def _members(platform: str, members: Sequence[Mapping[str, Any]]) -> Markup:
    here = Frame(name="", root="")
    rows = [
        [
            joined(
                _person(here, platform, one["user_id"], one["username"] or one["user_id"]),
                " ",
                element("code", one["user_id"]),
            ),
            *(f"{one[name]:,}" for name, _ in COUNTS),
        ]
        for one in members
    ]
    heads = ("Person", *(words for _, words in COUNTS))
    return table("People, the highest reputation first", heads, rows, numeric=frozenset(range(1, len(heads))))


def _person(frame: Frame, platform: str, user_id: str, words: str) -> Markup:
    return element("a", words, href=frame.to(f"people/{quote(platform, safe='')}/{quote(user_id, safe='')}"))


def _events(frame: Frame, platform: str, latest: Sequence[Mapping[str, Any]]) -> Markup:
    rows = [
        [
            element(
                "a",
                element("code", one["event_id"]),
                href=frame.to(f"events/{quote(platform, safe='')}/{quote(one['event_id'], safe='')}"),
            ),
            element("code", one["event_type"]),
            badge(one["result"]["status"]),
            moment(one["processed_at"]),
        ]
        for one in latest
    ]
    return table("Events, the latest first", ("Event", "Type", "Came to", "Processed"), rows)


def _refusals(refused: Sequence[Mapping[str, Any]], empty: str) -> Markup:
    rows = [
        [
            joined(fault(one["code"]), element("span", one["message"], class_="detail")),
            element("span", one["address"], class_="address"),
            f"{one['count']:,}",
            moment(one["first_at"]),
            moment(one["last_at"]),
        ]
        for one in refused
    ]
    heads = ("Why", "From", "Times", "First", "Last")
    return table("Refusals, the latest first", heads, rows, numeric=frozenset({2}), empty=empty)


def _standing(one: Mapping[str, Any]) -> Markup:
    return badge("rejected" if one["rejected_count"] else "verified" if one["verified_count"] else "made")
