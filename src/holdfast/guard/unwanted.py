"""Results that are tried again (`Retry.on_result`): a failed attempt inside the link, a result outside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.catalog.core import RESULT_UNWANTED
from holdfast.catalog.failure import Failure


class Unwanted(Failure):
    """The call returned something that the rule does not want."""

    __slots__ = ("result",)

    def __init__(self, result: Any) -> None:
        super().__init__(RESULT_UNWANTED)
        self.result = result


def refusing(function: Callable[..., Any], refuses: Callable[[Any], bool]) -> Callable[..., Any]:
    """The function that blocks; what the rule refuses is raised."""

    def checked(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if refuses(result):
            raise Unwanted(result)
        return result

    return checked


def refusing_async(function: Callable[..., Any], refuses: Callable[[Any], bool]) -> Callable[..., Any]:
    """The same for a coroutine function."""

    async def checked(*args: Any, **kwargs: Any) -> Any:
        result = await function(*args, **kwargs)
        if refuses(result):
            raise Unwanted(result)
        return result

    return checked


def returning(guarded: Callable[..., Any]) -> Callable[..., Any]:
    """The guarded function; when no further attempt is made, the last result is the result."""

    def returned(*args: Any, **kwargs: Any) -> Any:
        try:
            return guarded(*args, **kwargs)
        except Unwanted as unwanted:
            return unwanted.result

    return returned


def returning_async(guarded: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a coroutine function."""

    async def returned(*args: Any, **kwargs: Any) -> Any:
        try:
            return await guarded(*args, **kwargs)
        except Unwanted as unwanted:
            return unwanted.result

    return returned
