"""Finding the systems that are installed: every folder of `holdfast_systems` that has a `main` with a `build`.

The core names none of them. Looking for them runs no code of theirs; one that cannot be loaded is named.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any

from holdfast.catalog import Catalog, Failure
from holdfast.cli.system_faults import PART_UNKNOWN, SYSTEM_BROKEN, SYSTEM_UNKNOWN

if TYPE_CHECKING:
    from holdfast.http.system import Ground, System

PACKAGE = "holdfast_systems"
MAIN, FAULTS, COMMANDS = "main", "faults", "commands"
PARTS = "PARTS"


def known() -> list[str]:
    """The names of the systems that are installed."""
    try:
        folders = list(import_module(PACKAGE).__path__)
    except ModuleNotFoundError as missing:
        if missing.name != PACKAGE:
            raise
        return []  # every system may be removed
    found = [(finder, name) for finder, name, is_package in iter_modules(folders) if is_package]
    return sorted(name for finder, name in found if _has_main(finder, name))


def chosen(names: Iterable[str]) -> list[str]:
    """The systems of these names, each once; all of them when there are no names.

    Raises:
        Failure: SYSTEM_UNKNOWN, with the names that would do.
    """
    there = known()
    wanted = list(dict.fromkeys(names)) or there
    for name in wanted:
        if name not in there:
            raise SYSTEM_UNKNOWN(name=repr(name), known=", ".join(there) or "none at all")
    return wanted


def build(name: str, ground: Ground) -> System:
    """The system on its ground.

    Raises:
        Failure: PART_UNKNOWN; SYSTEM_BROKEN, with what it raised and where; or a failure that the system itself raises.
    """
    from holdfast.http.system import System

    main = _loaded(name, MAIN)
    builder: Callable[[Ground], System] | None = getattr(main, "build", None)
    if builder is None:
        raise SYSTEM_BROKEN(name=name, problem=f"{PACKAGE}.{name}.{MAIN} has no function `build`")
    _check_parts(name, ground.parts, tuple(getattr(main, PARTS, ())))
    try:
        built = builder(ground)
    except Failure:
        raise
    except Exception as error:  # noqa: BLE001 - this runs the system's code, which may raise anything
        raise SYSTEM_BROKEN(name=name, problem=told(error)) from None
    if not isinstance(built, System):
        raise SYSTEM_BROKEN(name=name, problem=f"`build` returned a {type(built).__name__}, not a System")
    if built.name != name:
        raise SYSTEM_BROKEN(name=name, problem=f"it calls itself {built.name!r}")
    return built


def catalogs(name: str) -> list[Catalog]:
    """The catalogs that a system declares in its module `faults`, without building it.

    Raises:
        Failure: SYSTEM_BROKEN, with what it raised and where.
    """
    try:
        faults = _loaded(name, FAULTS)
    except _NotThere:
        return []
    declared = [value for value in vars(faults).values() if isinstance(value, Catalog)]
    return list({id(catalog): catalog for catalog in declared}.values())


def contributing() -> list[str]:
    """The systems that bring commands of their own: `holdfast NAME …`."""
    return [name for name in known() if _commands_file(name) is not None]


def says_of_commands(name: str) -> str:
    """What the commands of a system are for: the first line of their module, read without running it."""
    import ast

    file = _commands_file(name)
    said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) if file is not None else None
    return said.splitlines()[0] if said else name


def commands(name: str) -> Mapping[str, Any]:
    """The commands of a system: its module `commands` has them as `COMMANDS`, with their examples.

    Raises:
        Failure: SYSTEM_BROKEN, with what it raised and where.
    """
    found = getattr(_loaded(name, COMMANDS), "COMMANDS", None)
    if not isinstance(found, Mapping):
        raise SYSTEM_BROKEN(name=name, problem=f"{PACKAGE}.{name}.{COMMANDS} has no mapping `COMMANDS`")
    return found


def told(error: Exception) -> str:
    """An exception of somebody else's code in one line, with the place that raised it."""
    place = ""
    if isinstance(error, SyntaxError) and error.filename:
        place, text = f"{error.filename}, line {error.lineno}", error.msg
    else:
        text = str(error)
        trace = traceback.extract_tb(error.__traceback__)
        place = f"{trace[-1].filename}, line {trace[-1].lineno}" if trace else ""
    first = text.splitlines()[0] if text else "without a word"
    return f"{type(error).__name__}: {first}" + (f" ({place})" if place else "")


class _NotThere(Exception):
    """The system has no such module."""


def _check_parts(name: str, wanted: frozenset[str] | None, there: tuple[str, ...]) -> None:
    """Refuse parts that the system does not have.

    Raises:
        Failure: PART_UNKNOWN, with the names that would do.
    """
    for part in sorted(wanted or ()):
        if part not in there:
            known = f"its parts are: {', '.join(there)}" if there else "it is served as a whole"
            raise PART_UNKNOWN(name=name, part=repr(part), known=known)


def _loaded(name: str, part: str) -> ModuleType:
    module_name = f"{PACKAGE}.{name}.{part}"
    try:
        return import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name == module_name:
            raise _NotThere from None
        raise SYSTEM_BROKEN(name=name, problem=told(missing)) from None
    except Exception as error:  # noqa: BLE001 - this runs the system's code, which may raise anything
        raise SYSTEM_BROKEN(name=name, problem=told(error)) from None


def _commands_file(name: str) -> Path | None:
    for folder in import_module(PACKAGE).__path__:
        file = Path(folder) / name / f"{COMMANDS}.py"
        if file.is_file():
            return file
    return None


def _has_main(finder: object, name: str) -> bool:
    spec = finder.find_spec(name, None) if hasattr(finder, "find_spec") else None
    folders = spec.submodule_search_locations if spec is not None else None
    return any(part == MAIN for _, part, _ in iter_modules(folders or []))
