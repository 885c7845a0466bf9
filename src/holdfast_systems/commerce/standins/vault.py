"""A stand-in for Vault's KV engine, version 2: secrets in memory, by mount and path.

`GET`, `POST`, `PUT` and `DELETE /v1/{mount}/data/{path}` with the header `X-Vault-Token`. A wrong token is a 403 and a
path without a secret a 404, in Vault's own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.base import Json, Secret, encode, now_us, utc_text
from holdfast.testing import Faulty
from holdfast_systems.commerce.standins.json_service import Answer, Asked, JsonService

TOKEN = Secret("stand-in")
"""What the stand-in takes as a token."""
DEMO_MOUNT, DEMO_PATH = "secret", "offerings/assistant/weather.read"
"""Where the bindings of the demo offering look for the secret of its tool."""
DEMO_SECRET = Secret("demo-weather-key")
SECRETS_MAX = 10_000
_PATH = r"/v1/([^/]+)/data/(.+)"


@dataclass(frozen=True, slots=True)
class _Version:
    number: int
    data: Mapping[str, Secret]
    created_us: int


class VaultStandIn:
    """The secrets, and an ASGI application in front of them."""

    def __init__(self, *, token: Secret = TOKEN) -> None:
        self._token = token
        self._kept: dict[tuple[str, str], _Version] = {}
        self.reads = 0
        """How many reads were answered with a secret."""
        self.keep(DEMO_MOUNT, DEMO_PATH, {"token": DEMO_SECRET})

    def keep(self, mount: str, path: str, data: Mapping[str, Secret]) -> int:
        """Store a new version of a secret and tell its number."""
        before = self._kept.get((mount, path))
        while before is None and len(self._kept) >= SECRETS_MAX:
            del self._kept[next(iter(self._kept))]
        number = 1 if before is None else before.number + 1
        self._kept[mount, path] = _Version(number, dict(data), now_us())
        return number

    def app(self) -> Faulty:
        """The service with switches for its faults."""
        service = JsonService(
            [
                ("GET", _PATH, self._read),
                ("POST", _PATH, self._write),
                ("PUT", _PATH, self._write),
                ("DELETE", _PATH, self._delete),
                ("GET", "/v1/sys/health", lambda _: (200, {"initialized": True, "sealed": False, "standby": False})),
            ],
            missing=(404, {"errors": []}),
        )
        return Faulty(service, health_path="/v1/sys/health", words=_words)

    def _read(self, asked: Asked) -> Answer:
        if not self._admits(asked):
            return 403, {"errors": ["permission denied"]}
        found = self._kept.get((asked.parts[0], asked.parts[1]))
        if found is None:
            return 404, {"errors": []}
        self.reads += 1
        data: Json = {name: value.reveal() for name, value in found.data.items()}
        return 200, {"data": {"data": data, "metadata": _metadata(found)}}

    def _write(self, asked: Asked) -> Answer:
        if not self._admits(asked):
            return 403, {"errors": ["permission denied"]}
        data = asked.json.get("data")
        if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
            return 400, {"errors": ["no data provided"]}
        self.keep(asked.parts[0], asked.parts[1], {name: Secret(value) for name, value in data.items()})
        return 200, {"data": _metadata(self._kept[asked.parts[0], asked.parts[1]])}

    def _delete(self, asked: Asked) -> Answer:
        if not self._admits(asked):
            return 403, {"errors": ["permission denied"]}
        self._kept.pop((asked.parts[0], asked.parts[1]), None)
        return 200, {}

    def _admits(self, asked: Asked) -> bool:
        return self._token.matches(asked.headers.get("x-vault-token", ""))


def _metadata(version: _Version) -> dict[str, Json]:
    return {
        "created_time": utc_text(version.created_us),
        "custom_metadata": None,
        "deletion_time": "",
        "destroyed": False,
        "version": version.number,
    }


def _words(status: int) -> tuple[str, bytes]:
    said = "Vault is sealed" if status == 503 else f"status {status} (a switched fault of the stand-in)"
    return "application/json", encode({"errors": [said]}).encode()
