"""No URL that a user supplies leads into our own network."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence

import pytest
from yarl import URL

from holdfast.catalog import Failure
from holdfast.catalog.dialect import Dialect, document
from holdfast.http.client import HttpClient
from holdfast.http.ssrf import ANYWHERE, PUBLIC, AddressRefused, CheckedResolver, Reach, checked, look_up
from holdfast.testing.certificates import Certificate
from holdfast.testing.upstream import BadUpstream


@pytest.fixture(scope="module")
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as running:
        yield running


class Names:
    """A name server of two lines: each look-up takes the next answer, and the last one stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def refusal(url: str | URL, reach: Reach = PUBLIC) -> str:
    with pytest.raises(Failure) as caught:
        checked(url, reach)
    assert caught.value.code == "ADDRESS_REFUSED"
    return str(caught.value.details["reason"])


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1/", "address"),
        ("http://127.0.0.1:8080/", "address"),
        ("http://10.0.0.1/", "address"),
        ("http://169.254.169.254/latest/meta-data/", "address"),
        ("http://[::1]/", "address"),
        ("http://[0:0:0:0:0:0:0:1]/", "address"),
        ("http://[::ffff:127.0.0.1]/", "address"),
        ("http://[::ffff:7f00:1]/", "address"),
        ("http://[64:ff9b::a9fe:a9fe]/", "address"),
        ("http://[2002:7f00:1::]/", "address"),
        ("http://[fd00:ec2::254]/", "address"),
        ("http://0.0.0.0/", "address"),
        # Spelt so that some programs read an address and some a name.
        ("http://2130706433/", "host"),
        ("http://0x7f000001/", "host"),
        ("http://0x7f.0.0.1/", "host"),
        ("http://0177.0.0.1/", "host"),
        ("http://127.1/", "host"),
        ("http://0/", "host"),
        ("http://127.0.0.1./", "host"),
        ("http://%31%32%37.0.0.1/", "host"),
        ("http://[fe80::1%25eth0]/", "host"),
        ("http://[fe80::1%eth0]/", "host"),
        ("http://localhost./", "host"),
        ("http://example.com../", "host"),
        ("http://a..b/", "host"),
        ("http://exa%6dple.com/", "host"),
        ("http://" + "a" * 64 + ".com/", "host"),
        ("http://" + "a." * 150 + "com/", "host"),
        ("http:///path", "host"),
        ("http:example.com", "host"),
        # Unicode that becomes something else on the way.
        ("http://127。0。0。1/", "address"),
        ("http://①②⑦.0.0.1/", "address"),
        ("http://１２７.0.0.1/", "address"),
        ("http://℀.example/", "url"),
        ("http://exam\u00adple.com/", "url"),
        ("http://xn--a/", "url"),
        # Who is the host?
        ("http://example.com@127.0.0.1/", "userinfo"),
        ("http://user:secret@example.com/", "userinfo"),
        ("http://@example.com/", "userinfo"),
        ("http://:@example.com/", "userinfo"),
        ("http://a@b@example.com/", "userinfo"),
        ("http://127.0.0.1\\@example.com/", "url"),
        ("http://127.0.0.1#@example.com/", "address"),
        ("http://127.0.0.1?@example.com/", "address"),
        ("http://exam\nple.com/", "url"),
        ("http://example.com\t/", "url"),
        (" http://example.com/", "url"),
        ("http://example.com/\x00", "url"),
        ("http://example.com/" + "a" * 9_000, "url"),
        ("http://[", "url"),
        # Other schemes.
        ("file:///etc/passwd", "scheme"),
        ("gopher://example.com/", "scheme"),
        ("ftp://example.com/", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("//example.com/", "scheme"),
        ("/relative", "scheme"),
        ("", "scheme"),
        ("ws://example.com/", "scheme"),
        # Ports that belong to others.
        ("http://example.com:22/", "port"),
        ("http://example.com:25/", "port"),
        ("http://example.com:6667/", "port"),
        ("http://example.com:0/", "port"),
        ("http://example.com:99999/", "url"),
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_a_hostile_address_is_refused(url: str, reason: str) -> None:
    assert refusal(url) == reason


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "HTTPS://EXAMPLE.com:443/a?b=c#d",
        "https://example.com:8443/hook",
        "http://8.8.8.8/",
        "https://[2606:4700:4700::1111]/",
        "https://faß.de/",
        "https://xn--fa-hia.de/",
        "https://a_b.example.com/",
        "https://example.com/path@with:at",
        "https://example.com?@127.0.0.1",
    ],
)
def test_a_public_address_passes(url: str) -> None:
    assert checked(url, PUBLIC).scheme in {"http", "https"}


def test_a_disguise_is_refused_even_where_everything_may_be_called() -> None:
    assert checked("http://127.0.0.1:22/", ANYWHERE).port == 22
    assert refusal("http://2130706433/", ANYWHERE) == "host"
    assert refusal("http://a:b@127.0.0.1/", ANYWHERE) == "userinfo"
    assert refusal("file:///etc/passwd", ANYWHERE) == "scheme"


def test_a_url_object_is_checked_like_its_text() -> None:
    assert refusal(URL("http://10.0.0.1/")) == "address"
    assert refusal(URL("http://u@example.com/")) == "userinfo"


def test_ports_can_be_named() -> None:
    reach = Reach(ports=frozenset({8443}))
    assert checked("https://example.com:8443/", reach)
    assert refusal("https://example.com/", reach) == "port"


def test_networks_of_ones_own_can_be_refused_too() -> None:
    reach = Reach(refused=("8.8.8.0/24", "2606:4700::/32"))
    assert refusal("http://8.8.8.8/", reach) == "address"
    assert refusal("http://[2606:4700::1]/", reach) == "address"
    assert checked("http://8.8.4.4/", reach)


@pytest.mark.parametrize("entry", ["localhost", "localhost:", "*:80", "LOCALHOST:80", "http://a:80", "::1:80", "a:b"])
def test_only_an_exact_host_and_port_can_be_allowed(entry: str) -> None:
    with pytest.raises(ValueError, match="exact host and port"):
        Reach(allowed=frozenset({entry}))


def test_what_is_allowed_for_development_is_allowed_exactly() -> None:
    reach = Reach(allowed=frozenset({"localhost:8080", "[::1]:8080", "127.0.0.1:22"}))
    assert checked("http://localhost:8080/", reach)
    assert checked("http://[::1]:8080/", reach)
    assert checked("http://127.0.0.1:22/", reach)
    assert refusal("http://127.0.0.1:8080/", reach) == "address"
    assert refusal("http://[::1]:8081/", reach) == "address"
    assert refusal("http://localhost.:8080/", reach) == "host"


def test_whoever_supplied_the_url_learns_nothing_about_our_network() -> None:
    failure = AddressRefused("intern.example", "private").failure()
    body = str(document(failure, Dialect.FULL))
    assert "private" not in body
    assert "intern" not in body
    assert "private" in failure.technical


MIXED = [
    ["10.0.0.1"],
    ["8.8.8.8", "10.0.0.1"],
    ["8.8.8.8", "1.1.1.1", "::1"],
    ["2606:4700::1", "fe80::1%2"],
    ["::ffff:127.0.0.1"],
    ["8.8.8.8"] * 20 + ["127.0.0.1"],
    ["not an address"],
]


@pytest.mark.parametrize("answers", MIXED, ids=lambda answers: f"{len(answers)}:{answers[-1]}")
async def test_a_name_with_one_bad_answer_is_refused_whole(answers: list[str]) -> None:
    names = Names(answers)
    async with HttpClient(lookup=names) as client:
        with pytest.raises(Failure) as caught:
            await client.send("GET", "http://rebind.example/")
    assert caught.value.code == "ADDRESS_REFUSED"
    assert not caught.value.retryable
    assert names.asked == ["rebind.example"]


async def test_each_of_several_callers_gets_a_failure_of_its_own() -> None:
    import asyncio

    async with HttpClient(lookup=Names(["10.0.0.1"])) as client:
        sent = (client.send("GET", "http://rebind.example/") for _ in range(5))
        failures = await asyncio.gather(*sent, return_exceptions=True)
    assert [getattr(failure, "code", failure) for failure in failures] == ["ADDRESS_REFUSED"] * 5
    assert len({id(failure) for failure in failures}) == 5


async def test_a_name_without_an_address_is_a_dns_failure() -> None:
    async with HttpClient(lookup=Names([])) as client:
        with pytest.raises(Failure) as caught:
            await client.send("GET", "http://empty.example/")
    assert caught.value.code == "DNS_FAILED"


async def test_the_system_resolves_localhost_and_the_guard_refuses_it() -> None:
    assert set(await look_up("localhost", 80)) <= {"127.0.0.1", "::1"}
    async with HttpClient() as client:
        with pytest.raises(Failure) as caught:
            await client.send("GET", "http://localhost/")
    assert caught.value.code == "ADDRESS_REFUSED"
    assert caught.value.details["reason"] == "address"


async def test_the_connection_goes_to_the_address_that_was_checked(upstream: BadUpstream) -> None:
    names = Names(["127.0.0.1"], ["127.66.66.66"])
    reach = Reach(public_only=False, refused=("127.66.66.66/32",))
    async with HttpClient(reach=reach, lookup=names) as client:
        reply = await client.send("GET", f"http://rebind.example:{upstream.port}/echo")
        again = await client.send("GET", f"http://rebind.example:{upstream.port}/echo")
    assert names.asked == ["rebind.example"]
    assert reply.json()["headers"]["host"] == f"rebind.example:{upstream.port}"
    assert again.status == 200


async def test_a_name_that_turns_inward_later_is_refused_then(upstream: BadUpstream) -> None:
    names = Names(["127.0.0.1"], ["127.66.66.66"])
    reach = Reach(public_only=False, refused=("127.66.66.66/32",))
    url = f"http://rebind.example:{upstream.port}/ok"
    async with HttpClient(reach=reach, lookup=names) as client, HttpClient(reach=reach, lookup=names) as another:
        assert (await client.send("GET", url)).status == 200
        with pytest.raises(Failure) as caught:
            await another.send("GET", url)
    assert caught.value.code == "ADDRESS_REFUSED"


async def test_tls_and_host_keep_the_name_although_the_address_was_looked_up(upstream: BadUpstream) -> None:
    url = upstream.tls_url(Certificate.GOOD, "echo", host="upstream.example")
    port = URL(url).port
    reach = Reach(allowed=frozenset({f"upstream.example:{port}", f"other.example:{port}"}))
    async with HttpClient(reach=reach, lookup=Names(["127.0.0.1"]), tls=upstream.trusting()) as client:
        reply = await client.send("GET", url)
        assert reply.json()["headers"]["host"] == f"upstream.example:{port}"
        with pytest.raises(Failure) as caught:
            await client.send("GET", url.replace("upstream.", "other."))
    assert caught.value.code == "TLS_ERROR"


@pytest.mark.parametrize("name", ["redirect_inward", "redirect_disguised", "redirect_to_file"])
async def test_every_redirect_is_checked_anew(upstream: BadUpstream, name: str) -> None:
    async with HttpClient(reach=Reach(allowed=frozenset({upstream.address}))) as client:
        with pytest.raises(Failure) as caught:
            await client.send("GET", upstream.url(name), redirects=5)
    assert caught.value.code == "ADDRESS_REFUSED"


def test_the_last_look_is_at_the_socket() -> None:
    inward = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 80))
    with pytest.raises(AddressRefused, match="loopback"):
        CheckedResolver(PUBLIC).open_socket(inward)
    CheckedResolver(Reach(allowed=frozenset({"127.0.0.1:80"}))).open_socket(inward).close()
    CheckedResolver(ANYWHERE).open_socket(inward).close()
