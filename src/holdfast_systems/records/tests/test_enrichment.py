"""Enrichment: a website read as a guest, and what is told when there is nothing to read."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import REAL
from holdfast.http.asgi import Reply, Scope, give
from holdfast.store import Store
from holdfast.testing import Faulty
from holdfast.testing.ports import listening_socket
from holdfast_systems.records.website import read_page

from .live import Live, running, served

PAGE = """<!doctype html><html><head><title> Acme
 Tools </title><meta name="description" content="Anvils since 1949.">
</head><body><a href="mailto:info@acme.example?subject=Hi">Write</a><a href="mailto:nonsense">x</a>
<a href="https://www.linkedin.com/company/acme">in</a><a href="/about">About</a>
<a href="https://evil.example/linkedin.com">no</a></body></html>"""
ROBOTS = "User-agent: *\nDisallow: /private\n"


class Site:
    """A company's website on loopback."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.visited_s: list[float] = []
        """When its pages were asked for."""
        self.app = Faulty(self._answer)
        self.url = ""
        self.host = ""

    async def _answer(self, scope: Scope, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        known = {"/": PAGE, "/empty": "<p>nothing</p>", "/private/x": PAGE}
        if scope["path"] == "/robots.txt":
            return await give(Reply(body=ROBOTS.encode(), content_type="text/plain"), send, head=False)
        self.visited_s.append(REAL.monotonic_s())
        found = known.get(scope["path"])
        body, status = (b"gone", 404) if found is None else (found.encode(), 200)
        return await give(Reply(body=body, status=status), send, head=False)


@pytest.fixture
def site() -> Iterator[Site]:
    made, listener = Site(), listening_socket()
    made.host = f"127.0.0.1:{listener.getsockname()[1]}"
    made.url = f"http://{made.host}"
    with served(made.app, listener):
        yield made


@contextmanager
def enriching(store: Store, folder: Path, site: Site, **more: str) -> Iterator[Live]:
    settings = {"ENRICHMENT_TARGETS": site.host, "ENRICHMENT_HOST_INTERVAL_S": "0.05", "ENRICHMENT_TIMEOUT_S": "2"}
    with running(store, folder, worker=True, **{**settings, **more}) as live:
        yield live


def test_a_website_fills_in_its_company(store: Store, tmp_path: Path, site: Site) -> None:
    with enriching(store, tmp_path, site) as live:
        account = live.account()
        uid = account.company(website=site.url)
        asked = account.post("/enrichments", {"company_uid": uid})
        assert asked.status_code == 202
        found = account.settled(f"/enrichments/{asked.json()['enrichment_id']}")
        assert (found["status"], found["outcome"]) == ("complete", "filled")
        assert found["result"] == {
            "title": "Acme Tools",
            "description": "Anvils since 1949.",
            "contact_emails": ["info@acme.example"],
            "social_links": ["https://www.linkedin.com/company/acme"],
        }
        company = account.get(f"/companies/{uid}").json()
        assert {name: company[name] for name in found["result"]} == found["result"]
        assert site.asked == ["/robots.txt", "/"]


def test_rate_limited_unavailable_and_no_data_are_told_apart(store: Store, tmp_path: Path, site: Site) -> None:
    with enriching(store, tmp_path, site) as live:
        account = live.account()

        def asked(path: str, **fault: Any) -> dict[str, Any]:
            site.app.faults.clear()
            if fault:
                site.app.faults.switch(**fault)
            uid = account.company(website=f"{site.url}{path}")
            enrichment = account.post("/enrichments", {"company_uid": uid}).json()["enrichment_id"]
            return account.seen(f"/enrichments/{enrichment}", lambda found: bool(found["error"] or found["outcome"]))

        missing, empty, private = asked("/missing"), asked("/empty"), asked("/private/x")
        assert [one["outcome"] for one in (missing, empty, private)] == ["no_data"] * 3
        assert [one["reason"] for one in (missing, empty, private)] == [
            "not_found",
            "nothing_found",
            "disallowed_by_robots",
        ]
        limited = asked("/?1", status=429, retry_after=1000)
        assert limited["error"]["error_code"] == "EXTERNAL_SERVICE_ERROR"
        assert limited["error"]["details"]["reason"] == "rate_limited"
        down = asked("/?2", status=503, retry_after=1000)["error"]
        assert (down["error_code"], down["details"]["reason"]) == ("EXTERNAL_SERVICE_ERROR", "unavailable")
        assert down["details"]["retry_recommended"] is True
        assert asked("/?3", reset=True)["error"]["error_code"] == "CONNECTION_RESET"
        assert asked("/?4", hang=True)["error"]["error_code"] == "EXTERNAL_SERVICE_TIMEOUT"
        site.app.faults.switch(status=503)
        uid = account.company(website=f"{site.url}/?5")
        waited = account.post("/enrichments", {"company_uid": uid}, headers={"Prefer": "wait=30"})
        assert (waited.status_code, waited.json()["error_code"]) == (502, "EXTERNAL_SERVICE_ERROR")
        assert waited.json()["details"]["external_service"] == site.host


def test_a_network_that_drops_everything_is_a_timeout_of_its_own(store: Store, tmp_path: Path, site: Site) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        place = deaf.getsockname()
        # Once the queue of those who wait to be accepted is full, the kernel answers nobody.
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(place)
        host = f"127.0.0.1:{place[1]}"
        settings = {"ENRICHMENT_TARGETS": host, "ENRICHMENT_TIMEOUT_S": "0.3"}
        with enriching(store, tmp_path, site, **settings) as live:
            account = live.account()
            uid = account.company(website=f"http://{host}")
            reply = account.post("/enrichments", {"company_uid": uid}, headers={"Prefer": "wait=30"})
            assert (reply.status_code, reply.json()["error_code"]) == (504, "NETWORK_TIMEOUT")
        for one in waiting:
            one.close()


def test_an_address_inside_our_network_is_not_read(store: Store, tmp_path: Path, site: Site) -> None:
    with enriching(store, tmp_path, site, ENRICHMENT_TARGETS="elsewhere.example:80") as live:
        account = live.account()
        uid = account.company(website=site.url)
        enrichment = account.post("/enrichments", {"company_uid": uid}).json()["enrichment_id"]
        found = account.settled(f"/enrichments/{enrichment}")
        assert (found["outcome"], found["reason"]) == ("no_data", "address_refused")
        assert site.asked == []


def test_a_website_is_asked_no_more_often_than_it_likes(store: Store, tmp_path: Path, site: Site) -> None:
    with enriching(store, tmp_path, site, ENRICHMENT_HOST_INTERVAL_S="0.5") as live:
        account = live.account()
        uids = [account.company(website=f"{site.url}/?{number}") for number in range(3)]
        asked = [account.post("/enrichments", {"company_uid": uid}).json()["enrichment_id"] for uid in uids]
        for one in asked:
            account.settled(f"/enrichments/{one}")
    assert len(site.visited_s) == 3
    # Two pauses of half a second, less the time that the first visit took to begin on a busy machine.
    assert site.visited_s[2] - site.visited_s[0] > 0.6


def test_a_company_without_a_website_cannot_be_read(solo: Live) -> None:
    account = solo.account()
    reply = account.post("/enrichments", {"company_uid": account.company()})
    assert (reply.status_code, reply.json()["details"]["rule"]) == (422, "company_without_website")
    gone = account.post("/enrichments", {"company_uid": "CO-20200101-000001"})
    assert gone.json()["error_code"] == "COMPANY_NOT_FOUND"


def test_a_page_that_is_no_page_says_nothing() -> None:
    for text in ("", "<<<>>>", "<title></title>", "<a href='http://[bad'>x</a>", "\0" * 100):
        assert read_page(text, "http://acme.example/") is None
