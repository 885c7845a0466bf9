"""The settings file: TOML, read once at the start. Every complaint names the file, the key and the reason."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_network
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast.base import Secret
from holdfast.delivery import SECRETS_MAX
from holdfast.http.client_address import Network
from holdfast.policy import RateLimit
from holdfast_systems.credentials.settings import (
    DELAYS_S,
    LIMIT,
    PLATFORM,
    TIMEOUT_S,
    PlatformSettings,
    SenderSettings,
    Settings,
    SettingsInvalid,
)

FILE_BYTES_MAX = 262_144
PLATFORMS_MAX = 200
ATTEMPTS_MAX = 50
SECONDS_MAX = 86_400.0
COUNT_MAX = 1_000_000

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}\Z")
_TARGET = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+):[0-9]{1,5}\Z")


def read_file(path: Path) -> Settings:
    """The settings in the file.

    Raises:
        SettingsInvalid: it cannot be read, or says something that cannot be meant.
    """
    table = _Table(str(path), "", _parsed(path))
    named = table.table("platforms")
    if len(named.values) > PLATFORMS_MAX:
        raise named.wrong("", f"has more than {PLATFORMS_MAX} entries")
    platforms = {name: _platform(named, name) for name in list(named.values)}
    settings = Settings(
        platforms={PLATFORM: PlatformSettings(), **platforms},
        trusted_proxies=table.networks("trusted_proxies"),
        maintenance=table.take("maintenance", False, bool, "is neither true nor false"),
        views=table.take("views", False, bool, "is neither true nor false"),
        sender=_sender(table.table("sender")),
    )
    named.end()
    table.end()
    return settings


def read_url(where: str, key: str, given: str | None) -> str | None:
    """An address of HTTP, if there is one.

    Raises:
        SettingsInvalid: it is none.
    """
    if not given:
        return None
    try:
        parts = urlsplit(given)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and "@" not in given
    except ValueError:
        good = False
    if not good:
        raise SettingsInvalid(where, key, "is not an address such as https://engine.example/v1/platforms/name/webhook")
    return given


def read_secrets(where: str, key: str, given: Sequence[str]) -> tuple[Secret, ...]:
    """Secrets that can sign, and that a database can keep.

    Raises:
        SettingsInvalid: one cannot, or there are more than can be in force; what it is, is not told.
    """
    if len(given) > SECRETS_MAX:
        raise SettingsInvalid(where, key, f"has more than {SECRETS_MAX} entries")
    for text in given:
        if "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
            raise SettingsInvalid(where, key, "holds a NUL, or bytes that are not UTF-8")
    return tuple(Secret(text) for text in given)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as refused:
        raise SettingsInvalid(str(path), "", f"cannot be read: {refused.strerror}") from refused
    if len(text) > FILE_BYTES_MAX:
        raise SettingsInvalid(str(path), "", f"is larger than {FILE_BYTES_MAX} bytes")
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError:
        raise SettingsInvalid(str(path), "", "is not UTF-8") from None
    except tomllib.TOMLDecodeError as broken:
        raise SettingsInvalid(str(path), "", f"is not TOML: {broken}") from None


def _platform(named: _Table, name: str) -> PlatformSettings:
    if not _NAME.match(name):
        raise named.wrong(name, "is not a name: a-z, 0-9, dash and underscore, at most 50")
    table = named.table(name)
    texts = table.texts("secrets", "is a list of texts that are not empty")
    secrets = read_secrets(table.where, table.name("secrets"), texts)
    if not secrets and name != PLATFORM:
        raise table.wrong("secrets", "is needed: without one nobody can send")
    networks = table.networks("networks")
    count = table.number("limit", LIMIT.count, COUNT_MAX)
    if count != int(count):
        raise table.wrong("limit", "is a whole number")
    window_s = table.number("window_s", LIMIT.per_s, SECONDS_MAX)
    table.end()
    try:
        return PlatformSettings(secrets=secrets, networks=networks, limit=RateLimit(count=int(count), per_s=window_s))
    except ValueError as wrong:
        raise table.wrong("limit", str(wrong)) from None


def _sender(table: _Table) -> SenderSettings:
    targets = table.texts("allowed_targets", "is a list such as ['127.0.0.1:9000']")
    for target in targets:
        if not _TARGET.match(target):
            raise table.wrong("allowed_targets", f"{target!r} is not an exact host and port in lower case")
    delays = table.take("delays_s", list(DELAYS_S), list, "is a list of seconds")
    if len(delays) >= ATTEMPTS_MAX or not all(_is_number(one) and 0 <= one <= SECONDS_MAX for one in delays):
        raise table.wrong("delays_s", f"is a list of fewer than {ATTEMPTS_MAX} numbers of seconds")
    urls = {name: read_url(table.where, table.name(name), table.text(name)) for name in ("engine_url", "ops_url")}
    timeout_s = table.number("timeout_s", TIMEOUT_S, SECONDS_MAX)
    table.end()
    return SenderSettings(
        **urls, delays_s=tuple(map(float, delays)), timeout_s=timeout_s, allowed_targets=frozenset(targets)
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


class _Table:
    """A table of the file; what nobody has asked for at the end is a mistake."""

    def __init__(self, where: str, path: str, values: Mapping[str, Any]) -> None:
        self.where = where
        self.values = dict(values)
        self._path = path

    def name(self, key: str) -> str:
        return ".".join(part for part in (self._path, key) if part)

    def wrong(self, key: str, reason: str) -> SettingsInvalid:
        return SettingsInvalid(self.where, self.name(key), reason)

    def take(
        self, key: str, default: Any, kind: type, reason: str, fits: Callable[[Any], bool] = lambda _: True
    ) -> Any:
        value = self.values.pop(key, default)
        if not isinstance(value, kind) or not fits(value):
            raise self.wrong(key, reason)
        return value

    def table(self, key: str) -> _Table:
        return _Table(self.where, self.name(key), self.take(key, {}, dict, "is not a table"))

    def text(self, key: str) -> str:
        return str(self.take(key, "", str, "is not text"))

    def texts(self, key: str, reason: str) -> list[str]:
        listed = self.take(key, [], list, reason, lambda all_: all(isinstance(one, str) and one for one in all_))
        return list(listed)

    def number(self, key: str, default: float, most: float) -> float:
        reason = f"is not a number above 0 and up to {most:g}"
        return float(self.take(key, default, object, reason, lambda value: _is_number(value) and 0 < value <= most))

    def networks(self, key: str) -> tuple[Network, ...]:
        found = []
        for text in self.texts(key, "is a list of networks such as ['203.0.113.0/24']"):
            try:
                network = ip_network(text)
            except ValueError as wrong:
                raise self.wrong(key, str(wrong)) from None
            if network.version == 6 and network.network_address.ipv4_mapped is not None:
                raise self.wrong(key, f"{text} would never fit: IPv4 addresses are compared as such, write it so")
            found.append(network)
        return tuple(found)

    def end(self) -> None:
        """Refuse what nobody knows.

        Raises:
            SettingsInvalid: a key that means nothing.
        """
        for key in self.values:
            raise self.wrong(key, "is nothing that can be set here")
