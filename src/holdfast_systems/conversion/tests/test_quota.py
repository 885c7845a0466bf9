"""Anonymous uploads cannot fill the disk: quotas per session, per address and for the whole store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ipaddress import ip_address

import httpx
import pytest

from holdfast.http.client_address import client_group
from holdfast.store import Store
from holdfast_systems.conversion.quota import Quota, Sender, Usage, judged
from holdfast_systems.conversion.settings import SettingInvalid, Settings
from holdfast_systems.conversion.tests.test_retention import upkeep

from .system import PATIENCE_S, Running, client, pdf

Site = Callable[..., Running]
NOTHING = Usage(0, 0, 0, 0, 0)


def told(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


def files_of(here: Running) -> int:
    return len(here.files("sources"))


def test_a_session_keeps_only_so_many_uploads_and_may_go_on_after_deleting_one(site: Site) -> None:
    here = site(SESSION_UPLOADS_MAX="2")
    me, other = here.person(), here.person()
    first = me.uploaded(pdf("1"))
    me.uploaded(pdf("2"))
    refused = me.upload(pdf("3"))
    assert told(refused) == (429, "QUOTA_EXCEEDED")
    assert refused.json()["error"]["message"].startswith("You have too many files here.")
    assert (len(me.listing()["jobs"]), files_of(here)) == (2, 2), "a refusal keeps neither a row nor a file"
    assert me.upload(pdf("2")).status_code == 200, "the same file again needs no room"
    assert other.upload(pdf("3")).status_code == 201
    assert me.http.delete(f"/api/jobs/{first}").status_code == 204
    assert me.upload(pdf("3")).status_code == 201


def test_a_session_takes_up_only_so_many_bytes(solo: Site) -> None:
    size = max(len(pdf(text)) for text in ("1", "2", "3"))
    here = solo(SESSION_BYTES_MAX=str(2 * size))
    me = here.person()
    assert [me.upload(pdf(text)).status_code for text in ("1", "2", "3")] == [201, 201, 429]


def test_new_sessions_do_not_help_an_address(site: Site) -> None:
    here = site(ADDRESS_UPLOADS_MAX="3")
    replies = [here.person().upload(pdf(str(number))) for number in range(4)]
    assert [reply.status_code for reply in replies] == [201, 201, 201, 429]
    assert replies[3].json()["error"]["code"] == "QUOTA_EXCEEDED"


def test_addresses_behind_a_trusted_proxy_are_told_apart_and_nobody_else_is_believed(solo: Site) -> None:
    here = solo(ADDRESS_UPLOADS_MAX="1", TRUSTED_PROXIES="127.0.0.0/8")

    def upload(address: str, text: str) -> int:
        with client(here.address, headers={"X-Forwarded-For": address}) as http:
            return http.post("/api/upload", files={"file": ("a.pdf", pdf(text))}).status_code

    assert upload("203.0.113.7", "1") == 201
    assert upload("203.0.113.8", "2") == 201
    assert upload("203.0.113.7", "3") == 429
    assert upload("2001:db8:1:2::7", "4") == 201
    assert upload("2001:db8:1:2:ffff::8", "5") == 429, "a /64 is one client"
    here = solo(ADDRESS_UPLOADS_MAX="1")
    assert [upload(f"203.0.113.{number}", f"6{number}") for number in range(2)] == [201, 429]


def test_addresses_are_kept_as_digests(solo: Site, sqlite_store: Store) -> None:
    solo().person().uploaded()
    with sqlite_store.database.transaction(write=False) as execute:
        row = execute("SELECT * FROM holdfast_conversion_upload", {}).fetchone()
    assert "127.0.0.1" not in str(row)


def test_the_whole_store_is_bounded_and_results_count(site: Site) -> None:
    here = site(STORE_BYTES_MAX=str(len(pdf("1")) + len(pdf("2"))))
    me = here.person()
    with here.working():
        me.settled(me.uploaded(pdf("1")))
        reply = here.person().upload(pdf("2"))
    assert told(reply) == (503, "STORE_FULL"), "the XML of the first one took up the room"
    assert int(reply.headers["retry-after"]) == 60
    upkeep(here, retention_s=1e-6)
    assert here.person().upload(pdf("2")).status_code == 201


def test_uploads_that_are_on_their_way_are_bounded(solo: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    under_way = threading.Semaphore(0)
    head, tail = pdf()[:50], pdf()[50:]
    arriving = Quota.arriving

    @contextmanager
    def noted(self: Quota, sender: Sender) -> Iterator[None]:
        with arriving(self, sender):
            under_way.release()
            yield

    monkeypatch.setattr(Quota, "arriving", noted)
    here = solo(ADDRESS_UPLOADS_AT_ONCE_MAX="2")

    def slowly(number: int) -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="%d.pdf"\r\n\r\n' % number + head
        assert go_on.wait(PATIENCE_S)
        yield tail + b"\r\n--b--\r\n"

    def upload(number: int) -> int:
        with client(here.address) as http:
            kind = {"content-type": "multipart/form-data; boundary=b"}
            return http.post("/api/upload", content=slowly(number), headers=kind).status_code

    with ThreadPoolExecutor(2) as threads:
        two = [threads.submit(upload, number) for number in range(2)]
        for _ in two:
            assert under_way.acquire(timeout=PATIENCE_S)
        me = here.person()
        assert told(me.upload(pdf("x"))) == (429, "QUOTA_EXCEEDED")
        go_on.set()
        assert [one.result(PATIENCE_S) for one in two] == [201, 201]
    assert me.upload(pdf("y")).status_code == 201


def test_files_that_are_no_pdf_cannot_fill_the_list(solo: Site) -> None:
    me = solo(SESSION_UPLOADS_MAX="2").person()
    assert [told(me.upload(b"no pdf")) for _ in range(4)] == [(400, "NOT_PDF")] * 4
    assert len(me.listing()["jobs"]) == 2


def test_failed_uploads_are_kept_for_hours_and_finished_ones_for_days(site: Site) -> None:
    here = site()
    me = here.person()
    with here.working():
        failed = me.settled(me.uploaded(mapping="markdown"))
        done = me.settled(me.uploaded(pdf("fine")))
    me.upload(b"no pdf")
    assert Settings().failed_retention_s == 6 * 3_600
    assert upkeep(here)["purged"] == 0
    told = upkeep(here, failed_retention_s=1e-6)
    assert (told["purged"], told["forgotten"]) == (2, 1), "the refused one is gone altogether"
    assert {job["id"]: job["expired"] for job in me.listing()["jobs"]} == {failed["id"]: True, done["id"]: False}
    assert [path.stem for path in here.files("sources")] == [done["id"]]


@pytest.mark.parametrize(
    ("usage", "more_bytes", "code", "whose"),
    [
        (NOTHING, 10, None, None),
        (Usage(4, 0, 4, 0, 0), 1, None, None),
        (Usage(5, 0, 5, 0, 0), 1, "QUOTA_EXCEEDED", "session"),
        (Usage(0, 95, 0, 95, 95), 5, None, None),
        (Usage(0, 95, 0, 95, 95), 6, "QUOTA_EXCEEDED", "session"),
        (Usage(0, 0, 10, 0, 0), 1, "QUOTA_EXCEEDED", "address"),
        (Usage(0, 0, 0, 195, 195), 6, "QUOTA_EXCEEDED", "address"),
        (Usage(0, 0, 0, 0, 295), 6, "STORE_FULL", None),
    ],
)
def test_a_quota_is_what_may_be_there_with_the_new_one(
    usage: Usage, more_bytes: int, code: str | None, whose: str | None
) -> None:
    settings = Settings(
        session_uploads_max=5,
        session_bytes_max=100,
        address_uploads_max=10,
        address_bytes_max=200,
        store_bytes_max=300,
    )
    found = judged(usage, settings, more_bytes=more_bytes)
    assert (found and found.code, found and found.details.get("whose")) == (code, whose)


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        (None, "unknown"),
    ],
)
def test_clients_are_grouped_by_what_one_customer_has(address: str | None, group: str) -> None:
    assert client_group(None if address is None else ip_address(address)) == group


def test_networks_that_are_none_are_refused_at_start() -> None:
    with pytest.raises(SettingInvalid, match="TRUSTED_PROXIES"):
        Settings(trusted_proxies="10.0.0.0/8, proxy.example")
