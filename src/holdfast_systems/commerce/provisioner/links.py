"""Where the provisioner calls others: the control plane, and the shop for its keys and to verify an installation.

The control plane is asked again after 1, 2, 4, 8 and 16 seconds when it answers 502, 503 or 504, or not at all; after
the time in Retry-After when it answers 429; and not again when it answers anything else.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.http import Reply, Timeouts
from holdfast.policy import Backoff, Retry
from holdfast_systems.commerce.faults import INSTALLATION_REFUSED, LINE_REFUSED, UPSTREAM_ERROR
from holdfast_systems.commerce.faults_outside import CONTROL_PLANE_UNAVAILABLE
from holdfast_systems.commerce.loop_client import LoopClient
from holdfast_systems.commerce.provisioner.orders import Line
from holdfast_systems.commerce.tokens import Tokens

DELAYS_S = (1.0, 2.0, 4.0, 8.0, 16.0)
RETRY_AFTER_MAX_S = 60.0
AWAY = frozenset({502, 503, 504})
BUSY = 429
SHOP_S = 5.0
CODE_CHARS_MAX = 100
WHO = {"query": "query { app { id } }"}
KEYS = "/.well-known/jwks.json"


def to_control_plane() -> Link:
    """The link, with every attempt that the seed asks for: neither a budget nor a breaker takes one away."""
    retry = Retry(attempts=len(DELAYS_S) + 1, backoff=Backoff.listed(*DELAYS_S), retry_after_max_s=RETRY_AFTER_MAX_S)
    return Link("provisioner → control plane", retry=retry, budget=None, writes=True)


class ControlPlane:
    """Has lines provisioned."""

    def __init__(self, address: str, tokens: Tokens, *, timeout_s: float) -> None:
        self.link = to_control_plane()
        self._address = address
        self._url = f"{address}/integrations/saleor/order-paid"
        self._tokens = tokens
        self._client = LoopClient(Timeouts(connect_s=timeout_s, read_s=timeout_s, total_s=timeout_s))

    async def provision(self, line: Line) -> dict[str, Any]:
        """What became of a line, within the deadline of the caller.

        Raises:
            Failure: CONTROL_PLANE_UNAVAILABLE, LINE_REFUSED; or why there was no reply.
        """

        async def attempt() -> dict[str, Any]:
            return _read(line, await self._client.here.send("POST", self._url, **self._request(line)))

        return await self.link.keyed(line.key).call(attempt)

    def provision_once(self, line: Line) -> dict[str, Any]:
        """The same in one attempt that blocks, for a job, which has attempts of its own."""
        return _read(line, self._client.sync.send("POST", self._url, **self._request(line)))

    async def enter(self, user_id: str) -> str:
        """A link that signs a buyer in, once.

        Raises:
            Failure: CONTROL_PLANE_UNAVAILABLE; or why there was no reply.
        """
        asked: Any = {"headers": self._tokens.headers(), "json": {"userId": user_id}}
        reply = await self._client.here.send("POST", f"{self._address}/buyers/sessions", **asked)
        if not reply.ok:
            raise CONTROL_PLANE_UNAVAILABLE()
        return f"{self._address}/#ticket={quote(reply.json()['ticket'])}"

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _request(self, line: Line) -> Any:
        return {"headers": {**self._tokens.headers(), "idempotency-key": line.key}, "json": line.document()}


class Shop:
    """The shop: the keys that it signs with, and whether it gave out a token. Blocks."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = LoopClient(Timeouts(connect_s=SHOP_S, read_s=SHOP_S, total_s=SHOP_S))

    def keys(self, _: str) -> bytes:
        """The key set; only the configured shop is ever asked, whatever a request names.

        Raises:
            Failure: there is none.
        """
        reply = self._client.sync.send("GET", f"{self._address}{KEYS}")
        if not reply.ok:
            raise UPSTREAM_ERROR(status=reply.status)
        return reply.body

    def app_id(self, token: Secret) -> str:
        """The id of the app that the shop gave this token to.

        Raises:
            Failure: INSTALLATION_REFUSED; or why there was no reply.
        """
        headers = {"authorization": f"Bearer {token.reveal()}"}
        reply = self._client.sync.send("POST", f"{self._address}/graphql/", headers=headers, json=WHO)
        answer = reply.json() if reply.ok else None
        data = answer.get("data") if isinstance(answer, dict) else None
        app = data.get("app") if isinstance(data, dict) else None
        if not isinstance(app, dict) or not isinstance(app.get("id"), str):
            raise INSTALLATION_REFUSED()
        return str(app["id"])

    def close(self) -> None:
        """Close every connection."""
        self._client.close()


def _read(line: Line, reply: Reply) -> dict[str, Any]:
    """What the control plane said about a line.

    Raises:
        Failure: CONTROL_PLANE_UNAVAILABLE, LINE_REFUSED.
    """
    if reply.status in AWAY or reply.status == BUSY:
        raise CONTROL_PLANE_UNAVAILABLE(retry_after_s=reply.retry_after_s, status=reply.status)
    answer = _answer(reply)
    if not reply.ok:
        error = answer.get("error")
        said = error.get("code") if isinstance(error, dict) else None
        code = said[:CODE_CHARS_MAX] if isinstance(said, str) else f"HTTP_{reply.status}"
        raise LINE_REFUSED(lineId=line.line_id, code=code)
    told = {name: answer.get(name) for name in ("lineId", "instanceId", "walletId", "ledgerEntryId", "status")}
    if told["lineId"] != line.line_id or not told["ledgerEntryId"]:
        raise LINE_REFUSED(lineId=line.line_id, code="INVALID_RESPONSE")
    return told


def _answer(reply: Reply) -> dict[str, Any]:
    try:
        answer = reply.json()
    except Failure:
        if reply.ok:
            raise
        return {}
    return answer if isinstance(answer, dict) else {}
