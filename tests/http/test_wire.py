"""The wire: who a request is for and where its body ends is said once, and connections are kept within bounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from yarl import URL

from holdfast.http import wire as wires
from holdfast.http.client import ANYWHERE, HttpClient
from holdfast.testing.upstream import BadUpstream


@pytest.fixture
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as running:
        yield running


@pytest.mark.parametrize("name", ["Host", "Content-Length", "Transfer-Encoding", "Connection"])
async def test_a_caller_cannot_say_where_a_body_ends_or_who_it_is_for(upstream: BadUpstream, name: str) -> None:
    async with HttpClient(reach=ANYWHERE) as client:
        await client.send("POST", upstream.url("ok"), body=b"whole", headers={name: "1"})
    asked = upstream.asked[-1]
    assert (asked.body, asked.headers["host"], asked.headers["content-length"]) == (b"whole", upstream.address, "5")
    assert "transfer-encoding" not in asked.headers


@pytest.mark.parametrize("name", ["Content-Length ", "Transfer-Encoding\t", "Host\x0b", "X Y", "X:Y", "", "é"])
async def test_a_header_has_a_name_that_everybody_reads_alike(upstream: BadUpstream, name: str) -> None:
    async with HttpClient(reach=ANYWHERE) as client, HttpClient(reach=ANYWHERE, headers={name: "1"}) as other:
        for sending in (
            client.send("POST", upstream.url("ok"), body=b"whole", headers={name: "1"}),
            other.send("POST", upstream.url("ok"), body=b"whole"),
        ):
            with pytest.raises(ValueError, match="is not a name of a header"):
                await sending
    assert not upstream.asked


@pytest.mark.parametrize(("method", "length"), [("GET", None), ("OPTIONS", None), ("POST", "0"), ("DELETE", "0")])
async def test_a_request_without_a_body_says_so_where_one_is_expected(
    upstream: BadUpstream, method: str, length: str | None
) -> None:
    async with HttpClient(reach=ANYWHERE) as client:
        await client.send(method, upstream.url("ok"))
    assert upstream.asked[-1].headers.get("content-length") == length


@pytest.mark.parametrize("method", ["", "GET /x HTTP/1.1\r\nX: y", "GE T", "GET\n"])
async def test_a_method_is_one_word(upstream: BadUpstream, method: str) -> None:
    async with HttpClient(reach=ANYWHERE) as client:
        with pytest.raises(ValueError, match="method"):
            await client.send(method, upstream.url("ok"))
    assert not upstream.asked


@pytest.mark.parametrize("header", [("X-A", "a\nb"), ("X-A", "a\rb"), ("X-A", "a\0b"), ("X\r\nY", "a")])
async def test_a_header_stays_on_its_line(upstream: BadUpstream, header: tuple[str, str]) -> None:
    async with HttpClient(reach=ANYWHERE) as client:
        target = client.wire().target("POST", URL(upstream.url("ok")))
        with pytest.raises(ValueError, match="line break"):
            target.head([header], 0)


async def test_no_more_idle_connections_are_kept_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, upstream: BadUpstream
) -> None:
    monkeypatch.setattr(wires, "IDLE_HOSTS_MAX", 2)
    with BadUpstream() as second, BadUpstream() as third:
        async with HttpClient(reach=ANYWHERE) as client:
            for one in (upstream, second, third):
                await client.send("GET", one.url("ok"))
            for _ in range(20):
                await client.send("GET", upstream.url("ok"))
            assert (upstream.open_connections, second.open_connections) == (1, 1)
            assert len(client.wire()._connector._conns) == 2
