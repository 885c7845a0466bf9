"""The settings of commerce, each with its default: `HOLDFAST_COMMERCE_<NAME>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from holdfast.base import Secret

PREFIX = "HOLDFAST_COMMERCE_"
TOKEN_CHARS_MIN = 16
NONE = Secret("")


class SettingInvalid(ValueError):
    """A setting holds something that cannot be meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How commerce is served here."""

    service_token: Secret = NONE
    """What services show to each other; without one, one is made and shared by the processes of one database."""
    provisioner_url: str = ""
    control_plane_url: str = ""
    gateway_url: str = ""
    runner_url: str = ""
    connectors_url: str = ""
    """Where each service stands; needed for those that another process serves."""

    saleor_url: str = ""
    """Where the shop is; its public keys are read from `/.well-known/jwks.json` there."""
    saleor_secret: Secret = NONE
    """The shared secret of the shop's webhooks; with it, the HMAC form of its signature is accepted."""
    saleor_standin_retry_s: float = 10.0
    """The stand-in of the shop repeats a webhook after this time, then after twice as long, and so on."""
    webhook_deadline_s: float = 18.0
    """The shop waits about 20 s for an answer; within this time the provisioner gives one."""

    reservation_s: float = 900.0
    """How long a run may hold its credits before the sweep releases them."""
    sweep_every_s: float = 15.0
    """How often expired reservations are looked for."""

    langflow_url: str = ""
    """Where the agent runtime is; without one, its stand-in where stand-ins are on."""
    langflow_key: Secret = NONE
    run_timeout_s: float = 60.0
    """Gateway to runner, unless the plan says otherwise."""
    runtime_timeout_s: float = 60.0
    """Runner to runtime."""
    control_plane_timeout_s: float = 5.0
    """One attempt of any service at the control plane."""
    instance_cache_s: float = 5.0
    """How long a service may remember what the control plane said about an instance."""
    sessions_per_minute: int = 60
    """Widget sessions, for each origin."""
    chats_per_minute: int = 30
    """Chats, for each origin."""
    requests_per_minute: int = 60
    """Runs that are asked for, for each instance whose plan does not say."""
    concurrent_runs: int = 4
    """Runs at once, for each instance whose plan does not say."""
    run_days: float = 90.0
    """How long the gateway keeps ended runs, with what was asked and answered; the ledger keeps their charges."""
    loopback_origins: str = "allow"
    """Whether pages of the visitor's own machine may embed any instance: allow or refuse."""
    soft_fail_concurrency: int = 2
    """Runs of trial instances at once while the control plane is away."""

    vault_url: str = ""
    vault_token: Secret = NONE
    vault_mount: str = "secret"
    vault_timeout_s: float = 2.0
    tool_timeout_s: float = 15.0
    """One tool call, unless the tool says otherwise."""
    weather_url: str = ""
    crm_url: str = ""
    """Where the demo tools call; without one, their stand-ins where stand-ins are on."""

    ragflow_url: str = ""
    ragflow_key: Secret = NONE
    rag_query_timeout_s: float = 10.0
    rag_ingest_timeout_s: float = 60.0
    artifacts: str = ""
    """Where uploads are kept: a folder, `s3://…`, `gs://…`; without it, the system's own folder."""
    upload_bytes_max: int = 20_971_520
    uploads_max: int = 1_000
    """Files that an instance may have; those that were never ingested are forgotten after a day."""
    upload_s: int = 900
    """How long the address of an upload is valid."""
    ingestion_poll_s: float = 2.0
    """How often a document that is being parsed is looked at."""
    ingestion_retry_s: float = 15.0
    """How long after a failure an ingestion is tried again; twice as long after each further one."""
    ingestion_retry_max_s: float = 600.0
    ingestion_total_s: float = 86_400.0
    """An ingestion that has not succeeded in this time has failed."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not (isfinite(value) and value > 0):
                raise SettingInvalid(f"{PREFIX}{field.name.upper()}: {value} is not a positive number")
            if field.name.endswith("_url") and value and not value.startswith(("http://", "https://")):
                raise SettingInvalid(f"{PREFIX}{field.name.upper()}: write the whole address, as in https://host/path")
        if self.loopback_origins not in ("allow", "refuse"):
            raise SettingInvalid(f"{PREFIX}LOOPBACK_ORIGINS: write allow or refuse")
        if self.service_token and len(self.service_token.reveal()) < TOKEN_CHARS_MIN:
            raise SettingInvalid(f"{PREFIX}SERVICE_TOKEN: a token needs at least {TOKEN_CHARS_MIN} characters")


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The defaults, overridden by `HOLDFAST_COMMERCE_*`.

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
    try:
        return type(default)(text)
    except ValueError:
        meant = "a whole number" if isinstance(default, int) else "a number"
        raise SettingInvalid(f"{variable}: {text!r} is not {meant}") from None
