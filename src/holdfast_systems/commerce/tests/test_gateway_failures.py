"""What a failure of the runner or of the control plane is to the gateway's callers: pure decisions, case by case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.catalog import CORE, Failure, Remote
from holdfast.http import Reply
from holdfast_systems.commerce.faults import COMMERCE, EXECUTION_UNAVAILABLE, RUN_TIMEOUT, UPSTREAM_ERROR
from holdfast_systems.commerce.gateway import control_plane, runner_client
from holdfast_systems.commerce.gateway.links import is_away


def reply(status: int, body: Any = None, **headers: str) -> Reply:
    from holdfast.http.reply import Headers

    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Reply(status=status, body=content, headers=Headers(headers.items()))


def error(code: str, **details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": "…", "details": details, "traceId": "t"}}


@pytest.mark.parametrize(
    ("answered", "code", "may_have_run"),
    [
        (reply(503, error("EXECUTION_UNAVAILABLE", mayHaveRun=False)), "EXECUTION_UNAVAILABLE", False),
        (reply(503, error("EXECUTION_UNAVAILABLE", mayHaveRun=True)), "EXECUTION_UNAVAILABLE", True),
        (reply(503, error("EXECUTION_UNAVAILABLE")), "EXECUTION_UNAVAILABLE", True),
        (reply(504, error("RUN_TIMEOUT", mayHaveRun=True)), "RUN_TIMEOUT", True),
        (reply(502, error("UPSTREAM_ERROR", mayHaveRun=False)), "UPSTREAM_ERROR", False),
        (reply(500, error("INTERNAL_ERROR")), "EXECUTION_UNAVAILABLE", True),
        (reply(503, b"<html>busy</html>"), "EXECUTION_UNAVAILABLE", False),
        (reply(429, error("RATE_LIMITED")), "EXECUTION_UNAVAILABLE", False),
        (reply(504, b""), "RUN_TIMEOUT", True),
        (reply(502, b""), "EXECUTION_UNAVAILABLE", True),
        (reply(401, error("UNAUTHORIZED")), "UPSTREAM_ERROR", False),
        (reply(400, error("INVALID_REQUEST")), "UPSTREAM_ERROR", False),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Reply) else str(value),
)
def test_a_refusal_of_the_runner_says_whether_the_run_may_have_run(
    answered: Reply, code: str, may_have_run: bool
) -> None:
    told = runner_client.translated(runner_client.refusal_of(answered), "run_1")
    assert (told.code, told.details["mayHaveRun"], told.details["charged"]) == (code, may_have_run, 0)
    assert (told.retry_after_s is not None) == (not may_have_run), "what may have run is not to be sent again"


@pytest.mark.parametrize(
    ("failure", "code", "may_have_run"),
    [
        (CORE["CONNECTION_REFUSED"](), "EXECUTION_UNAVAILABLE", False),
        (CORE["DNS_FAILED"](), "EXECUTION_UNAVAILABLE", False),
        (CORE["BREAKER_OPEN"].occur(), "EXECUTION_UNAVAILABLE", False),
        (CORE["NETWORK_TIMEOUT"].occur(phase="connect"), "EXECUTION_UNAVAILABLE", False),
        (CORE["NETWORK_TIMEOUT"].occur(phase="total"), "RUN_TIMEOUT", True),
        (CORE["DEADLINE_EXCEEDED"].occur(), "RUN_TIMEOUT", True),
        (CORE["CONNECTION_RESET"](), "EXECUTION_UNAVAILABLE", True),
        (CORE["INVALID_RESPONSE"](), "UPSTREAM_ERROR", True),
    ],
    ids=lambda value: value.code if isinstance(value, Failure) else str(value),
)
def test_a_lost_reply_of_the_runner_counts_as_a_run_that_may_have_run(
    failure: Failure, code: str, may_have_run: bool
) -> None:
    told = runner_client.translated(failure, "run_1")
    assert (told.code, told.details["mayHaveRun"]) == (code, may_have_run)


@pytest.mark.parametrize(
    "answer",
    [{}, {"output": "x"}, {"output": "x", "usage": {}}, {"output": "x", "usage": {"credits": "many"}}, [], None],
    ids=str,
)
def test_an_answer_that_says_something_else_is_no_answer(answer: Any) -> None:
    with pytest.raises(Failure) as caught:
        runner_client._answer(answer)
    assert caught.value.code == "INVALID_RESPONSE"


def test_an_answer_is_one_that_every_database_can_keep() -> None:
    read = runner_client._answer({"output": "a\0b", "usage": {"credits": -3}})
    assert (read.output, read.credits) == ("a\ufffdb", 0)


def remote(fault: str, status: int) -> Failure:
    return Failure(CORE[fault], remote=Remote(status))


@pytest.mark.parametrize(
    ("failure", "code", "again"),
    [
        (CORE["CONNECTION_REFUSED"](), "BILLING_UNAVAILABLE", True),
        (CORE["CONNECTION_RESET"](), "BILLING_UNAVAILABLE", True),
        (CORE["NETWORK_TIMEOUT"].occur(phase="total"), "BILLING_UNAVAILABLE", True),
        (CORE["BREAKER_OPEN"].occur(), "BILLING_UNAVAILABLE", False),
        (remote("BAD_GATEWAY", 502), "BILLING_UNAVAILABLE", True),
        (remote("SERVICE_UNAVAILABLE", 503), "BILLING_UNAVAILABLE", True),
        (remote("GATEWAY_TIMEOUT", 504), "BILLING_UNAVAILABLE", True),
        (remote("UPSTREAM_ERROR", 500), "BILLING_UNAVAILABLE", False),
        (remote("UPSTREAM_UNAUTHORIZED", 401), "UPSTREAM_ERROR", False),
        (remote("UPSTREAM_REJECTED", 409), "UPSTREAM_ERROR", False),
        (CORE["INVALID_RESPONSE"](), "UPSTREAM_ERROR", False),
        (Failure(COMMERCE["INSTANCE_NOT_FOUND"], remote=Remote(404)), "INSTANCE_NOT_FOUND", False),
        (Failure(COMMERCE["INSTANCE_PAUSED"], remote=Remote(403)), "INSTANCE_PAUSED", False),
        (Failure(COMMERCE["RESERVATION_RELEASED"], remote=Remote(409)), "RESERVATION_RELEASED", False),
    ],
    ids=lambda value: (
        f"{value.code}-{value.remote and value.remote.status}" if isinstance(value, Failure) else str(value)
    ),
)
def test_3_4_retries_on_502_503_504_and_network_errors_alone(failure: Failure, code: str, again: bool) -> None:
    assert is_away(failure) is again
    assert control_plane.translated(failure).code == code


def test_the_codes_that_cross_between_the_services_are_declared_once() -> None:
    assert {EXECUTION_UNAVAILABLE.code, RUN_TIMEOUT.code, UPSTREAM_ERROR.code} == runner_client.OWN
