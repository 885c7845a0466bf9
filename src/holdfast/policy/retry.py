"""The retry rule: how often, how far apart, and under which condition.

```python
Retry(on=(Flaky, OSError), attempts=5)                      # exactly these exceptions, five attempts each
Retry(on_result=lambda reply: reply is None, attempts=5)    # and a result that is not one yet
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.base.arguments import function, numeric, shown
from holdfast.base.world import limits
from holdfast.catalog import Failure
from holdfast.policy.backoff import Backoff, PolicyInvalid
from holdfast.policy.jitter import Full


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How an operation is retried.

    On a link or a queue it bounds the whole operation; on a fault it bounds the attempts that fail with that code
    and, for them, replaces the backoff.

    Without `on`, the catalog decides what is retried, and an exception that nobody classified is tried twice
    (`attempts_unknown`), however many `attempts` there are: it may as well be a bug. Name it in `on`, or in the link's
    classifier, and it gets them all.
    """

    attempts: int = 3
    """Maximum number of attempts, the first included; 1 means no retry."""
    backoff: Backoff = field(default_factory=lambda: Backoff.exponential(0.1, cap_s=5.0, jitter=Full()))
    """How long to wait between two attempts."""
    attempts_per_code: Mapping[str, int] = field(default_factory=dict, hash=False)
    """For each code, the maximum number of attempts that may fail with it, however many are left in all."""
    attempts_unknown: int = 2
    """Maximum number of attempts that may fail with an exception that neither `on` nor a classifier names."""
    on: type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool] | None = None
    """Retry exactly these exceptions, whatever the catalog says of them; or those for which the function says yes."""
    on_result: Callable[[Any], bool] | None = field(default=None, hash=False)
    """A result for which this says yes is tried again too; the last one is returned. On links only."""
    honour_retry_after: bool = True
    """Whether the callee's Retry-After counts where it is longer than the backoff."""
    retry_after_max_s: float = 3_600.0
    """A longer Retry-After counts as this."""
    within_s: float | None = None
    """No attempt starts later than this after the first one started."""
    when: Callable[[Failure], bool] | None = None
    """A condition on the occurrence: only if it holds is there another attempt."""

    def __post_init__(self) -> None:
        most = limits().attempts_max
        if not isinstance(self.attempts_per_code, Mapping):
            raise PolicyInvalid(f"attempts_per_code: {shown(self.attempts_per_code)}; write {{'BANK_SILENT': 2}}")
        for name, count in (
            ("attempts", self.attempts),
            ("attempts_unknown", self.attempts_unknown),
            *((f"attempts_per_code[{code}]", count) for code, count in self.attempts_per_code.items()),
        ):
            numeric(name, count, whole=True, raises=PolicyInvalid)
            if not 1 <= count <= most:
                raise PolicyInvalid(f"{name}: {count} is not between 1 and {most}")
        if not isinstance(self.backoff, Backoff):
            raise PolicyInvalid(
                f"backoff: {self.backoff!r} is not a Backoff; write Backoff.constant(…) or .exponential(…)"
            )
        _check_on(self.on)
        if self.on_result is not None and not callable(self.on_result):
            raise PolicyInvalid(f"on_result: {self.on_result!r} is not a function; write on_result=lambda result: …")
        self._check_others()
        if self.within_s is not None and not self.within_s > 0:
            raise PolicyInvalid(f"within_s: {self.within_s} is not a positive number of seconds")
        if not self.retry_after_max_s >= 0:
            raise PolicyInvalid(f"retry_after_max_s: {self.retry_after_max_s} is not a number of seconds")

    def _check_others(self) -> None:
        function("when", self.when, "write when=lambda failure: …", raises=PolicyInvalid)
        if not isinstance(self.honour_retry_after, bool):
            raise PolicyInvalid(f"honour_retry_after: {shown(self.honour_retry_after)} is neither True nor False")
        for name in ("within_s", "retry_after_max_s"):
            if getattr(self, name) is not None:
                numeric(name, getattr(self, name), raises=PolicyInvalid)

    def allows(self, failure: Failure) -> bool:
        """Whether this occurrence may be tried again at all."""
        return self.attempts > 1 and self.names(failure) is not False and (self.when is None or self.when(failure))

    def names(self, failure: Failure) -> bool | None:
        """Whether `on` names what was raised; None where there is no `on`."""
        if self.on is None:
            return None
        # One that was raised itself has a traceback; else it stands for the exception that it was classified from.
        raised = failure if failure.__cause__ is None or failure.__traceback__ is not None else failure.__cause__
        if isinstance(self.on, tuple | type):
            return isinstance(raised, self.on) or isinstance(failure.__cause__, self.on)
        return self.on(raised)


def _check_on(on: object) -> None:
    kinds = on if isinstance(on, tuple) else (on,) if isinstance(on, type) else ()
    wrong = [kind for kind in kinds if not (isinstance(kind, type) and issubclass(kind, BaseException))]
    if wrong or on == () or not (on is None or kinds or callable(on)):
        raise PolicyInvalid(f"on: {on!r} is not an exception class, a tuple of them or a function; write on=OSError")


NEVER = Retry(attempts=1)
