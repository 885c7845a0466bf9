"""Finding the handlers that a worker is told to run: `MODULE:NAME`, imported from the current folder or the path."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

from holdfast.catalog import Failure
from holdfast.cli.faults import HANDLERS_BROKEN, HANDLERS_NOT_FOUND
from holdfast.worker import Handlers


def find_handlers(where: str) -> Handlers:
    """The object that `app.jobs:handlers` names.

    Raises:
        Failure: HANDLERS_NOT_FOUND when it does not name handlers; HANDLERS_BROKEN when importing it raises.
    """
    module_name, colon, name = where.partition(":")
    if not (colon and name and all(part.isidentifier() for part in [*module_name.split("."), *name.split(".")])):
        raise HANDLERS_NOT_FOUND(where=repr(where), problem="is not MODULE:NAME")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    found = _imported(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            raise HANDLERS_NOT_FOUND(where=where, problem=f"does not exist: {module_name} has no {part}")
        found = getattr(found, part)
    if not isinstance(found, Handlers):
        raise HANDLERS_NOT_FOUND(
            where=where, problem=f"is of type {type(found).__name__}, not holdfast.worker.Handlers"
        )
    if not len(found):
        raise HANDLERS_NOT_FOUND(where=where, problem="has no handler: import the modules that register them")
    return found


def _imported(module_name: str) -> object:
    try:
        return import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{module_name}.".startswith(f"{missing.name}."):
            problem = f"cannot be imported: there is no module {missing.name} here or on the path"
            raise HANDLERS_NOT_FOUND(where=module_name, problem=problem) from None
        raise _broken(module_name, missing) from None
    except Exception as error:  # noqa: BLE001 - importing runs the user's code, which may raise anything
        raise _broken(module_name, error) from None


def _broken(module_name: str, error: Exception) -> Failure:
    """One line about an exception, with the place that raised it: it is the most useful thing to say."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    place, text = f"{last.filename}, line {last.lineno}", str(error)
    if isinstance(error, SyntaxError) and error.filename:
        place, text = f"{error.filename}, line {error.lineno}", error.msg
    first = text.splitlines()[0] if text else "without a word"
    return HANDLERS_BROKEN(where=module_name, problem=f"{type(error).__name__}: {first} ({place})")
