"""A job that an upstream's failure ends tells our code and our sentence; what the upstream said is technical."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.http import ANYWHERE, HttpClient
from holdfast.policy import Retry
from holdfast.testing.upstream import BadUpstream
from holdfast.worker import Handlers, Jobs, Worker

from .conftest import PATIENCE_S

LEAK = b'{"error":{"code":"ACCOUNT_CLOSED","message":"closed by 4711"}}'
bank = Link("shop → bank", retry=Retry(attempts=1))


def by_holdfast(url: str) -> None:
    client = HttpClient(reach=ANYWHERE).sync
    try:
        client.call(bank, "GET", url)
    finally:
        client.close()


@bank
def by_httpx(url: str) -> None:
    httpx.get(url).raise_for_status()


def by_httpx_alone(url: str) -> None:
    httpx.get(url).raise_for_status()


@pytest.mark.parametrize("ask", [by_holdfast, by_httpx, by_httpx_alone])
def test_a_dead_job_has_our_code_and_keeps_what_the_upstream_said(
    jobs: Jobs, handlers: Handlers, work: Callable[..., Worker], ask: Callable[[str], None]
) -> None:
    handlers.handle("ask")(lambda job: ask(job.payload["url"]))
    with BadUpstream() as upstream:
        job = jobs.enqueue("ask", {"url": upstream.answer("closed", LEAK, status=401)})
        work()
        with pytest.raises(Failure) as caught:
            jobs.wait(job.id, timeout_s=PATIENCE_S)
    assert caught.value.code == "UPSTREAM_UNAUTHORIZED"
    dead = jobs.show(job.id)
    assert (dead["state"], dead["error_code"]) == ("failed", "UPSTREAM_UNAUTHORIZED")
    assert dead["error_message"] == "Another service that we need did not let us in."
    assert "401 ACCOUNT_CLOSED: closed by 4711" in dead["error_technical"]
    assert jobs.history(job.id)[-1]["upstream_status"] == 401
