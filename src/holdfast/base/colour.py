"""Whether something that is called blocks or makes a coroutine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import partial
from types import FunctionType
from typing import Any, TypeGuard


def is_asynchronous(function: Callable[..., Any]) -> TypeGuard[Callable[..., Coroutine[Any, Any, Any]]]:
    """Whether a call makes a coroutine: also of an object whose `__call__` does, and with arguments filled in."""
    if type(function) is FunctionType and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True  # nearly always one of these, and asked of every request
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
