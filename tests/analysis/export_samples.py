"""Catalogs to export, and error bodies of every kind with what Holdfast itself reads in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from holdfast.artifact.faults import ARTIFACT_FAULTS
from holdfast.catalog import CORE, Catalog, Context, Failure, Fault
from holdfast.catalog.dialect import Dialect, render
from holdfast.catalog.parsing import dialect_of, parse
from holdfast.delivery.faults import DELIVERY
from holdfast.http.faults import EDGE_FAULTS
from holdfast.policy import NEVER, Retry

CORES = [CORE, EDGE_FAULTS, DELIVERY, ARTIFACT_FAULTS]


def shop() -> Catalog:
    """A catalog of its own: wild words, a conditional rule, a rule that is none, and one that an overlay changed."""
    errors = Catalog("shop'\"<b>", docs="https://docs.example/errors/", extends=(CORE,))
    errors.fault("SHOP_WILD", status=418, says='A | "wild" `line`\nwith <b>*words*</b> and */ ends', related=("GONE",))
    errors.fault("SHOP_ONCE", status=503, retry=NEVER, says="Never again.")
    errors.fault(
        "SHOP_PERHAPS", status=409, retry=Retry(when=lambda failure: "again" in failure.details), says="Perhaps."
    )
    errors.fault("SHOP_FACTS", status=422, says="{name} is missing.", examples=({"name": "```"},))
    errors.overlay({"GONE": True})
    return errors


def bank() -> Catalog:
    """A catalog that means something else by a code of the shop's: other status, other retry."""
    errors = Catalog("bank")
    errors.fault("SHOP_WILD", status=503, retry=True, says="Too many at once.")
    errors.fault("SHOP_FACTS", status=422, retry=True, says="Not yet.")
    return errors


def retried(fault: Fault) -> bool:
    """What the exports have to say of a fault."""
    rule = fault.rule
    return fault.retryable and not (isinstance(rule, Retry) and rule.attempts == 1)


def occurrence(fault: Fault, wait_s: float | None) -> Failure:
    return Failure(
        fault,
        details={"name": "Ann", "again": True},
        retry_after_s=wait_s,
        context=Context(request_id="req_1", trace_id="4bf92f3577b34da6a3ce929d0e0e4736"),
    )


def rendered(catalogs: list[Catalog]) -> Iterator[dict[str, Any]]:
    """Every fault in every dialect, as a response."""
    for catalog in catalogs:
        for fault in catalog:
            for dialect in Dialect:
                wait_s = 7.0 if fault.status == 503 else None
                written = render(occurrence(fault, wait_s), dialect)
                yield {
                    "status": written.status,
                    "headers": dict(written.headers),
                    "body": written.body.decode(),
                    "catalog": catalog.name,
                    "expected": {
                        "code": fault.code,
                        "retryable": retried(fault),
                        "retry_after_s": wait_s,
                        "dialect": dialect.value,
                        "message": occurrence(fault, wait_s).message,
                    },
                }


STRANGE: list[tuple[int, dict[str, str], Any]] = [
    (404, {}, ""),
    (404, {}, "<html>Not Found</html>"),
    (503, {"retry-after": "12"}, "busy"),
    (500, {"RETRY-AFTER": "1.5"}, "[]"),
    (507, {}, "null"),
    (301, {}, "{}"),
    (418, {}, {"detail": "I am a teapot"}),
    (599, {}, {"title": "Odd", "status": 599}),
    (400, {}, {"error": {"code": "lower_case", "message": "No code of ours"}}),
    (400, {}, {"error": {"code": 7, "message": {"deep": 1}}}),
    (422, {}, {"error_code": "STRANGER", "message": "Nobody knows it", "retry_after": 3, "request_id": "req_7"}),
    (422, {}, {"error": "Slow down", "code": "STRANGER", "details": {"retry_after_seconds": "9"}}),
    (400, {}, {"error": "Busy", "code": "QUOTA_EXCEEDED"}),
    (502, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, {"error": "Old", "code": "STRANGER"}),
    (400, {"Retry-After": "soon"}, {"error": "Soon", "code": "STRANGER"}),
    (400, {"Retry-After": "-5"}, {"error": "Ago", "code": "STRANGER", "details": []}),
    (429, {"Retry-After": "999999999"}, {"error": "Long", "code": "RATE_LIMIT_EXCEEDED"}),
    (500, {"X-Request-Id": "req_9"}, {"type": "about:blank", "code": "A" * 65, "trace_id": "bad\nid"}),
    (403, {}, {"error": {"code": "__PROTO__"}}),
    (403, {}, {"error": {"code": "CONSTRUCTOR", "details": {"a": [1, {"b": None}]}}}),
]


def strange(catalog: Catalog) -> Iterator[dict[str, Any]]:
    """Bodies that nobody declared, and what `parse` makes of them."""
    for status, headers, body in STRANGE:
        failure = parse(body, status=status, headers=headers, catalog=catalog)
        document = body if isinstance(body, dict) else json.loads(body) if body in ("[]", "null", "{}") else None
        dialect = dialect_of(document)
        yield {
            "status": status,
            "headers": headers,
            "body": body,
            "catalog": catalog.name,
            "expected": {
                "code": failure.code,
                "retryable": failure.retryable,
                "retry_after_s": failure.retry_after_s,
                "dialect": dialect and dialect.value,
                "request_id": failure.context.request_id,
            },
        }
