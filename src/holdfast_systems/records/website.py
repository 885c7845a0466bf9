"""A company's website, read as a guest: through the guarded client, as robots.txt allows, at a polite rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from holdfast.base import monotonic_s
from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.http import HttpClient, Reach, Reply, Timeouts
from holdfast.http.leases import Leases
from holdfast.policy import NEVER, Limited, RateLimit
from holdfast.store import Store
from holdfast_systems.records.faults import (
    CONNECTION_RESET,
    EXTERNAL_SERVICE_ERROR,
    EXTERNAL_SERVICE_TIMEOUT,
    NETWORK_TIMEOUT,
)
from holdfast_systems.records.fields import EMAIL

AGENT = "HoldfastRecords"
PAGE_BYTES_MAX = 2_097_152
ROBOTS_BYTES_MAX = 524_288
ROBOTS_KEPT_S = 3_600.0
ROBOTS_KEPT_MAX = 1_000
REDIRECTS_MAX = 5
TEXT_CHARS_MAX = 500
EMAILS_MAX = 20
LINKS_MAX = 20
LIMITED_S = 900.0
"""When a website that limits us without saying for how long is asked again."""
SOCIAL = (
    "linkedin.com", "twitter.com", "x.com", "facebook.com", "instagram.com", "youtube.com", "github.com", "tiktok.com",
    "mastodon.social", "xing.com",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a website says about its company."""

    title: str | None = None
    description: str | None = None
    contact_emails: tuple[str, ...] = ()
    social_links: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.title or self.description or self.contact_emails or self.social_links)

    def shown(self) -> dict[str, Any]:
        """As the API tells it."""
        return {
            "title": self.title,
            "description": self.description,
            "contact_emails": list(self.contact_emails),
            "social_links": list(self.social_links),
        }


@dataclass(frozen=True, slots=True)
class NoData:
    """There is nothing to be had, and asking again does not change that."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotYet:
    """The website was asked a moment ago; it is its turn after `delay_s` seconds."""

    delay_s: float


class Websites:
    """Reads websites. Threads may share it."""

    def __init__(self, store: Store, *, timeout_s: float, interval_s: float, targets: tuple[str, ...]) -> None:
        self.link = Link("records → website", retry=NEVER)
        self._turns = Leases("records-websites", RateLimit(count=1, per_s=interval_s), store)
        self._robots: dict[str, tuple[float, RobotFileParser]] = {}
        self._client = HttpClient(
            reach=Reach(allowed=frozenset(targets)),
            timeouts=Timeouts(connect_s=min(5.0, timeout_s / 2), read_s=timeout_s, total_s=timeout_s),
            body_bytes_max=PAGE_BYTES_MAX,
            headers={"user-agent": AGENT, "accept": "text/html"},
        ).sync

    def read(self, website: str) -> Found | NoData | NotYet:
        """What the website says.

        Raises:
            Failure: NETWORK_TIMEOUT, EXTERNAL_SERVICE_TIMEOUT, CONNECTION_RESET; EXTERNAL_SERVICE_ERROR with the
                reason `rate_limited` or `unavailable`.
        """
        host = urlsplit(website).netloc.lower()
        turn = self._turns.take(host)
        if isinstance(turn, Limited):
            return NotYet(turn.retry_after_s)
        try:
            return self.link.call(self._read, website, host)
        except Failure as failure:
            found = _told(failure, host)
            if isinstance(found, NoData):
                return found
            raise found from failure

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _read(self, website: str, host: str) -> Found | NoData:
        if not self._allowed(website, host):
            return NoData("disallowed_by_robots")
        reply = self._client.send("GET", website, redirects=REDIRECTS_MAX)
        if reply.status in (404, 410):
            return NoData("not_found")
        if reply.status in (401, 402, 403, 451):
            return NoData("forbidden")
        _check(reply, host)
        if reply.content_type not in ("text/html", "application/xhtml+xml"):
            return NoData("not_a_page")
        return read_page(reply.body.decode("utf-8", "replace"), reply.url) or NoData("nothing_found")

    def _allowed(self, website: str, host: str) -> bool:
        kept = self._robots.get(host)
        if kept is None or monotonic_s() - kept[0] > ROBOTS_KEPT_S:
            if len(self._robots) >= ROBOTS_KEPT_MAX:
                self._robots.clear()
            kept = self._robots[host] = (monotonic_s(), self._asked_robots(website, host))
        return kept[1].can_fetch(AGENT, website)

    def _asked_robots(self, website: str, host: str) -> RobotFileParser:
        reply = self._client.send(
            "GET", urljoin(website, "/robots.txt"), redirects=REDIRECTS_MAX, body_bytes_max=ROBOTS_BYTES_MAX
        )
        rules = RobotFileParser()
        if reply.ok:
            rules.parse(reply.body.decode("utf-8", "replace").splitlines())
        elif 400 <= reply.status < 500 and reply.status != 429:
            rules.parse([])  # RFC 9309: without a file everything is allowed
        else:
            _check(reply, host)
            rules.parse([])
        return rules


def read_page(text: str, address: str) -> Found | None:
    """What a page says; None when it says nothing."""
    page = _Page(address)
    page.feed(text)
    page.close()
    found = Found(
        title=_line(page.title),
        description=_line(page.meta.get("description") or page.meta.get("og:description") or ""),
        contact_emails=tuple(dict.fromkeys(page.emails))[:EMAILS_MAX],
        social_links=tuple(dict.fromkeys(page.social))[:LINKS_MAX],
    )
    return found or None


@dataclass(slots=True)
class _Seen:
    parts: list[str] = field(default_factory=list)
    inside: bool = False


class _Page(HTMLParser):
    """Looks for a title, a description, addresses and social links."""

    def __init__(self, address: str) -> None:
        super().__init__(convert_charrefs=True)
        self._address = address
        self._title = _Seen()
        self.meta: dict[str, str] = {}
        self.emails: list[str] = []
        self.social: list[str] = []

    @property
    def title(self) -> str:
        return "".join(self._title.parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "title" and not self._title.parts:
            self._title.inside = True
        elif tag == "meta":
            name = (given.get("name") or given.get("property") or "").lower()
            if name in ("description", "og:description"):
                self.meta.setdefault(name, given.get("content", ""))
        elif tag == "a" and "href" in given:
            self._link(given["href"].strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._title.inside = False

    def handle_data(self, data: str) -> None:
        if self._title.inside and sum(map(len, self._title.parts)) < TEXT_CHARS_MAX:
            self._title.parts.append(data)

    def _link(self, href: str) -> None:
        if href.lower().startswith("mailto:"):
            email = unquote(href[7:].partition("?")[0]).strip()
            if EMAIL.problem(email) is None:
                self.emails.append(email)
            return
        try:
            whole = urljoin(self._address, href)
            host = (urlsplit(whole).hostname or "").lower()
        except ValueError:
            return
        social = any(host == known or host.endswith(f".{known}") for known in SOCIAL)
        if social and urlsplit(whole).scheme in ("http", "https") and len(whole) <= TEXT_CHARS_MAX:
            self.social.append(whole)


def _line(text: str) -> str | None:
    return " ".join(text.split())[:TEXT_CHARS_MAX] or None


def _check(reply: Reply, host: str) -> None:
    """Raise what a website that cannot be read now is."""
    if reply.status == 429:
        wait_s = reply.retry_after_s or LIMITED_S
        raise EXTERNAL_SERVICE_ERROR(retry_after_s=wait_s, **_facts(host, "rate_limited"))
    if not reply.ok:
        raise EXTERNAL_SERVICE_ERROR(retry_after_s=reply.retry_after_s, **_facts(host, "unavailable"))


def _told(failure: Failure, host: str) -> Failure | NoData:
    """A failure of the exchange in our own codes."""
    if failure.code == EXTERNAL_SERVICE_ERROR.code:
        return failure
    if failure.code in ("ADDRESS_REFUSED", "REDIRECT_REFUSED", "RESPONSE_TOO_LARGE", "TLS_ERROR"):
        return NoData(failure.code.lower())
    if failure.code in ("NETWORK_TIMEOUT", "DEADLINE_EXCEEDED"):
        # Without a connection it is the network that is slow, with one it is the website.
        late = NETWORK_TIMEOUT if failure.details.get("phase") == "connect" else EXTERNAL_SERVICE_TIMEOUT
        return late(**_facts(host, "timeout"))
    if failure.code == "CONNECTION_RESET":
        return CONNECTION_RESET(**_facts(host, "connection_reset"))
    return EXTERNAL_SERVICE_ERROR(**_facts(host, "unavailable"))


def _facts(host: str, reason: str) -> Mapping[str, Any]:
    return {"external_service": host, "reason": reason, "retry_recommended": True}
