"""Stand-ins for the two verifiers, in their real HTTP shapes. The beginning of an address says what comes back:

`invalid@…`, `catchall@…`, `disposable@…`, `unknown@…`, `slow@…` (unknown, and worth another try); all others are good.
The keys `bad-key` and `no-credits` are refused as the real services refuse them: with status 200.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from holdfast.base import encode, now_us, utc_text
from holdfast.http.asgi import Application, Receive, Reply, Scope, Send, give
from holdfast.testing import Faulty

BAD_KEY, NO_CREDITS = "bad-key", "no-credits"

_MILLION = {"invalid": "invalid", "catchall": "catch_all", "disposable": "disposable", "unknown": "unknown"}
_ZERO = {
    "invalid": ("invalid", "mailbox_not_found"),
    "catchall": ("catch-all", ""),
    "disposable": ("do_not_mail", "disposable"),
    "unknown": ("unknown", "failed_smtp_connection"),
    "slow": ("unknown", "timeout_exceeded"),
}
_CODES = {"ok": 1, "catch_all": 2, "unknown": 3, "error": 4, "disposable": 5, "invalid": 6}


def standins() -> dict[str, Application]:
    """Both stand-ins by their names, with switches for faults."""
    return {
        "millionverifier": Faulty(_service({"/api/v3": _millionverifier})),
        "zerobounce": Faulty(_service({"/v2/validate": _zerobounce, "/v2/getcredits": _zerobounce_credits})),
    }


def _millionverifier(asked: Mapping[str, str]) -> dict[str, Any]:
    email, key = asked.get("email", ""), asked.get("api", "")
    refusal = {"": "no api specified", BAD_KEY: "apikey not found", NO_CREDITS: "Insufficient credits"}.get(key, "")
    result = "error" if refusal else _MILLION.get(_beginning(email), "unknown" if _beginning(email) == "slow" else "ok")
    return {
        "email": email,
        "quality": {"ok": "good", "catch_all": "risky", "unknown": "risky"}.get(result, "bad"),
        "result": result,
        "resultcode": _CODES[result],
        "subresult": result,
        "free": False,
        "role": _beginning(email) in ("info", "sales"),
        "didyoumean": "",
        "credits": 0 if refusal else 1_000,
        "executiontime": 1,
        "error": refusal,
        "livemode": False,
    }


def _zerobounce(asked: Mapping[str, str]) -> dict[str, Any]:
    email, key = asked.get("email", ""), asked.get("api_key", "")
    if key in ("", BAD_KEY, NO_CREDITS):
        return {"error": "Invalid API key or your account ran out of credits"}
    status, sub_status = _ZERO.get(_beginning(email), ("valid", ""))
    account, _, domain = email.partition("@")
    return {
        "address": email,
        "status": status,
        "sub_status": sub_status,
        "free_email": False,
        "did_you_mean": None,
        "account": account,
        "domain": domain,
        "mx_found": "true",
        "mx_record": f"mx.{domain}",
        "smtp_provider": "",
        "processed_at": utc_text(now_us())[:23].replace("T", " "),
    }


def _zerobounce_credits(asked: Mapping[str, str]) -> dict[str, Any]:
    return {"Credits": "-1" if asked.get("api_key") in (None, BAD_KEY, NO_CREDITS) else "1000"}


def _beginning(email: str) -> str:
    return email.partition("@")[0].partition("+")[0].lower()


def _service(answers: Mapping[str, Any]) -> Application:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - questions have no body
        if scope["type"] != "http":
            return
        path = str(scope["path"]).removeprefix(scope.get("root_path", "")).rstrip("/")
        asked = {name: values[0] for name, values in parse_qs(scope["query_string"].decode("latin-1")).items()}
        found = answers.get(path)
        body = encode({"error": "not found"} if found is None else found(asked)).encode()
        reply = Reply(body=body, content_type="application/json", status=404 if found is None else 200)
        await give(reply, send, head=scope["method"] == "HEAD")

    return answer
