"""Whatever an upstream does, the client says which fault it is, in time and within its memory."""

from __future__ import annotations

import asyncio
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.base import REAL
from holdfast.catalog import CORE, Failure
from holdfast.guard import Link
from holdfast.http.client import ANYWHERE, HttpClient, Reply, Timeouts
from holdfast.policy import NEVER, within
from holdfast.testing.certificates import Certificate
from holdfast.testing.upstream import BEHAVIOURS, BadUpstream
from holdfast.testing.upstream_behaviours import BOMB_BYTES, bomb

QUICK = Timeouts(connect_s=0.2, read_s=0.2, total_s=0.5)
PATIENT = Timeouts(connect_s=60, read_s=60, total_s=90)
"""Where an answer comes, it may take as long as this machine takes."""
ROUNDS_MAX = 5
BODY_BYTES_MAX = 1_000_000
LINK = Link("test → upstream", retry=NEVER)

CODES = {
    # all is well, whatever it looks like
    **dict.fromkeys(["ok", "echo", "gzip_good", "early_hints", "answers_twice", "answers_late"], ""),
    # slow
    "hang_at_header": "NETWORK_TIMEOUT",
    "hang_in_header": "NETWORK_TIMEOUT",
    "hang_in_body": "NETWORK_TIMEOUT",
    "never_reads": "NETWORK_TIMEOUT",
    "drip_header": "NETWORK_TIMEOUT",
    "drip_body": "NETWORK_TIMEOUT",
    # gone
    "empty_reply": "CONNECTION_RESET",
    "reset": "CONNECTION_RESET",
    "reset_in_body": "CONNECTION_RESET",
    "truncated": "CONNECTION_RESET",
    "truncated_chunked": "CONNECTION_RESET",
    "no_last_chunk": "CONNECTION_RESET",
    # too much
    "endless_chunked": "RESPONSE_TOO_LARGE",
    "endless_unframed": "RESPONSE_TOO_LARGE",
    "huge_length": "RESPONSE_TOO_LARGE",
    "gzip_bomb": "RESPONSE_TOO_LARGE",
    "deflate_bomb": "RESPONSE_TOO_LARGE",
    "brotli_bomb": "RESPONSE_TOO_LARGE",
    # unreadable
    **dict.fromkeys(
        [
            "endless_headers",
            "endless_header_line",
            "informational_storm",
            "gzip_cut",
            "gzip_not_gzip",
            "unknown_encoding",
            "garbage",
            "http_0_9",
            "banner_of_another",
            "close_in_status",
            "close_in_header",
            "invalid_chunk",
            "huge_chunk",
            "negative_length",
            "two_lengths",
            "length_and_chunked",
            "too_short_length",
            "big_header",
            "many_headers",
            "null_in_header",
            "bad_status",
            "switches",
            "cut_json",
            "bad_utf8",
            "twice_in_json",
            "deep_json",
        ],
        "INVALID_RESPONSE",
    ),
    # elsewhere
    "redirect_loop": "REDIRECT_REFUSED",
    "redirect_nowhere": "REDIRECT_REFUSED",
    "redirect_once": "",
    "redirect_inward": "ADDRESS_REFUSED",
    "redirect_disguised": "ADDRESS_REFUSED",
    "redirect_to_file": "ADDRESS_REFUSED",
    # a status
    "status_400": "UPSTREAM_REJECTED",
    "status_401": "UPSTREAM_UNAUTHORIZED",
    "status_403": "UPSTREAM_UNAUTHORIZED",
    "status_404": "UPSTREAM_REJECTED",
    "status_409": "UPSTREAM_REJECTED",
    "status_410": "UPSTREAM_REJECTED",
    "status_422": "UPSTREAM_REJECTED",
    "status_429_seconds": "UPSTREAM_BUSY",
    "status_429_date": "UPSTREAM_BUSY",
    "status_429_garbage": "UPSTREAM_BUSY",
    "status_500": "UPSTREAM_ERROR",
    "status_502": "BAD_GATEWAY",
    "status_503": "SERVICE_UNAVAILABLE",
    "status_503_retry_after": "SERVICE_UNAVAILABLE",
    "status_504": "GATEWAY_TIMEOUT",
    "html_in_502": "BAD_GATEWAY",
    "error_in_200": "",
    "error_nested": "UPSTREAM_REJECTED",
    # not by a path
    "refused": "CONNECTION_REFUSED",
    "hang_at_connect": "NETWORK_TIMEOUT",
    "hang_at_tls": "NETWORK_TIMEOUT",
    "plain_behind_tls": "TLS_ERROR",
    "tls_good": "",
    "tls_expired": "TLS_ERROR",
    "tls_not_yet_valid": "TLS_ERROR",
    "tls_self_signed": "TLS_ERROR",
    "tls_wrong_host": "TLS_ERROR",
    "name_unknown": "DNS_FAILED",
}

WAITS_S = {"status_429_seconds": 7, "status_429_date": 30, "status_429_garbage": None, "status_503_retry_after": 3}
HANGING = ["hang_at_connect", "hang_at_tls", "hang_at_header", "hang_in_header", "hang_in_body", "never_reads",
           "drip_header", "drip_body"]  # fmt: skip
HUNGRY = ["endless_chunked", "endless_unframed", "endless_headers", "endless_header_line", "huge_length", "gzip_bomb",
          "deflate_bomb", "brotli_bomb", "informational_storm", "many_headers", "big_header", "deep_json"]  # fmt: skip


@pytest.fixture(scope="module")
def upstream() -> Iterator[BadUpstream]:
    with BadUpstream() as running:
        yield running


def address(upstream: BadUpstream, name: str) -> str:
    match name.split("_", 1):
        case ["tls", kind]:
            return upstream.tls_url(Certificate(kind), "ok")
        case _ if name in BEHAVIOURS:
            return upstream.url(name)
    others = {
        "refused": upstream.refused_url,
        "hang_at_connect": upstream.hanging_url,
        "hang_at_tls": upstream.silent_tls_url,
        "plain_behind_tls": upstream.plain_behind_tls_url,
        "name_unknown": lambda: "http://no-such-name.invalid/",
    }
    return others[name]()


async def met(client: HttpClient, upstream: BadUpstream, name: str, **options: Any) -> Failure | None:
    """What calling the upstream came to: the failure, or nothing when all was well."""
    if name == "never_reads":
        options |= {"body": bytes(8_000_000), "reads": True}
    method = "POST" if "body" in options else "GET"
    redirects = 3 if name.startswith("redirect") else 0
    try:
        await client.call(LINK, method, address(upstream, name), read=Reply.json, redirects=redirects, **options)
    except Failure as failure:
        return failure
    return None


def client_for(upstream: BadUpstream, timeouts: Timeouts = PATIENT) -> HttpClient:
    # Only what the upstream itself redirects to has to be refused, so loopback as a whole is not.
    from holdfast.http.ssrf import Reach

    reach = Reach(public_only=False, refused=("169.254.0.0/16",))
    return HttpClient(reach=reach, timeouts=timeouts, body_bytes_max=BODY_BYTES_MAX, tls=upstream.trusting())


def test_every_behaviour_is_in_the_table() -> None:
    assert set(BEHAVIOURS) <= set(CODES)
    assert len([name for name, code in CODES.items() if code]) >= 30


def test_the_bombs_are_in_order_and_large() -> None:
    for packed, bits in ((bomb(gzip=True), 31), (bomb(gzip=False), 15)):
        assert len(packed) < 100_000
        assert len(zlib.decompress(packed, bits)) == BOMB_BYTES


def test_every_behaviour_says_what_it_does() -> None:
    assert [name for name, behaviour in BEHAVIOURS.items() if not (behaviour.__doc__ or "").strip()] == []


@pytest.mark.parametrize(("name", "code"), CODES.items(), ids=CODES)
async def test_every_behaviour_is_classified(upstream: BadUpstream, name: str, code: str) -> None:
    async with client_for(upstream, QUICK if code == "NETWORK_TIMEOUT" else PATIENT) as client:
        began_s = REAL.monotonic_s()
        failure = await met(client, upstream, name)
        took_s = REAL.monotonic_s() - began_s
        if name != "answers_late":  # a stray reply that comes after the next request cannot be told from its answer
            assert (await client.send("GET", upstream.url("ok"), timeouts=PATIENT)).json() == {"ok": True}
    assert (failure.code if failure else "") == code
    if failure is not None and failure.fault.code in CORE:
        assert failure.fault.retryable == CORE[code].retryable
    if name in WAITS_S:
        assert failure is not None
        # A date comes nearer while the reply is on its way.
        wanted_s = WAITS_S[name]
        assert failure.retry_after_s == (None if wanted_s is None else pytest.approx(wanted_s, abs=2 + took_s))


async def test_no_behaviour_outlasts_the_deadline_by_a_tenth(upstream: BadUpstream) -> None:
    deadline_s = 2.0

    async def late(client: HttpClient, name: str) -> tuple[str, str, float] | None:
        started_s = REAL.monotonic_s()
        with within(deadline_s):
            failure = await met(client, upstream, name)
        took_s = REAL.monotonic_s() - started_s
        code = "" if failure is None else failure.code
        return None if code == "NETWORK_TIMEOUT" and took_s <= deadline_s * 1.1 else (name, code, took_s)

    for name in ("tls_good", "hang_at_connect"):
        address(upstream, name)  # certificates and sockets are made beforehand
    left = list(HANGING)
    # A machine that stands still makes anybody late: what was late is looked at again. Who is always late is too late.
    for _ in range(ROUNDS_MAX):
        async with client_for(upstream) as client:
            ends = await asyncio.gather(*(late(client, name) for name in left))
        found = [end for end in ends if end is not None]
        left = [name for name, _, _ in found]
        if not left:
            break
    assert found == []


async def test_each_phase_has_its_own_limit(upstream: BadUpstream) -> None:
    phases = {"hang_at_connect": "connect", "hang_at_tls": "connect", "hang_in_body": "read", "drip_body": "total"}
    for name, phase in phases.items():
        # Only the limit of this phase is short, so that no other can be the first however slow this machine is.
        timeouts = replace(PATIENT, **{f"{phase}_s": getattr(QUICK, f"{phase}_s")})
        async with client_for(upstream, timeouts) as client:
            failure = await met(client, upstream, name)
        assert failure is not None
        assert (name, failure.details["phase"]) == (name, phase)


@pytest.mark.parametrize("name", HUNGRY)
async def test_no_behaviour_takes_more_memory_than_is_allowed(upstream: BadUpstream, name: str) -> None:
    bomb(gzip=True), bomb(gzip=False)  # made beforehand: the upstream lives in the same process
    async with client_for(upstream, Timeouts(total_s=2)) as client:
        await client.send("GET", upstream.url("ok"), timeouts=PATIENT)
        tracemalloc.start()
        try:
            failure = await met(client, upstream, name)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert failure is not None
    # Twice the limit while the pieces are gathered, and what the two ends of the connection hold.
    assert most < 2 * BODY_BYTES_MAX + 4_000_000


def test_code_that_blocks_gets_the_same_failures(upstream: BadUpstream) -> None:
    names = ["status_503", "garbage", "gzip_bomb", "reset", "tls_expired", "refused", "ok"]
    with client_for(upstream).sync as client:
        for name in names:
            try:
                client.call(LINK, "GET", address(upstream, name))
            except Failure as failure:
                code = failure.code
            else:
                code = ""
            assert (name, code) == (name, CODES[name])


async def test_a_client_that_trusts_only_the_system_refuses_our_authority(upstream: BadUpstream) -> None:
    async with HttpClient(reach=ANYWHERE) as client:
        with pytest.raises(Failure) as caught:
            await client.send("GET", upstream.tls_url(Certificate.GOOD, "ok"))
    assert caught.value.code == "TLS_ERROR"
