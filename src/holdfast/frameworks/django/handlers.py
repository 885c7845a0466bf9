"""Handlers of jobs that use Django's database: its connections are looked after as around a request."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from holdfast.worker import Handlers


class HandlersNotNamed(ValueError):
    """The setting that names the handlers is missing, or names something else."""


def named_handlers(where: str | None) -> Handlers:
    """The handlers at `module:name`, or those that `HOLDFAST_HANDLERS` names.

    Raises:
        HandlersNotNamed: with how it is written.
    """
    from django.conf import settings
    from django.utils.module_loading import import_string

    where = where or getattr(settings, "HOLDFAST_HANDLERS", None)
    if not where or ":" not in where:
        raise HandlersNotNamed(f'{where!r} names no handlers; write HOLDFAST_HANDLERS = "shop.jobs:handlers"')
    found = import_string(where.replace(":", "."))
    if not isinstance(found, Handlers):
        raise HandlersNotNamed(f"{where} is of type {type(found).__name__}; it has to be a holdfast.Handlers")
    return found


def with_connections(handlers: Handlers) -> Handlers:
    """The same handlers; before and after each job, connections that are too old or broken are closed.

    Coroutines are left alone: they reach Django's database through threads that Django looks after itself.
    """
    return handlers.wrapped(_around)


def _around(function: Callable[..., Any]) -> Callable[..., Any]:
    from django.db import close_old_connections

    @wraps(function)
    def tended(job: Any) -> Any:
        close_old_connections()
        try:
            return function(job)
        finally:
            close_old_connections()

    return tended
