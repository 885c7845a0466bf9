"""The settings of the reports system, each with its default: `HOLDFAST_REPORTS_<NAME>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import isfinite
from typing import Any
from urllib.parse import urlsplit

from holdfast.base import CodecError, Secret, decode
from holdfast_systems.reports.cost import PRICES, Price

PREFIX = "HOLDFAST_REPORTS_"
CLAIM_TRIES_MIN, CLAIM_TRIES_MAX = 1, 5
PRICES_MAX = 200


class SettingInvalid(ValueError):
    """A setting holds something that cannot be meant."""


class Reap(StrEnum):
    """What happens to a step whose lease has ended without a result."""

    READY = "ready"
    """It is started again, as often as `crash_reruns_max` says; then it fails."""
    FAILED = "failed"
    """It fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How reports are made here."""

    artifacts: str = ""
    """Where artifacts are kept: a folder, `s3://…`, `gs://…`; without it, the system's own folder."""
    firestore: str = ""
    """`project/database` of the Firestore that holds the runs; without it, the embedded store does."""
    firestore_host: str = ""
    """`host:port` of an emulator, without TLS and credentials."""
    gemini_url: str = ""
    """The base address of the model's API; without it the stand-in where stand-ins are on, else Google's own."""
    gemini_api_key: Secret = field(default_factory=lambda: Secret(""))
    gemini_timeout_s: float = 600.0
    """Maximum time of one call of the model."""
    invocation_timeout_s: float = 780.0
    """Maximum time of one invocation."""
    finalize_budget_s: float = 120.0
    """Time of an invocation that is kept for storing the artifact and finalising the step."""
    repair_min_s: float = 30.0
    """Minimum time that must be left, beside the time for finalising, for a repair attempt to begin."""
    max_gemini_attempts: int = 1
    """Calls of the model in one invocation that may fail."""
    max_repair_attempts: int = 1
    """Repairs of an invalid answer in one invocation; 0 is none."""
    rate_limit_attempts: int = 3
    """Calls in one invocation that the model may answer with 429."""
    model_concurrency: int = 8
    """Calls of the model at once in each process."""
    claim_tries: int = 4
    """Attempts to claim a step against others."""
    claim_delay_min_s: float = 0.1
    claim_delay_max_s: float = 0.5
    finalize_tries: int = 10
    """Attempts to finalise a step while others change the same run."""
    retry_attempts: int = 5
    """Attempts against a store or storage that fails transiently, the first included."""
    retry_base_s: float = 1.0
    retry_factor: float = 2.0
    retry_max_s: float = 32.0
    step_attempts_max: int = 1
    """Runs of a step that may fail with a transient code before the step has failed for good."""
    lease_s: float = 900.0
    """A running step is taken for lost after this time."""
    reap: Reap = Reap.READY
    crash_reruns_max: int = 1
    """How often a step is started again whose process died."""
    reap_every_s: float = 30.0
    budget_usd: float = 5.0
    """What a run may cost that names no budget of its own."""
    prices: Mapping[str, Price] = field(default_factory=lambda: dict(PRICES))
    """US dollars for a million tokens: `{"gemini-2.5-flash": [0.3, 2.5]}`, input and output."""
    concurrency: int = 16
    """Invocations at once in each worker process."""
    feed: bool = True
    """Whether the embedded store's changes start invocations; without, only events do."""

    def __post_init__(self) -> None:
        for part in fields(self):
            value = getattr(self, part.name)
            zero = part.name in {"max_repair_attempts", "crash_reruns_max", "budget_usd"}
            if type(value) in (int, float) and not (isfinite(value) and (value > 0 or (zero and value == 0))):
                raise SettingInvalid(f"{PREFIX}{part.name.upper()}: {value} is not a positive number")
        if not CLAIM_TRIES_MIN <= self.claim_tries <= CLAIM_TRIES_MAX:
            raise SettingInvalid(f"{PREFIX}CLAIM_TRIES: {self.claim_tries} is not between 1 and {CLAIM_TRIES_MAX}")
        if self.claim_delay_min_s > self.claim_delay_max_s:
            raise SettingInvalid(f"{PREFIX}CLAIM_DELAY_MIN_S: it is more than CLAIM_DELAY_MAX_S")
        if self.invocation_timeout_s <= self.finalize_budget_s:
            raise SettingInvalid(f"{PREFIX}FINALIZE_BUDGET_S: it leaves no time of INVOCATION_TIMEOUT_S")
        if self.lease_s <= self.invocation_timeout_s:
            raise SettingInvalid(f"{PREFIX}LEASE_S: an invocation may take longer ({self.invocation_timeout_s:g} s)")
        if self.gemini_url and urlsplit(self.gemini_url).scheme not in {"http", "https"}:
            raise SettingInvalid(f"{PREFIX}GEMINI_URL: {self.gemini_url!r} is not an address; write https://host")


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The defaults, overridden by `HOLDFAST_REPORTS_*`.

    Raises:
        SettingInvalid: a variable names no setting, or holds something that cannot be meant.
    """
    defaults = Settings()
    known = {part.name for part in fields(Settings)}
    chosen: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        if name not in known:
            raise SettingInvalid(f"{variable}: there is no such setting; settings: {', '.join(sorted(known))}")
        chosen[name] = _read(variable, text.strip(), getattr(defaults, name))
    return Settings(**chosen)


def _read(variable: str, text: str, default: Any) -> Any:
    if isinstance(default, Mapping):
        return {**default, **_prices(variable, text)}
    if isinstance(default, Secret):
        return Secret(text)
    if isinstance(default, bool):
        if text.lower() not in {"true", "false", "1", "0"}:
            raise SettingInvalid(f"{variable}: {text!r} is not true or false")
        return text.lower() in {"true", "1"}
    try:
        return type(default)(text)
    except ValueError:
        meant = {Reap: " or ".join(Reap), int: "a whole number"}.get(type(default), "a number")
        raise SettingInvalid(f"{variable}: {text!r} is not {meant}") from None


def _prices(variable: str, text: str) -> dict[str, Price]:
    try:
        given = decode(text)
    except CodecError:
        given = None
    if not isinstance(given, dict) or len(given) > PRICES_MAX:
        raise SettingInvalid(f'{variable}: write JSON such as {{"gemini-2.5-flash": [0.3, 2.5]}}')
    return {model: _price(variable, pair) for model, pair in given.items()}


def _price(variable: str, pair: object) -> Price:
    if not isinstance(pair, list) or len(pair) != 2 or not all(type(one) in (int, float) and one >= 0 for one in pair):
        raise SettingInvalid(f"{variable}: a price is two numbers, for a million tokens in and out")
    return Price(*(float(one) for one in pair))
