"""Which catalogs a command is about: those it is told, or the core's and every installed system's."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from holdfast.catalog import Catalog
from holdfast.cli.assembly import core_catalogs
from holdfast.cli.system_faults import CATALOG_BROKEN, CATALOG_NOT_FOUND
from holdfast.cli.systems import catalogs as of_system
from holdfast.cli.systems import known, told


def chosen_catalogs(wheres: Sequence[str]) -> list[Catalog]:
    """The catalogs that `app.errors:errors` and the like name; without any, all that there are.

    Raises:
        Failure: CATALOG_NOT_FOUND, CATALOG_BROKEN; SYSTEM_BROKEN with the system's name.
    """
    if wheres:
        return [find_catalog(where) for where in wheres]
    from holdfast.console.faults import CONSOLE
    from holdfast.operate.faults import OPERATE

    every = [*core_catalogs(), OPERATE, CONSOLE, *(catalog for name in known() for catalog in of_system(name))]
    return list({id(catalog): catalog for catalog in every}.values())


def find_catalog(where: str) -> Catalog:
    """The object that `app.errors:errors` names.

    Raises:
        Failure: CATALOG_NOT_FOUND when it does not name a catalog; CATALOG_BROKEN when importing it raises.
    """
    module_name, colon, name = where.partition(":")
    if not (colon and all(part.isidentifier() for part in [*module_name.split("."), *name.split(".")])):
        raise CATALOG_NOT_FOUND(where=repr(where), problem="is not MODULE:NAME")
    found = _imported(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            raise CATALOG_NOT_FOUND(where=where, problem=f"does not exist: {module_name} has no {part}")
        found = getattr(found, part)
    if not isinstance(found, Catalog):
        raise CATALOG_NOT_FOUND(where=where, problem=f"is of type {type(found).__name__}, not holdfast.Catalog")
    return found


def _imported(module_name: str) -> object:
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(module_name)
    except Exception as error:  # noqa: BLE001 - importing runs the user's code, which may raise anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            problem = f"cannot be imported: there is no module {missing} here or on the path"
            raise CATALOG_NOT_FOUND(where=module_name, problem=problem) from None
        raise CATALOG_BROKEN(where=module_name, problem=told(error)) from None
