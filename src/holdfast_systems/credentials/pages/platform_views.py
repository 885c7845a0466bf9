"""The platform's pages, each as a function from what it shows to HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from holdfast.delivery import Endpoint
from holdfast.http.markup import Markup, element, joined
from holdfast_systems.credentials.endpoint_health import EndpointHealth
from holdfast_systems.credentials.pages.layout import (
    Frame,
    badge,
    choices,
    document,
    facts,
    fault,
    lead,
    moment,
    pager,
    section,
    table,
    tiles,
    whole,
)
from holdfast_systems.credentials.platform_lists import ListPage
from holdfast_systems.credentials.shown import DELIVERY_STATES

REASON_CHARS_SHOWN = 160


def overview(
    frame: Frame,
    *,
    endpoints: Sequence[Endpoint],
    health: Mapping[str, EndpointHealth],
    removed_dead: int,
    latest: Sequence[Mapping[str, Any]],
) -> str:
    """Where events go and whether they arrive, and what was accepted last."""
    dead = sum(one.dead for one in health.values()) + removed_dead
    totals = (
        ("endpoints", len(endpoints)),
        ("delivered in the last hour", sum(one.delivered for one in health.values())),
        ("waiting", sum(one.waiting for one in health.values())),
        ("dead letters", dead),
    )
    return whole(
        "Overview",
        frame,
        element("h1", "Event platform"),
        lead("Events are written down first, then brought to every endpoint that wants them."),
        tiles(totals),
        section("Endpoints", _endpoints(frame, endpoints, health)),
        section("Latest events", _events(frame, latest)),
    )


def events(frame: Frame, page: ListPage, *, types: Sequence[str], event_type: str | None) -> str:
    """Events, the newest first."""
    links = [("all", frame.to("events"), event_type is None)]
    links += [(name, frame.to("events", event_type=name), name == event_type) for name in types]
    return whole(
        "Events",
        frame,
        element("h1", "Events"),
        lead("What was accepted, and what became of it at the endpoints."),
        _find(frame),
        choices("Types", links) if len(types) > 1 else "",
        section("Newest first", _events(frame, page.rows)),
        pager(frame, "events", page.next, "before", event_type=event_type),
    )


def event(frame: Frame, found: Mapping[str, Any], *, urls: Mapping[str, str]) -> str:
    """One event with every attempt to deliver it."""
    deliveries = [_delivery(frame, found["event_id"], one, urls) for one in found["deliveries"]]
    return whole(
        found["event_id"],
        frame,
        element("h1", found["event_id"], class_="code"),
        lead(element("code", found["event_type"]), " ", badge(found["status"])),
        facts({"Accepted": moment(found["created_at"])}),
        section("Deliveries", *(deliveries or [element("p", "No endpoint wanted this event.", class_="empty")])),
        section("Payload", document(found["payload"])),
    )


def deliveries(
    frame: Frame, page: ListPage, *, urls: Mapping[str, str], endpoint_id: str | None, status: str | None
) -> str:
    """Deliveries, the newest event first."""
    links = [("all", frame.to("deliveries", endpoint_id=endpoint_id), status is None)]
    links += [
        (name, frame.to("deliveries", endpoint_id=endpoint_id, status=name), name == status) for name in DELIVERY_STATES
    ]
    rows = [
        [
            event_link(frame, one["event_id"]),
            endpoint_name(frame, one["endpoint_id"], urls),
            badge(one["status"]),
            "" if one["attempts"] is None else str(one["attempts"]),
            _what_then(one),
        ]
        for one in page.rows
    ]
    heads = ("Event", "Endpoint", "State", "Attempts", "What then")
    where = endpoint_name(frame, endpoint_id, urls) if endpoint_id else "All endpoints"
    return whole(
        "Deliveries",
        frame,
        element("h1", "Deliveries"),
        lead(where, joined(" · ", element("a", "all endpoints", href=frame.to("deliveries"))) if endpoint_id else ""),
        choices("States", links),
        section("Newest first", table("Deliveries", heads, rows, numeric=frozenset({3}), empty="No delivery matches.")),
        pager(frame, "deliveries", page.next, "before", endpoint_id=endpoint_id, status=status),
    )


def event_link(frame: Frame, event_id: str) -> Markup:
    """The way to the page of an event."""
    return element("a", element("code", event_id), href=frame.to(f"events/{quote(event_id, safe='')}"))


def endpoint_name(frame: Frame, endpoint_id: str, urls: Mapping[str, str]) -> Markup:
    """An endpoint by its URL, with its deliveries; one that was removed by its id."""
    url = urls.get(endpoint_id)
    shown = element("span", url) if url else joined(element("code", endpoint_id), " (removed)")
    return element("a", shown, href=frame.to("deliveries", endpoint_id=endpoint_id), title=endpoint_id)


def why(code: str | None, message: str | None, reason: str | None) -> Markup:
    """What something failed with: its code, the sentence, and what stands behind it where that says more."""
    parts = [fault(code), " ", element("span", message or "", class_="message")]
    if reason and reason != message:
        short = reason if len(reason) <= REASON_CHARS_SHOWN else f"{reason[:REASON_CHARS_SHOWN]}…"
        parts.append(element("span", short, class_="detail"))
    return element("div", *parts, class_="why")


def _endpoints(frame: Frame, endpoints: Sequence[Endpoint], health: Mapping[str, EndpointHealth]) -> Markup:
    rows = []
    for one in endpoints:
        its = health[one.id]
        rows.append(
            [
                joined(
                    element("a", one.url, href=frame.to("deliveries", endpoint_id=one.id)),
                    element("span", ", ".join(one.event_types) or "all event types", class_="detail"),
                ),
                joined(badge(its.health), element("span", its.reason or "", class_="detail")),
                f"{its.delivered:,} of {its.attempts:,}",
                f"{its.waiting:,}",
                element("a", f"{its.dead:,}", href=frame.to("dead-letters", endpoint_id=one.id)) if its.dead else "0",
            ]
        )
    heads = ("Endpoint", "Health", "Delivered, last hour", "Waiting", "Dead letters")
    return table(
        "Endpoints", heads, rows, numeric=frozenset({2, 3, 4}), empty="No endpoint: events are accepted and go nowhere."
    )


def _events(frame: Frame, rows: Sequence[Mapping[str, Any]]) -> Markup:
    shown = [
        [
            event_link(frame, one["event_id"]),
            element("code", one["event_type"]),
            badge(one["status"]),
            str(one["deliveries"]),
            moment(one["created_at"]),
        ]
        for one in rows
    ]
    heads = ("Event", "Type", "State", "Endpoints", "Accepted")
    return table("Events", heads, shown, numeric=frozenset({3}), empty="No event matches.")


def _delivery(frame: Frame, event_id: str, one: Mapping[str, Any], urls: Mapping[str, str]) -> Markup:
    rows = [
        [
            str(tried["attempt"]),
            badge(tried["outcome"]),
            str(tried["status_code"] or ""),
            joined(fault(tried["error_code"]), element("span", tried["reason"] or "", class_="detail"))
            if tried["error_code"]
            else "",
            moment(tried["at"]),
            "" if tried["duration_ms"] is None else f"{tried['duration_ms']:,.0f} ms",
        ]
        for tried in one["attempts"]
    ]
    heads = ("Attempt", "Outcome", "Status", "Why", "When", "Took")
    again = element("a", "Reprocess or discard", href=frame.to("dead-letters", event_id=event_id), class_="button")
    return element(
        "article",
        element("h3", endpoint_name(frame, one["endpoint_id"], urls), " ", badge(one["status"])),
        joined(why(one["error_code"], one["error_message"], None), element("p", again, class_="acts"))
        if one["status"] == "failed"
        else "",
        table("Attempts", heads, rows, numeric=frozenset({5}), empty="No attempt yet."),
    )


def _what_then(one: Mapping[str, Any]) -> Markup:
    if one["status"] == "delivered":
        return joined("delivered ", moment(one["delivered_at"]))
    if one["status"] == "failed":
        return why(one["error_code"], one["error_message"], None)
    due = joined("next attempt ", moment(one["next_attempt_at"])) if one["next_attempt_at"] else joined("under way")
    return joined(due, element("span", one["reason"] or "", class_="detail"))


def _find(frame: Frame) -> Markup:
    return element(
        "form",
        element("label", "Event id", for_="event_id"),
        element("input", id="event_id", name="event_id", required="", maxlength="100", autocomplete="off"),
        element("button", "Open", type="submit"),
        action=frame.to("events"),
        class_="find",
    )
