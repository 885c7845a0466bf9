"""Every bound in Holdfast has a name, a default and a setting.

A limit is set for the process with `HOLDFAST_LIMIT_<NAME>`, or for one context through `World.limits`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

ENVIRONMENT_PREFIX = "HOLDFAST_LIMIT_"


class LimitInvalid(ValueError):
    """A limit was set to something that is not a positive number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The named bounds; units stand in the names."""

    json_bytes_max: int = 1_048_576
    json_depth_max: int = 64
    plain_items_max: int = 10_000
    details_bytes_max: int = 16_384
    message_chars_max: int = 1_000
    policy_file_bytes_max: int = 262_144
    attempts_max: int = 100
    delay_s_max: float = 7 * 86_400.0
    retry_after_s_max: float = 86_400.0
    deadline_s_max: float = 86_400.0
    abandoned_calls_max: int = 64
    cause_depth_max: int = 8
    payload_bytes_max: int = 262_144
    result_bytes_max: int = 262_144
    enqueue_batch_max: int = 10_000
    page_rows_max: int = 1_000
    answer_bytes_max: int = 262_144
    keys_held_max: int = 10_000

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Limits:
        """The defaults, overridden by `HOLDFAST_LIMIT_*`.

        Raises:
            LimitInvalid: a variable names no limit or holds no positive number.
        """
        known = {field.name: type(field.default) for field in fields(cls)}
        chosen: dict[str, int | float] = {}
        for variable, text in (os.environ if environment is None else environment).items():
            if not variable.startswith(ENVIRONMENT_PREFIX):
                continue
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            if name not in known:
                raise LimitInvalid(f"{variable}: there is no limit named {name!r}; limits: {', '.join(sorted(known))}")
            chosen[name] = _positive(variable, text, known[name])
        return cls(**chosen)  # type: ignore[arg-type]  # names and types were checked just above


def _positive(variable: str, text: str, kind: type) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise LimitInvalid(f"{variable}: {text!r} is not a positive {'whole ' if kind is int else ''}number")
    return value  # type: ignore[no-any-return]
