"""The idempotency key of the call that is under way, for code that sends it on."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token

KEY_CHARS_MAX = 255

_current: ContextVar[str | None] = ContextVar("holdfast_key", default=None)

current_key: Callable[[], str | None] = _current.get
"""The key under which the guarded call runs; every attempt has the same one."""
enter_key: Callable[[str], Token[str | None]] = _current.set
"""What `under_key` does at its beginning, for a key that was checked; give the token to `leave_key`."""
leave_key: Callable[[Token[str | None]], None] = _current.reset


class under_key:  # noqa: N801 - used like a function, as the context managers of the standard library are
    """Everything in the block belongs to one keyed operation.

    Raises:
        TypeError: the key is not text.
        ValueError: the key is empty or longer than 255 characters.
    """

    __slots__ = ("_key", "_token")

    def __init__(self, key: str) -> None:
        self._key = checked_key(key)

    def __enter__(self) -> None:
        self._token = _current.set(self._key)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def checked_key(key: str) -> str:
    """The key, if it can be one.

    Raises:
        TypeError: the key is not text.
        ValueError: the key is empty or longer than 255 characters.
    """
    if not isinstance(key, str):
        raise TypeError(f"a key is text, this one is of type {type(key).__name__}")
    if not 1 <= len(key) <= KEY_CHARS_MAX:
        raise ValueError(f"a key has 1 to {KEY_CHARS_MAX} characters, this one has {len(key)}")
    return key
