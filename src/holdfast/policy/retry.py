"""The retry rule: how often, how far apart, and under which condition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from holdfast.base.world import limits
from holdfast.catalog import Failure
from holdfast.policy.backoff import Backoff, PolicyInvalid
from holdfast.policy.jitter import Full


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How an operation is retried.

    On a link or a queue it bounds the whole operation; on a fault it bounds the attempts that fail with that code
    and, for them, replaces the backoff.
    """

    attempts: int = 3
    """All attempts, the first included; 1 is no retry."""
    backoff: Backoff = field(default_factory=lambda: Backoff.exponential(0.1, cap_s=5.0, jitter=Full()))
    """How long to wait between two attempts."""
    attempts_per_code: Mapping[str, int] = field(default_factory=dict, hash=False)
    """At most so many attempts may fail with the code, however many are left in all."""
    attempts_unknown: int = 2
    """At most so many attempts may fail with an exception that no classifier knows."""
    honour_retry_after: bool = True
    """Whether the callee's Retry-After replaces the backoff."""
    retry_after_max_s: float = 3_600.0
    """A longer Retry-After counts as this."""
    within_s: float | None = None
    """No attempt starts later than this after the first one started."""
    when: Callable[[Failure], bool] | None = None
    """A condition on the occurrence: only if it holds is there another attempt."""

    def __post_init__(self) -> None:
        most = limits().attempts_max
        for name, count in (
            ("attempts", self.attempts),
            ("attempts_unknown", self.attempts_unknown),
            *((f"attempts_per_code[{code}]", count) for code, count in self.attempts_per_code.items()),
        ):
            if not 1 <= count <= most:
                raise PolicyInvalid(f"{name}: {count} is not between 1 and {most}")
        if not isinstance(self.backoff, Backoff):
            raise PolicyInvalid(
                f"backoff: {self.backoff!r} is no Backoff; write Backoff.constant(…) or .exponential(…)"
            )
        if self.within_s is not None and not self.within_s > 0:
            raise PolicyInvalid(f"within_s: {self.within_s} is not a positive number of seconds")
        if not self.retry_after_max_s >= 0:
            raise PolicyInvalid(f"retry_after_max_s: {self.retry_after_max_s} is not a number of seconds")

    def allows(self, failure: Failure) -> bool:
        """Whether this occurrence may be tried again at all."""
        return self.attempts > 1 and (self.when is None or self.when(failure))


NEVER = Retry(attempts=1)
