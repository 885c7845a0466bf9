"""The settings of the records system, each with its default: `HOLDFAST_RECORDS_<NAME>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from holdfast.base import Secret

PREFIX = "HOLDFAST_RECORDS_"
DAY_S = 86_400.0
NONE = Secret("")


class SettingInvalid(ValueError):
    """A setting holds something that cannot be meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How records are served here."""

    server_id: str = ""
    """The name of this server in the context of failures; without one, the name of the machine."""
    database_shard: str = "primary"
    """The name of the database in error bodies and in the context of failures."""
    renewal_url: str = ""
    """Where an expired key is renewed; without one, the system's own page."""
    key_days: int = 90
    """Number of days after which a key without an end of its own expires."""
    requests_per_minute: int = 60_000
    """For each account, unless its quota says otherwise."""
    threads: int = 32
    """Requests that are worked on at once in this process."""
    queueing_target_s: float = 0.25
    """Requests are shed while they wait longer than this for a thread …"""
    queueing_interval_s: float = 0.5
    """… and have done so for at least this time."""
    verification_queue_max: int = 1_000
    """Verifications that wait at most; further ones are refused."""
    verification_cache_s: float = 30 * DAY_S
    """How long a result answers further questions about the same address."""
    verification_timeout_s: float = 10.0
    """How long one provider may take to answer."""
    verification_budget_s: float = 20.0
    """How long the provider and its fallback may take together."""
    millionverifier_url: str = ""
    """Where MillionVerifier is; without one, the real service, or the stand-in where stand-ins are on."""
    millionverifier_key: Secret = NONE
    zerobounce_url: str = ""
    """Where ZeroBounce is; without one, the real service, or the stand-in where stand-ins are on."""
    zerobounce_key: Secret = NONE
    enrichment_timeout_s: float = 10.0
    enrichment_host_interval_s: float = 1.0
    """Between two requests to the same website, whichever process makes them."""
    enrichment_targets: tuple[str, ...] = ()
    """For development: exact hosts and ports that are not public addresses and may be fetched all the same."""
    import_bytes_max: int = 1_073_741_824
    """The largest file of an import."""
    import_batch_rows: int = 5_000
    """Rows that are committed together."""
    artifacts: str = ""
    """Where the files of imports are kept: a folder, `s3://…`, `gs://…`; without it, the system's own folder."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not (isfinite(value) and value > 0):
                raise SettingInvalid(f"{PREFIX}{field.name.upper()}: {value} is not a positive number")
        for name in ("millionverifier_url", "zerobounce_url", "renewal_url"):
            if getattr(self, name) and not getattr(self, name).startswith(("http://", "https://")):
                raise SettingInvalid(f"{PREFIX}{name.upper()}: write the whole address, as in https://host/path")


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The defaults, overridden by `HOLDFAST_RECORDS_*`.

    Raises:
        SettingInvalid: a variable names no setting, or holds something that cannot be meant.
    """
    defaults = {field.name: field.default for field in fields(Settings)}
    chosen: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in defaults:
            raise SettingInvalid(f"{variable}: there is no such setting; settings: {', '.join(sorted(defaults))}")
        chosen[name] = _read(variable, text.strip(), defaults[name])
    return Settings(**chosen)


def _read(variable: str, text: str, default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return type(default)(text)
    except ValueError:
        meant = "a whole number" if isinstance(default, int) else "a number"
        raise SettingInvalid(f"{variable}: {text!r} is not {meant}") from None
