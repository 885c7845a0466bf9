"""What a machine can check of the house style; everything here reads the source and runs none of it, save imports."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
MODULES = sorted(SOURCE.rglob("*.py"))

# The map of the core: a package may import itself and those before it.
ORDER = (
    "base",
    "catalog",
    "lifecycle",
    "policy",
    "store",
    "guard",
    "worker",
    "delivery",
    "artifact",
    "watch",
    "http",
    "frameworks",
    "operate",
    "analysis",
    "console",
    "cli",
    "testing",
)
STRANGERS = {("policy", "store"), ("store", "policy")}

# Time and chance, which only `base` may touch.
INJECTED = re.compile(
    r"(time\.(time|monotonic|perf_counter|sleep|process_time)(_ns)?|datetime\.(datetime|date)\.(now|utcnow|today)"
    r"|random(\..+)?|secrets(\..+)?|uuid\.uuid[1-8]|os\.(urandom|getrandom)|asyncio\.sleep)\Z"
)

LINES_MAX = 400
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}

# Loading one of these takes longer than all of Holdfast.
HEAVY = {
    "asyncio", "concurrent", "decimal", "email", "hashlib", "http", "logging", "multiprocessing", "random", "secrets",
    "sqlite3", "ssl", "subprocess", "tomllib", "unittest", "urllib", "uuid", "xml",
}  # fmt: skip

# Written in pieces, so that this file does not accuse itself.
MACHINE_WORDS = re.compile(
    "|".join(["/" + "work/", "/" + "root/", "--" + "(extra-)?index-url", "pypi" + r"\.org/simple"])
)


def dotted(path: Path) -> str:
    """`src/holdfast/base/world.py` as `holdfast.base.world`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, module: str, *, is_package: bool = False) -> Iterator[str]:
    """Everything a module imports, wherever in it: at the top, in a function, for type checking only."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{origin}.{name.name}" for name in node.names)


def trespass(module: str, imported: str) -> str | None:
    """Why this module may not import that name; None when it may."""
    here, there = [*module.split("."), ""][:2], [*imported.split("."), ""][:2]
    if there[0] not in {"holdfast", "holdfast_systems"} or here == there or here == ["holdfast", ""]:
        return None
    if here[0] == "holdfast_systems":
        return "systems do not import each other" if there[0] == "holdfast_systems" and here[1] else None
    if there[0] == "holdfast_systems":
        return "the core names no system"
    if there[1] not in ORDER:
        return "the core does not import its own front door"
    if (here[1], there[1]) in STRANGERS:
        return "policy and store do not know each other"
    return "it points against the map" if ORDER.index(there[1]) > ORDER.index(here[1]) else None


def origins(tree: ast.AST) -> dict[str, str]:
    """Each imported name and what it stands for: after `from time import sleep as rest`, rest is `time.sleep`."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                whole = name.name if name.asname else name.name.split(".")[0]
                known[name.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom) and not node.level:
            known |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    return known


def uninjected(tree: ast.AST) -> list[str]:
    """Where time or chance is touched. `asyncio.sleep(0)` is no wait: it gives other tasks their turn."""
    known = origins(tree)
    turns = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and [ast.unparse(given) for given in node.args] == ["0"]
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in turns:
            first, *rest = ast.unparse(node).split(".")
            name = ".".join([known.get(first, ""), *rest])
            if INJECTED.match(name):
                found.append(f"line {node.lineno}: {name}")
    return found


def text_of(path: Path) -> str:
    """What stands in a file; nothing where somebody has deleted it since the files were listed."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""


def tracked() -> list[Path]:
    """The files of the project: as git knows them, or in a copy without git, by folder."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if (ROOT / ".git").exists() and listed.returncode == 0:
        return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    folders = [ROOT / name for name in ("src", "tests", "bench", "docs", ".ci")]
    found = [
        path for folder in folders for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__"
    ]
    return [*found, *(path for path in ROOT.iterdir() if path.is_file())]


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_point_along_the_map(path: Path) -> None:
    tree = ast.parse(path.read_text())
    found = imports(tree, dotted(path), is_package=path.stem == "__init__")
    assert {name: why for name in found if (why := trespass(dotted(path), name))} == {}


@pytest.mark.parametrize(
    ("module", "imported", "refused"),
    [
        ("holdfast.policy.decide", "holdfast.catalog.Failure", False),
        ("holdfast.catalog.fault", "holdfast.policy.Retry", True),
        ("holdfast.store.jobs", "holdfast.policy.Retry", True),
        ("holdfast.policy.retry", "holdfast.store.Store", True),
        ("holdfast.store.jobs", "holdfast.lifecycle.Move", False),
        ("holdfast.catalog.fault", "holdfast.Retry", True),
        ("holdfast.guard.link", "holdfast_systems.records", True),
        ("holdfast_systems.records.api", "holdfast_systems.reports.model", True),
        ("holdfast_systems.records.api", "holdfast.guard.Link", False),
        ("holdfast", "holdfast.guard.Link", False),
    ],
)
def test_the_map_refuses_what_it_should(module: str, imported: str, refused: bool) -> None:
    assert (trespass(module, imported) is not None) is refused


def test_hidden_imports_are_seen() -> None:
    text = (
        "from ..policy import Retry\ndef f():\n  import holdfast.store\nif TYPE_CHECKING:\n  from holdfast import guard"
    )
    assert set(imports(ast.parse(text), "holdfast.catalog.fault")) == {
        "holdfast.policy.Retry",
        "holdfast.store",
        "holdfast.guard",
    }


@pytest.mark.parametrize("path", [path for path in MODULES if not dotted(path).startswith("holdfast.base")], ids=dotted)
def test_time_and_chance_come_through_base(path: Path) -> None:
    assert uninjected(ast.parse(path.read_text())) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.time()",
        "import time as clock\nclock.monotonic()",
        "from time import sleep as rest\nrest(1)",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.now()",
        "def f():\n    import random\n    return random.random()",
        "from uuid import uuid4\nuuid4()",
        "import asyncio\nasyncio.sleep(1)",
        "import os\nos.urandom(8)",
        "from secrets import token_hex\ntoken_hex()",
    ],
)
def test_a_clock_is_seen_under_any_name(text: str) -> None:
    assert uninjected(ast.parse(text))


def test_giving_others_their_turn_is_not_waiting() -> None:
    assert uninjected(ast.parse("import asyncio\nasyncio.sleep(0)")) == []


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_no_file_has_grown_into_a_god_module() -> None:
    # A baseline is the schema of a package in one piece.
    sources = [path for path in tracked() if path.suffix in {".py", ".sql"} and path.name != "0001_baseline.sql"]
    sizes = {str(path.relative_to(ROOT)): len(text_of(path).splitlines()) for path in sources}
    assert {name: size for name, size in sizes.items() if size > LINES_MAX} == {}


def test_every_name_says_what_is_inside() -> None:
    named = {part for path in tracked() for part in path.relative_to(ROOT).with_suffix("").parts}
    assert named & VAGUE_NAMES == set()


PACKAGES = [dotted(path) for path in MODULES if path.name == "__init__.py" and dotted(path).count(".") <= 1]


@pytest.mark.parametrize("package", [name for name in PACKAGES if name.split(".")[0] == "holdfast"])
def test_every_public_name_resolves(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(set(module.__all__)) == len(module.__all__)


def test_importing_holdfast_loads_nothing_heavy() -> None:
    program = (
        "import sys; before = set(sys.modules); import holdfast; from holdfast import Catalog, Link, Retry;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    loaded = set(ended.stdout.split())
    assert "holdfast" in loaded, ended.stderr
    assert loaded & HEAVY == set()
    assert loaded - sys.stdlib_module_names == {"holdfast"}


def test_no_file_names_a_machine_or_an_index() -> None:
    found = {
        str(path.relative_to(ROOT)): match[0] for path in tracked() if (match := MACHINE_WORDS.search(text_of(path)))
    }
    assert found == {}


ASKED_FOR = {
    # Created only where the settings name them: docs/decisions/0013-the-contract-s-tables-as-views.md
    "holdfast_systems/credentials/seed_views/migrations/0001_views.sql": {"processed_events", "webhook_failures"},
}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.sql")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_everything_in_the_database_begins_with_our_name(path: Path) -> None:
    """We are guests in the user's database: nothing of ours may clash with a table of theirs."""
    creating = r"(?:CREATE (?:UNIQUE )?(?:TABLE|VIEW|INDEX|TRIGGER)|CONSTRAINT) (\w+)"
    created = re.findall(creating, path.read_text("utf-8"))
    system = path.relative_to(SOURCE).parts[1] if path.is_relative_to(SOURCE / "holdfast_systems") else None
    prefix = f"holdfast_{system}_" if system else "holdfast_"
    foreign = {name for name in created if not name.startswith(prefix)}
    assert foreign == ASKED_FOR.get(path.relative_to(SOURCE).as_posix(), set())
