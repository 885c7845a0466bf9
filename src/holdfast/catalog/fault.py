"""A fault: one declared kind of failure. Data, not a class.

Calling a fault makes the failure that carries it: `raise BANK_SILENT(charge_id=charge.id) from lost_reply`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from holdfast.base.arguments import ArgumentInvalid, shown, suggestion

if TYPE_CHECKING:
    from holdfast.catalog.failure import Failure

CODE_SHAPE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*\Z")
CODE_CHARS_MAX = 64
FACT = re.compile(r"\{([^\W\d]\w*)\}")
"""A fact that a sentence names."""
NEVER_REPLAYED = frozenset({401, 403, 429})
"""Statuses that refuse the caller and not the request: after signing in, or a minute later, the answer is another."""


class Blame(StrEnum):
    """Who has to change something before it can work."""

    CLIENT = "client"
    SERVER = "server"
    UPSTREAM = "upstream"
    CONFLICT = "conflict"
    NO_OP = "no-op"


class Severity(StrEnum):
    """How loudly an occurrence asks for a person."""

    NONE = "none"
    WARNING = "warning"
    CRITICAL = "critical"


class RetryRule(Protocol):
    """What the catalog asks of a retry rule; `policy.Retry` is one."""

    def allows(self, failure: Failure) -> bool:
        """Whether this occurrence may be tried again at all."""
        ...


class FaultInvalid(ArgumentInvalid):
    """A fault was declared with something that cannot be right."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Fault:
    """One declared kind of failure: its code, its status, whether it is retried, what the person reads."""

    code: str
    status: int
    says: str
    """What the person reads when there is no further attempt; `{name}` is filled from the details."""
    says_retrying: str = ""
    """What the person reads while another attempt follows, where that is something else."""
    technical: str = ""
    """What the log reads; `{name}` is filled from the details."""
    retry: RetryRule | bool = False
    """As declared: False never, True as the caller's own rule says, or a rule of its own."""
    blame: Blame
    causes: tuple[str, ...] = ()
    remedy: str = ""
    examples: tuple[Mapping[str, Any], ...] = ()
    """Details of typical occurrences."""
    related: tuple[str, ...] = ()
    severity: Severity = Severity.NONE
    documentation_url: str = ""
    replayed: bool | None = None
    """Under an idempotency key: True answers repeats with this failure, False runs them again, None as `retry` says."""
    breaker: bool | None = None
    """Whether a breaker counts it against the callee; None counts every 5xx that blames the callee or ourselves."""
    overlay: dict[str, RetryRule | bool] = field(default_factory=dict, compare=False, repr=False)
    """Rules of the catalog's policy file; they win over the declared one."""
    catalog: str = field(default="", compare=False, repr=False)
    """The name of the catalog that declares or adopted it."""

    def __post_init__(self) -> None:
        self._check_types()
        if len(self.code) > CODE_CHARS_MAX or not CODE_SHAPE.match(self.code):
            raise FaultInvalid(f"{self.code!r} is not UPPER_SNAKE_CASE of at most {CODE_CHARS_MAX} characters")
        if not 200 <= self.status <= 599:
            raise FaultInvalid(f"{self.code}: {self.status} is not an HTTP status a failure can have (200 to 599)")
        if not self.says.strip():
            raise FaultInvalid(f"{self.code}: `says` is empty; write the line a person should read")
        if self.replayed and self.status in NEVER_REPLAYED:
            raise FaultInvalid(
                f"{self.code}: a {self.status} is never replayed: the caller may be let in the next time"
            )
        if self.says_retrying and self.retry is False:
            raise FaultInvalid(f"{self.code}: `says_retrying` is never read, because retry=False; remove one of them")
        if not isinstance(self.retry, bool) and not hasattr(self.retry, "allows"):
            raise FaultInvalid(f"{self.code}: retry: {self.retry!r} is neither True, False nor a Retry(attempts=…)")

    def _check_types(self) -> None:
        for name in ("code", "says", "says_retrying", "technical", "remedy", "documentation_url"):
            if not isinstance(getattr(self, name), str):
                raise FaultInvalid(f"{self.code}: {name}: {shown(getattr(self, name))} is not text")
        if not isinstance(self.status, int):
            raise FaultInvalid(f"{self.code}: status: {shown(self.status)} is not a number; write status=409")
        for name in ("causes", "related", "examples"):
            given = getattr(self, name)
            if not isinstance(given, tuple | list):
                raise FaultInvalid(f"{self.code}: {name}: {shown(given)} is not a tuple; write {name}=(…,)")
        for name, kind in (("blame", Blame), ("severity", Severity)):
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except ValueError:
                remedy = suggestion(getattr(self, name), [one.value for one in kind])
                raise FaultInvalid(f"{self.code}: {name}: {shown(getattr(self, name))}; {remedy}") from None
        if self.replayed is not None and not isinstance(self.replayed, bool):
            raise FaultInvalid(f"{self.code}: replayed: {shown(self.replayed)} is neither True, False nor None")

    @property
    def rule(self) -> RetryRule | bool:
        """The retry rule in force: the policy file's if it names this code, else the declared one."""
        return self.overlay.get(self.code, self.retry) if self.overlay else self.retry

    @property
    def facts(self) -> dict[str, str]:
        """What every event says of a failure: its code, whom it blames and how severe it is."""
        return {"code": self.code, "blame": self.blame.value, "severity": self.severity.value}

    @property
    def retryable(self) -> bool:
        """Whether occurrences are retried as a rule; a conditional rule may still refuse one."""
        return self.rule is not False

    def __call__(self, message: str | None = None, /, *, retry_after_s: float | None = None, **details: Any) -> Failure:
        """One occurrence, with its facts as keywords and, rarely, a sentence of its own.

        Raises:
            FaultInvalid: the sentence names a fact that is not given.
        """
        if message is None and "{" in self.says:
            _check_facts(self, details)
        return _occurred(self, details, retry_after_s, message)

    def occur(self, message: str | None = None, /, *, retry_after_s: float | None = None, **details: Any) -> Failure:
        """The same where the fault is somebody else's, whose facts cannot be known; what is missing reads `…`."""
        return _occurred(self, details, retry_after_s, message)

    def __hash__(self) -> int:
        return hash(self.code)  # rules and examples may hold dicts

    def __copy__(self) -> Fault:
        return self

    def __deepcopy__(self, memo: Any) -> Fault:
        return self

    def __reduce__(self) -> tuple[Callable[[dict[str, Any]], Fault], tuple[dict[str, Any]]]:
        """A fault crosses to another process by name: there, that process's own declaration is found again.

        Where it has none, the fault arrives by value with the rule in force. A rule that cannot be pickled (its
        condition is a lambda, say) then arrives as `False`: a condition nobody can ask does not hold.
        """
        sent = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "overlay"}
        sent["retry"] = portable(self.rule, instead=False)
        return _arrived, (sent,)

    def differences(self, other: Fault) -> list[str]:
        """The names of the fields in which two declarations disagree."""
        return [
            part.name for part in fields(self) if part.compare and getattr(self, part.name) != getattr(other, part.name)
        ]


def _check_facts(fault: Fault, details: Mapping[str, Any]) -> None:
    missing = [name for name in FACT.findall(fault.says) if name not in details]
    if missing:
        near = f" ({', '.join(details)} is given)" if details else ""
        written = ", ".join(f"{name}=…" for name in missing)
        raise FaultInvalid(f"{fault.code}: its sentence names what is not given{near}; write {fault.code}({written})")


Occur = Callable[["Fault", Mapping[str, Any], float | None, str | None], "Failure"]

_occurred: Occur


def occur_as(make: Occur) -> None:
    """Say how a failure is made; the module of `Failure` needs this one, and an import per call is slow."""
    global _occurred
    _occurred = make


_ANNOUNCED: WeakValueDictionary[tuple[str, str], Fault] = WeakValueDictionary()


def announce(fault: Fault) -> None:
    """Let faults that come from another process be recognised as this one."""
    _ANNOUNCED[fault.catalog, fault.code] = fault


def portable(value: Any, *, instead: Any) -> Any:
    """The value if it can be pickled, else what to send in its place."""
    import pickle  # loaded when first needed: few failures leave the process

    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - pickling runs the value's own code, which may raise anything
        return instead
    return value


def _arrived(sent: dict[str, Any]) -> Fault:
    fault = Fault(**sent)
    known = _ANNOUNCED.get((fault.catalog, fault.code))
    # The same name may stand for another catalog here; only its rule may differ.
    return known if known is not None and set(known.differences(fault)) <= {"retry"} else fault


def blame_of(status: int) -> Blame:
    """Who is to blame when a declaration does not say: read from the status."""
    if status < 400:
        return Blame.NO_OP
    if status == 409:
        return Blame.CONFLICT
    if status < 500:
        return Blame.CLIENT
    return Blame.UPSTREAM if status in {502, 503, 504} else Blame.SERVER
