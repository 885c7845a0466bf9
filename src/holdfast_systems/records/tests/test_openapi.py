"""Whatever a generator makes of the description, nothing is answered that the description does not say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from holdfast.store import Store
from holdfast_systems.records.faults import RETRY_CLASSES

from .live import OPERATOR, PATIENCE_S, Live, running

EXAMPLES = 30
MAINTENANCE = "/v1/admin/maintenance"
METHODS = ("get", "post", "put", "patch", "delete")
ROUTES = {
    "/v1/companies": "get post", "/v1/companies/{company_uid}": "get patch delete", "/v1/people": "get post",
    "/v1/people/{person_uid}": "get patch delete", "/v1/slots/{slot_uid}": "put delete", "/v1/reviews": "get",
    "/v1/reviews/{review_id}/approve": "post", "/v1/reviews/{review_id}/reject": "post", "/v1/imports": "get post",
    "/v1/imports/{import_id}": "get", "/v1/imports/{import_id}/rows": "get", "/v1/verifications": "get post",
    "/v1/verifications/{verification_id}": "get", "/v1/enrichments": "post", "/v1/enrichments/{enrichment_id}": "get",
    "/v1/admin/keys": "get post", "/v1/admin/keys/{key_id}": "delete", "/v1/admin/quotas/{account_id}": "get put",
    "/v1/admin/maintenance": "put delete", "/v1/admin/accounts": "get",
}  # fmt: skip


@pytest.fixture
def described(solo: Live) -> dict[str, Any]:
    reply = solo.http.get("/records/openapi.json")
    assert reply.status_code == 200
    return dict(reply.json())


def test_every_route_is_described_with_its_codes(described: dict[str, Any]) -> None:
    found = {path: " ".join(name for name in METHODS if name in said) for path, said in described["paths"].items()}
    assert found == {path: " ".join(name for name in METHODS if name in said.split()) for path, said in ROUTES.items()}
    told: set[str] = set()
    for said in described["paths"].values():
        for name in METHODS:
            for status, response in said.get(name, {"responses": {}})["responses"].items():
                examples = response["content"]["application/json"].get("examples", {})
                if int(status) >= 400:
                    assert examples, (said, status)
                for code, example in examples.items():
                    told.add(code)
                    assert example["value"]["error_code"] == code
    # What a provider says to us is for operators; callers are told of the verification that failed.
    assert set(RETRY_CLASSES) - told == {"PROVIDER_REFUSES_US"}
    assert described["components"]["securitySchemes"].keys() == {"apiKey", "bearer", "operator"}


@pytest.fixture
def serving(store: Store, tmp_path: Path) -> Iterator[Live]:
    with running(store, tmp_path, worker=True, QUEUEING_TARGET_S="60") as live:
        yield live


# The server and its worker run in this process: what they draw by chance has nothing to do with the strategies.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize("part", sorted({path.split("/")[2] for path in ROUTES}))
def test_nothing_is_answered_that_is_not_described(serving: Live, part: str) -> None:
    account = serving.account()
    schema = schemathesis.openapi.from_dict(serving.http.get("/records/openapi.json").json())
    statuses: set[int] = set()
    tried: set[tuple[str, str]] = set()
    for operation in (found.ok() for found in schema.get_all_operations()):
        if operation.path.split("/")[2] != part:
            continue
        headers = OPERATOR if part == "admin" else {"X-API-Key": account.key}
        statuses |= answered(serving, operation, headers)
        tried.add((operation.path, operation.method.lower()))
    of_part = {path: said.split() for path, said in ROUTES.items() if path.split("/")[2] == part}
    assert tried == {(path, method) for path, methods in of_part.items() for method in methods}
    assert statuses & {200, 201, 202, 404}
    assert statuses & {400, 404}


def answered(serving: Live, operation: Any, headers: dict[str, str]) -> set[int]:
    """The statuses of many requests to one operation, good ones and bad ones; each is checked."""
    statuses: set[int] = set()
    good, bad = (
        operation.as_strategy(generation_mode=one) for one in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    )

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
        derandomize=True,
        database=None,
    )
    @given(case=good | bad)
    def each(case: Any) -> None:
        # A generator may choose any account; ours must stay open for the rest.
        case.path_parameters = {
            name: "acct_other" if name == "account_id" else value for name, value in case.path_parameters.items()
        }
        reply = case.call(base_url=f"{serving.url}/records", headers=headers, timeout=PATIENCE_S)
        statuses.add(reply.status_code)
        assert reply.status_code < 500, (case, reply.text)
        known = operation.definition.raw["responses"]
        unrouted = reply.status_code in (404, 405, 307) and reply.json()["error_code"] in (
            "NOT_FOUND",
            "METHOD_NOT_ALLOWED",
        )
        assert str(reply.status_code) in known or unrouted, (reply.status_code, case, reply.text)
        if str(reply.status_code) in known and not unrouted:
            operation.validate_response(reply)
        if operation.path == MAINTENANCE:
            # What was announced would close the API to all that follows.
            assert serving.operate("DELETE", "/maintenance").status_code == 200

    each()
    return statuses
