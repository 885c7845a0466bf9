"""The settings of the credentials system: from the environment, and for all that has more parts, from a file.

What cannot be right is refused at the start, with the file, the key and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.base import Secret
from holdfast.delivery import SECRETS_MAX
from holdfast.http.client_address import Network
from holdfast.policy import RateLimit

PLATFORM = "gotong_royong"
PARTS = ("platform", "engine")
LIMIT = RateLimit(count=1_000, per_s=60.0)
DELAYS_S = (1.0, 2.0, 4.0, 8.0)
TIMEOUT_S = 10.0

SECRET_VARIABLE = "HOLDFAST_CREDENTIALS_SECRET"  # noqa: S105 - the name of a variable
FILE_VARIABLE = "HOLDFAST_CREDENTIALS_SETTINGS"
PARTS_VARIABLE = "HOLDFAST_CREDENTIALS_PARTS"
ENGINE_VARIABLE = "HOLDFAST_CREDENTIALS_ENGINE_URL"
OPS_VARIABLE = "HOLDFAST_CREDENTIALS_OPS_URL"
MAINTENANCE_VARIABLE = "HOLDFAST_CREDENTIALS_MAINTENANCE"
VIEWS_VARIABLE = "HOLDFAST_CREDENTIALS_VIEWS"


class SettingsInvalid(ValueError):
    """A setting cannot be meant: where it stands, and why."""

    def __init__(self, where: str, key: str, reason: str) -> None:
        super().__init__(f"{where}: {key}: {reason}" if key else f"{where}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSettings:
    """One platform that the engine listens to."""

    secrets: tuple[Secret, ...] = ()
    """Every secret in force; while one is being rotated, the old and the new."""
    networks: tuple[Network, ...] = ()
    """Where it may send from; none is anywhere."""
    limit: RateLimit = LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderSettings:
    """How the platform sends."""

    engine_url: str | None = None
    """Where events go; None is the engine beside it."""
    ops_url: str | None = None
    """Who is told when an event is given up; None tells the log and the bus only."""
    delays_s: tuple[float, ...] = DELAYS_S
    timeout_s: float = TIMEOUT_S
    allowed_targets: frozenset[str] = frozenset()
    """Exact hosts and ports that are not public addresses and may be sent to all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set."""

    parts: tuple[str, ...] = PARTS
    platforms: Mapping[str, PlatformSettings] = field(default_factory=lambda: {PLATFORM: PlatformSettings()})
    trusted_proxies: tuple[Network, ...] = ()
    maintenance: bool = False
    views: bool = False
    """Whether the contract's tables are there under their own names, as views."""
    sender: SenderSettings = SenderSettings()


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings that the environment names.

    Raises:
        SettingsInvalid: one of them cannot be meant.
    """
    from dataclasses import replace

    from holdfast_systems.credentials.settings_file import read_file, read_secrets, read_url

    path = environment.get(FILE_VARIABLE)
    settings = read_file(Path(path)) if path else Settings()
    given = environment.get(SECRET_VARIABLE)
    if given:
        settings = _with_secret(settings, *read_secrets(SECRET_VARIABLE, "", [given]))
    parts = tuple(part.strip() for part in (environment.get(PARTS_VARIABLE) or ",".join(settings.parts)).split(","))
    for part in parts:
        if part not in PARTS:
            raise SettingsInvalid(PARTS_VARIABLE, "", f"{part!r} is none of {', '.join(PARTS)}")
    engine_url = read_url(ENGINE_VARIABLE, "", environment.get(ENGINE_VARIABLE)) or settings.sender.engine_url
    ops_url = read_url(OPS_VARIABLE, "", environment.get(OPS_VARIABLE)) or settings.sender.ops_url
    return replace(
        settings,
        parts=parts,
        maintenance=settings.maintenance or _switch(environment, MAINTENANCE_VARIABLE),
        views=settings.views or _switch(environment, VIEWS_VARIABLE),
        sender=replace(settings.sender, engine_url=engine_url, ops_url=ops_url),
    )


def _with_secret(settings: Settings, secret: Secret) -> Settings:
    """The environment's secret is the newest of its platform."""
    from dataclasses import replace

    known = settings.platforms.get(PLATFORM, PlatformSettings())
    secrets = (secret, *(held for held in known.secrets if held != secret))
    if len(secrets) > SECRETS_MAX:
        raise SettingsInvalid(SECRET_VARIABLE, "", f"is one more than {SECRETS_MAX} with those in the settings file")
    return replace(settings, platforms={**settings.platforms, PLATFORM: replace(known, secrets=secrets)})


def _switch(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name, "")
    if text not in {"0", "1", ""}:
        raise SettingsInvalid(name, "", f"{text!r} is neither 0 nor 1")
    return text == "1"
