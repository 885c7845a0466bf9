"""The settings of the conversion system, each with its default: `HOLDFAST_CONVERSION_<NAME>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from math import isfinite
from typing import Any

from holdfast.http.client_address import Network, networks_of
from holdfast.policy import Backoff, Breaker, Retry, Spread

PREFIX = "HOLDFAST_CONVERSION_"
HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S
MEBIBYTE = 1_048_576
JITTER_SHARE = 0.2
IO_ATTEMPTS = 2
"""A storage failure is tried once more."""
DELAYS_MAX = 20


class SettingInvalid(ValueError):
    """A setting holds something that cannot be meant."""


class BreakerMode(StrEnum):
    """What happens to jobs while the gateway's breaker is open."""

    HOLD = "hold"
    """They stay queued."""
    FAIL_FAST = "fail_fast"
    """They fail at once with GW_5XX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How conversions are done here."""

    gateway: str = ""
    """The address of a gateway that runs elsewhere; without one, the system starts its own."""
    gateway_timeout_s: float = 90.0
    """How long one conversion may take before it counts as GW_TIMEOUT."""
    artifacts: str = ""
    """Where PDFs and results are kept: a folder, `s3://…`, `gs://…`; without it, the system's own folder."""
    bytes_max: int = 50 * MEBIBYTE
    """The largest PDF."""
    result_bytes_max: int = 128 * MEBIBYTE
    """The largest XML; a conversion that gives more is refused."""
    concurrency: int = 4
    """The most conversions at once in each worker process; fewer while the gateway has no place for them."""
    busy_max_s: float = 6 * HOUR_S
    """Maximum time since its first attempt that a job is put off for a busy gateway; this spends no attempt."""
    retry_max_attempts: int = 3
    """All attempts, the first included."""
    retry_delays_s: tuple[float, ...] = (5.0, 15.0, 45.0)
    """The waits between attempts, give or take a fifth; the last serves for all that follow."""
    breaker_mode: BreakerMode = BreakerMode.HOLD
    breaker_ratio: float = 0.5
    """Share of the attempts that must have failed with GW_5XX or GW_TIMEOUT for the breaker to open."""
    breaker_calls_min: int = 5
    """Fewer attempts in the window say too little."""
    breaker_window_s: float = 180.0
    breaker_open_s: float = 10.0
    """How often the gateway's health is asked while the breaker is open."""
    retention_s: float = 3 * DAY_S
    """How long PDFs and results are kept after their job has ended."""
    failed_retention_s: float = 6 * HOUR_S
    """PDFs of failed conversions, and the rows of uploads that were refused, are deleted after this."""
    forget_s: float = 30 * DAY_S
    """How long rows of the list are kept after their files were deleted."""
    sweep_s: float = 600.0
    """How often retention runs."""
    orphan_s: float = 3_600.0
    """Files that belong to no row are deleted when they are older than this."""
    uploads_per_minute: int = 600
    """From one address."""
    uploads_at_once_max: int = 64
    """Uploads that are on their way at a time, in each process that serves."""
    address_uploads_at_once_max: int = 16
    """Of these, from one address."""
    session_uploads_max: int = 500
    """Uploads that one session may have here at a time."""
    session_bytes_max: int = 1_024 * MEBIBYTE
    """What the PDFs and results of one session may take up."""
    address_uploads_max: int = 2_000
    """Uploads that may be here at a time from one address, in however many sessions."""
    address_bytes_max: int = 4_096 * MEBIBYTE
    store_bytes_max: int = 20_480 * MEBIBYTE
    """What all PDFs and results together may take up."""
    trusted_proxies: str = ""
    """Networks, with commas, whose `X-Forwarded-For` says where a request comes from."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not (isfinite(value) and value > 0):
                raise SettingInvalid(f"{PREFIX}{field.name.upper()}: {value} is not a positive number")
        if not 1 <= len(self.retry_delays_s) <= DELAYS_MAX:
            raise SettingInvalid(f"{PREFIX}RETRY_DELAYS_S: give 1 to {DELAYS_MAX} numbers of seconds")
        if self.gateway and not self.gateway.startswith(("http://", "https://")):
            raise SettingInvalid(f"{PREFIX}GATEWAY: {self.gateway!r} is not an address; write http://host:port")
        try:
            networks_of(self.trusted_proxies)
        except ValueError as invalid:
            raise SettingInvalid(f"{PREFIX}TRUSTED_PROXIES: {invalid}") from None
        # Rules that cannot be meant are refused when the system starts, not when the first job fails.
        for rule in (lambda: self.retry, lambda: self.breaker):
            try:
                rule()
            except ValueError as invalid:
                raise SettingInvalid(f"{PREFIX}…: {invalid}") from None

    @property
    def proxies(self) -> tuple[Network, ...]:
        """The networks of the trusted proxies."""
        return networks_of(self.trusted_proxies)

    @property
    def retry(self) -> Retry:
        """The rule of a conversion: which codes are tried again is said by the faults themselves."""
        return Retry(
            attempts=self.retry_max_attempts,
            backoff=Backoff.listed(*self.retry_delays_s, jitter=Spread(JITTER_SHARE)),
            attempts_per_code={"IO_ERROR": IO_ATTEMPTS},
            # More of the same cannot fit on a disk that is full.
            when=lambda failure: not failure.details.get("full", False),
        )

    @property
    def breaker(self) -> Breaker:
        """The rule that protects the gateway."""
        return Breaker(
            failure_ratio=self.breaker_ratio,
            calls_min=self.breaker_calls_min,
            window_s=self.breaker_window_s,
            open_s=self.breaker_open_s,
        )


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The defaults, overridden by `HOLDFAST_CONVERSION_*`.

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
        if isinstance(default, BreakerMode):
            return BreakerMode(text)
        if isinstance(default, tuple):
            return tuple(float(part) for part in text.split(","))
        return type(default)(text)
    except ValueError:
        modes = " or ".join(BreakerMode)
        meant = {BreakerMode: modes, tuple: "numbers with commas", int: "a whole number"}.get(type(default), "a number")
        raise SettingInvalid(f"{variable}: {text!r} is not {meant}") from None
