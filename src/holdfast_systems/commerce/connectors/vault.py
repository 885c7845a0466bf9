"""Secrets from Vault's KV engine, version 2, read anew for every call.

Always true: nothing is kept after a call, no answer of the vault is part of a failure, and without the secret no tool
runs.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from holdfast.base import CodecError, Secret, decode
from holdfast.catalog import Failure
from holdfast.guard import Link
from holdfast.http import HttpClient, Reply, Timeouts
from holdfast_systems.commerce.connectors.links import STATUS
from holdfast_systems.commerce.faults import VAULT_UNAVAILABLE
from holdfast_systems.commerce.faults_outside import SECRET_NOT_FOUND, VAULT_REFUSED

ANSWER_BYTES_MAX = 65_536
SECRET_CHARS_MAX = 8_192
PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*\Z")
PATH_CHARS_MAX = 300


class Vault:
    """Reads secrets. One for each event loop."""

    def __init__(
        self, client: HttpClient, link: Link, *, address: str, token: Secret, mount: str, timeout_s: float
    ) -> None:
        self._client = client
        self._link = link
        self._address = address.rstrip("/")
        self._token = token
        self._mount = mount
        self._timeouts = Timeouts(connect_s=timeout_s, read_s=timeout_s, total_s=timeout_s)

    async def read(self, path: str, field: str, *, tool: str) -> Secret:
        """One field of the secret at a path.

        Raises:
            Failure: VAULT_UNAVAILABLE; SECRET_NOT_FOUND and VAULT_REFUSED, which are for operators.
        """
        if not self._address:
            raise VAULT_UNAVAILABLE(reason="not_configured")
        if len(path) > PATH_CHARS_MAX or not PATH.match(path):
            raise SECRET_NOT_FOUND(tool=tool, field=field)
        url = f"{self._address}/v1/{quote(self._mount, safe='')}/data/{quote(path)}"
        try:
            reply = await self._link.call(self._attempt, url, tool)
        except (Failure, TimeoutError) as failed:
            failure = _told(failed)
        else:
            return _field(reply, field, tool)
        raise failure  # outside, so that nothing of the exchange comes along as its context

    async def _attempt(self, url: str, tool: str) -> Reply:
        headers = {"x-vault-token": self._token.reveal(), "x-vault-request": "true"}
        reply = await self._client.send(
            "GET", url, headers=headers, timeouts=self._timeouts, body_bytes_max=ANSWER_BYTES_MAX
        )
        if reply.status == 404:
            raise SECRET_NOT_FOUND(tool=tool, field="")
        if reply.status in (400, 401, 403):
            raise VAULT_REFUSED(tool=tool, reason=f"http_{reply.status}")
        if reply.status != 200:
            raise VAULT_UNAVAILABLE(retry_after_s=reply.retry_after_s, **{STATUS: reply.status})
        return reply


def _told(failed: Failure | TimeoutError) -> Failure:
    if isinstance(failed, Failure) and failed.code in (SECRET_NOT_FOUND.code, VAULT_REFUSED.code):
        return Failure(failed.fault, details=failed.details)
    if isinstance(failed, Failure):
        status = failed.details.get(STATUS)
        reason = f"http_{status}" if status else failed.code.lower()
        return VAULT_UNAVAILABLE(retry_after_s=failed.retry_after_s, reason=reason)
    return VAULT_UNAVAILABLE(reason="timeout")


def _field(reply: Reply, field: str, tool: str) -> Secret:
    """One field of the vault's answer, which is read here and nowhere else."""
    try:
        answer = decode(reply.body)
    except CodecError:
        answer = None
    outer = answer.get("data") if isinstance(answer, dict) else None
    data = outer.get("data") if isinstance(outer, dict) else None
    if not isinstance(data, dict):
        raise VAULT_UNAVAILABLE(reason="unreadable_answer")
    value = data.get(field)
    if not isinstance(value, str) or not 0 < len(value) <= SECRET_CHARS_MAX or not value.isprintable():
        raise SECRET_NOT_FOUND(tool=tool, field=field)
    return Secret(value)
