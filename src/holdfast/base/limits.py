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
    json_inline_bytes_max: int = 65_536
    """The largest request body that is decoded on the event loop itself."""
    plain_items_max: int = 10_000
    details_bytes_max: int = 16_384
    message_chars_max: int = 1_000
    policy_file_bytes_max: int = 262_144
    attempts_max: int = 100
    delay_s_max: float = 7 * 86_400.0
    retry_after_s_max: float = 86_400.0
    call_wait_s_max: float = 60.0
    """Maximum Retry-After that a call without a time limit waits for; a longer one ends the call."""
    deadline_s_max: float = 86_400.0
    abandoned_calls_max: int = 64
    cause_depth_max: int = 8
    traceback_frames_max: int = 24
    traceback_bytes_max: int = 16_384
    payload_bytes_max: int = 262_144
    result_bytes_max: int = 262_144
    enqueue_batch_max: int = 10_000
    page_rows_max: int = 1_000
    answer_bytes_max: int = 262_144
    keys_held_max: int = 10_000
    connections_max: int = 1_000
    """Connections that a serving process holds at a time; fewer where its file descriptors do not suffice."""
    headers_s_max: float = 10.0
    """Maximum time for the request line and the headers of a request."""
    body_s_max: float = 30.0
    """Maximum time for the body of a request; each `body_bytes_per_s_min` bytes that arrive add a second."""
    body_bytes_per_s_min: int = 1_024
    unread_s_max: float = 60.0
    """Maximum time in which a client takes nothing of its reply."""
    keep_alive_s: float = 75.0
    """Maximum time between two requests of a connection."""

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
