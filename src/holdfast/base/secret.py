"""Values that must not leave the process by accident.

`Secret` prints as `***` and refuses to be serialised. `Private` is a value for logs that no person outside
should read: dialects leave it out of every body.
"""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar, final

T = TypeVar("T")

MASK = "***"


class SecretLeak(TypeError):
    """Something tried to write a `Secret` down."""

    def __str__(self) -> str:
        return "a Secret refuses to be serialised; call .reveal() at the one place that needs it"


@final
class Secret:
    """A string whose value is shown only to code that calls `reveal()`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself; keep the result out of names that outlive the call."""
        return self._value

    def matches(self, other: str) -> bool:
        """Compare in constant time."""
        import hmac  # loaded when first needed: it maps the crypto library

        mine, theirs = (text.encode("utf-8", "surrogatepass") for text in (self._value, other))
        return hmac.compare_digest(mine, theirs)

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.matches(other._value)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __bool__(self) -> bool:
        return bool(self._value)

    def __copy__(self) -> Secret:
        return self  # still a Secret, so nothing leaves

    def __deepcopy__(self, memo: Any) -> Secret:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise SecretLeak

    def __getstate__(self) -> NoReturn:
        raise SecretLeak


@final
class Private(Generic[T]):
    """A detail for the log only: kept on the failure, left out of every error body and of its own text."""

    # Written by hand: every import of Holdfast pays for it, and making a dataclass takes a millisecond.
    __slots__ = ("_value",)
    __match_args__ = ("value",)

    def __init__(self, value: T) -> None:
        self._value = value

    @property
    def value(self) -> T:
        """The value itself, for the log."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, Private) else NotImplemented

    def __hash__(self) -> int:
        return hash((Private, self._value))

    def __repr__(self) -> str:
        return "Private(…)"

    def __reduce__(self) -> tuple[Any, tuple[T]]:
        return Private, (self._value,)
