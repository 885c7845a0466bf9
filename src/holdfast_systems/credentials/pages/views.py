"""Each page as a function from what it shows to HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from holdfast.http.markup import Markup, element, joined

CONSOLE = "/console/"
"""The operator's page of whatever serves us."""
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
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' "
    "rx='4' fill='%230f766e'/%3E%3Cpath d='M4 8l3 3 5-6' stroke='white' stroke-width='2' fill='none'/%3E%3C/svg%3E"
)


def health_of(endpoint_ids: Sequence[str]) -> str:
    """The six panels of delivery health: success, errors, latency, dead letters, retries, and the commonest errors.

    Of the endpoint that events go to, or of all where there are several of them or none.
    """
    chosen = endpoint_ids[0] if len(endpoint_ids) == 1 else ""
    return f"{CONSOLE}?{urlencode({'scope': f'endpoint:{chosen}'})}"


def overview(
    *,
    platforms: Sequence[str],
    platform: str,
    totals: Mapping[str, int],
    members: Sequence[Mapping[str, Any]],
    latest: Sequence[Mapping[str, Any]],
    health: str,
) -> str:
    """Who has earned what on one platform, and what arrived last."""
    tiles = [
        element("div", element("dt", words), element("dd", f"{totals[name]:,}"), class_="tile")
        for name, words in TOTALS
    ]
    others = [
        element("li", element("a", name, href=f"./?platform={quote(name)}", **_current(name == platform)))
        for name in platforms
    ]
    return _page(
        "Credentials",
        "",
        element("h1", "Credentials"),
        element("p", "What people have done, and what it comes to. Each event counts once.", class_="lead"),
        element("nav", element("ul", *others, class_="choices"), aria_label="Platforms") if len(others) > 1 else "",
        element("dl", *tiles, class_="tiles"),
        element("section", element("h2", "People", id="people"), _members(platform, members)),
        element("section", element("h2", "Latest events", id="latest"), _events(latest)),
        health=health,
    )


def person(platform: str, found: Mapping[str, Any], health: str) -> str:
    """One person and their contributions."""
    facts = [
        element("div", element("dt", words), element("dd", f"{found[name]:,}"), class_="tile") for name, words in COUNTS
    ]
    rows = [
        [
            element("span", one["title"]),
            element("code", one["contribution_type"]),
            _standing(one),
            str(one["evidence_count"]),
            _time(one["created_at"]),
        ]
        for one in found["contributions"]
    ]
    name = found["username"] or found["user_id"]
    heads = ("Title", "Type", "State", "Evidence", "Arrived")
    return _page(
        name,
        "../../",
        element("h1", name),
        element("p", element("code", found["user_id"]), " on ", element("code", platform), class_="lead"),
        element("dl", *facts, class_="tiles"),
        element("h2", "Contributions"),
        _table("Contributions, the latest first", heads, rows, numeric=frozenset({3})),
        health=health,
    )


def nobody(root: str) -> str:
    """There is no such person."""
    lead = element("p", "Nothing is known of this user: no event of theirs has arrived.", class_="lead")
    return _page("Not found", root, element("h1", "Not found"), lead, element("a", "Everybody", href=root))


def _members(platform: str, members: Sequence[Mapping[str, Any]]) -> Markup:
    rows = []
    for one in members:
        href = f"people/{quote(platform, safe='')}/{quote(one['user_id'], safe='')}"
        rows.append(
            [
                joined(
                    element("a", one["username"] or one["user_id"], href=href), " ", element("code", one["user_id"])
                ),
                *(f"{one[name]:,}" for name, _ in COUNTS),
            ]
        )
    heads = ("Person", *(words for _, words in COUNTS))
    return _table("People, the highest reputation first", heads, rows, numeric=frozenset(range(1, len(heads))))


def _events(latest: Sequence[Mapping[str, Any]]) -> Markup:
    rows = [
        [
            element("code", one["event_id"]),
            element("code", one["event_type"]),
            element("span", one["result"]["status"], class_=f"badge {one['result']['status']}"),
            _time(one["processed_at"]),
        ]
        for one in latest
    ]
    return _table("Events, the latest first", ("Event", "Type", "Came to", "Processed"), rows)


def _table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: frozenset[int] = frozenset()
) -> Markup:
    if not rows:
        return element("p", "Nothing yet.", class_="empty")

    def cell(place: int, content: str) -> Markup:
        words = {"data_label": heads[place], **({"class_": "number"} if place in numeric else {})}
        name, scope = ("th", {"scope": "row"}) if place == 0 else ("td", {})
        return element(name, content, **words, **scope)

    columns = [
        element("th", words, scope="col", **({"class_": "number"} if place in numeric else {}))
        for place, words in enumerate(heads)
    ]
    body = [element("tr", *(cell(place, content) for place, content in enumerate(row))) for row in rows]
    return element(
        "table", element("caption", caption), element("thead", element("tr", *columns)), element("tbody", *body)
    )


def _standing(one: Mapping[str, Any]) -> Markup:
    word = "rejected" if one["rejected_count"] else "verified" if one["verified_count"] else "made"
    return element("span", word, class_=f"badge {word}")


def _time(text: str) -> Markup:
    shown = f"{text[:19].replace('T', ' ')} UTC"
    return element("time", shown, datetime=text)


def _current(here: bool) -> dict[str, str]:
    return {"aria_current": "page"} if here else {}


def _page(title: str, root: str, *content: str, health: str | None = None) -> str:
    """A whole page; without an address of the health page it is one for strangers."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · Credential engine"),
        element("link", rel="icon", href=_ICON),
        element("link", rel="stylesheet", href=f"{root}style.css"),
    )
    leave = element(
        "form", element("button", "Sign out", type="submit"), method="post", action=f"{root}sign-out", class_="leave"
    )
    top = element(
        "header",
        element(
            "div",
            element("a", "Credentials", href=root or "./", class_="home"),
            ""
            if health is None
            else element("nav", element("a", "Health", href=health, title="Delivery health"), leave),
            class_="bar",
        ),
    )
    skip = element("a", "Skip to the content", href="#content", class_="skip")
    body = element("body", skip, top, element("main", *content, id="content"))
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"
