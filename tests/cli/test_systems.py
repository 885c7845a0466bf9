"""Finding, building and placing systems, in this process; each test has a package of systems of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.cli import assembly, systems
from holdfast.cli.serve_layout import laid_out
from holdfast.http.system import Ground, System
from holdfast.store import Store
from holdfast.worker import Handlers, Jobs, Periodic
from holdfast.worker.housekeeping import scheduled

Make = Callable[..., None]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Writes systems into a package of this test."""
    package = f"systems_of_{abs(hash(tmp_path))}"
    monkeypatch.setattr(systems, "PACKAGE", package)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()

    def making(name: str, **modules: str) -> None:
        folder = tmp_path / package / name
        folder.mkdir()
        for module, text in {"__init__": "", **modules}.items():
            (folder / f"{module}.py").write_text(text)

    yield making
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        del sys.modules[name]


@pytest.fixture
def ground(sqlite_url: str, tmp_path: Path) -> Iterator[Ground]:
    store = Store.open(sqlite_url)
    yield Ground(store=store, folder=tmp_path, address="http://here", token=Secret("token"), environment={})
    store.close()


def system(name: str, **facts: Any) -> System:
    return System(name=name, title=name, **facts)


async def nobody(scope: Any, receive: Any, send: Any) -> None:
    """An application that is never asked."""


def handling(kind: str, *, tick: str = "") -> Handlers:
    handlers = Handlers()
    handlers.handle(kind)(lambda job: None)
    if tick:
        handlers.enqueue_by_clock(tick, every_s=60, kind=kind)
    return handlers


def test_a_folder_with_a_main_is_a_system_and_none_is_loaded_to_find_out(make: Make) -> None:
    make("alpha", main="raise RuntimeError")
    make("beta", __init__="raise RuntimeError", main="")
    make("half")
    assert systems.known() == ["alpha", "beta"]


def test_all_systems_may_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "PACKAGE", "no_such_package_of_systems")
    assert systems.known() == systems.chosen([]) == []


def test_a_name_that_is_given_twice_counts_once(make: Make) -> None:
    make("alpha", main="")
    assert systems.chosen(["alpha", "alpha"]) == ["alpha"]


BUILT = "from holdfast.http.system import System\ndef build(ground):\n    return System(name='delta', title='')"
BROKEN = {
    "import": ("1 / 0", "ZeroDivisionError"),
    "syntax": (
        "def",
        "SyntaxError: invalid syntax (",
    ),
    "missing": ("import no_such_extra", "No module named 'no_such_extra'"),
    "nothing": ("", "has no function `build`"),
    "raises": ("def build(ground):\n    raise ValueError('a bad\\nsetting')", "ValueError: a bad ("),
    "kind": ("def build(ground):\n    return 'a system'", "`build` returned a str, not a System"),
    "name": (BUILT, "it calls itself 'delta'"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_system_that_cannot_be_built_is_named_with_the_reason(make: Make, ground: Ground, how: str) -> None:
    text, told = BROKEN[how]
    make("gamma", main=text)
    with pytest.raises(Failure) as caught:
        systems.build("gamma", ground)
    assert caught.value.code == "SYSTEM_BROKEN"
    assert caught.value.message.startswith("The system gamma cannot be used: ")
    assert told in caught.value.message
    assert "\n" not in caught.value.message


def test_a_failure_that_a_system_declares_itself_is_passed_on(make: Make, ground: Ground) -> None:
    make("gamma", main="from holdfast import CORE\ndef build(ground):\n    raise CORE['STORAGE_FULL']()")
    with pytest.raises(Failure, match="STORAGE_FULL"):
        systems.build("gamma", ground)


def test_catalogs_are_found_in_faults_without_building(make: Make) -> None:
    text = "from holdfast import Catalog\none = Catalog('one')\ntwo = Catalog('two')\nagain = one"
    make("gamma", main="1 / 0", faults=text)
    make("delta", main="1 / 0")
    assert [catalog.name for catalog in systems.catalogs("gamma")] == ["one", "two"]
    assert systems.catalogs("delta") == []


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ([system("a", parts={"": nobody, "/": nobody})], "/a is taken by a"),
        ([system("errors", parts={"": nobody})], "/errors is reserved for the core"),
        ([system("console", parts={"x": nobody})], "/console/x is reserved for the core"),
        (
            [system("a", standins={"mail": nobody}), system("b", standins={"mail": nobody})],
            "/standins/mail is taken by a",
        ),
    ],
)
def test_two_things_cannot_stand_at_one_place(ground: Ground, made: list[System], told: str) -> None:
    with pytest.raises(Failure, match=told):
        laid_out(ground.store, made, alone=False, standins=True, own={}, catalogs=[])


def test_two_systems_cannot_handle_one_kind() -> None:
    made = [system("a", handlers=handling("same")), system("b", handlers=handling("same")), system("c")]
    with pytest.raises(Failure, match="The system b cannot be used: 'same' has two handlers"):
        assembly.merged_handlers(made)


def test_workers_of_different_systems_keep_each_others_periodic_jobs(ground: Ground) -> None:
    a, b = system("a", handlers=handling("a.x", tick="a.tick")), system("b", handlers=handling("b.x", tick="b.tick"))
    for made in ([a, b], [b]):
        clockwork = scheduled(ground.store, assembly.merged_handlers(made))
        assert clockwork is not None
        clockwork.save()
    entries = Periodic(ground.store, Jobs(ground.store)).list()
    assert [one["name"] for one in entries] == ["a.tick", "b.tick"]


def test_a_system_that_does_not_start_stops_those_before_it() -> None:
    diary: list[str] = []

    def life(name: str, *, fails: bool = False) -> System:
        def start() -> None:
            if fails:
                raise OSError("no port")
            diary.append(f"{name} started")

        return system(name, start=start, stop=lambda: diary.append(f"{name} stopped"))

    with (
        pytest.raises(Failure, match="SYSTEM_NOT_STARTED: c did not start: OSError: no port"),
        assembly.running([life("a"), life("b"), life("c", fails=True)]),
    ):
        diary.append("served")
    assert diary == ["a started", "b started", "b stopped", "a stopped"]


def test_a_system_that_does_not_stop_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    diary: list[str] = []

    def stuck() -> None:
        raise OSError("still busy")

    with assembly.running([system("a", stop=lambda: diary.append("a stopped")), system("b", stop=stuck)]):
        pass
    assert diary == ["a stopped"]
    # Whatever else was being collected at this moment may have been reported, too.
    assert [one for one in reported if "the system b did not stop" in (one.err_msg or "")]


COMMANDS = '''"""Greetings: say hello.

More that is not shown in a list.
"""


def hello(name: str) -> None:
    """Say hello."""
    print(f"hello {name}")


COMMANDS = {"hello": (hello, (("holdfast alpha hello ann", "says hello"),))}
'''


def test_a_system_brings_commands_of_its_own_which_are_loaded_when_they_are_asked_for(make: Make) -> None:
    make("alpha", main="", commands=COMMANDS)
    make("beta", main="", commands="raise RuntimeError('it runs')")
    make("gamma", main="")
    assert systems.contributing() == ["alpha", "beta"]
    # Reading the line for the list runs nothing.
    assert [systems.says_of_commands(name) for name in ("alpha", "beta")] == ["Greetings: say hello.", "beta"]
    assert list(systems.commands("alpha")) == ["hello"]
    with pytest.raises(Failure, match="SYSTEM_BROKEN"):
        systems.commands("beta")


def test_a_module_of_commands_without_commands_is_named(make: Make) -> None:
    make("alpha", main="", commands="")
    with pytest.raises(Failure, match="SYSTEM_BROKEN"):
        systems.commands("alpha")


PARTED = "from holdfast.http.system import System\nPARTS = ('one', 'two')\n"
PARTED += "def build(ground):\n    return System(name='gamma', title=','.join(sorted(ground.parts or ('all',))))"


def test_a_system_is_given_the_parts_that_were_asked_for(make: Make, ground: Ground) -> None:
    make("gamma", main=PARTED)
    assert systems.build("gamma", ground).title == "all"
    assert systems.build("gamma", replace(ground, parts=frozenset({"two"}))).title == "two"


@pytest.mark.parametrize(
    ("main", "told"),
    [
        (PARTED, "The system gamma has no part named 'three'; its parts are: one, two."),
        (BUILT, "The system gamma has no part named 'three'; it is served as a whole."),
    ],
)
def test_a_part_that_is_not_there_is_refused_with_those_that_are(
    make: Make, ground: Ground, main: str, told: str
) -> None:
    make("gamma", main=main)
    with pytest.raises(Failure) as caught:
        systems.build("gamma", replace(ground, parts=frozenset({"one", "three"} if main == PARTED else {"three"})))
    assert (caught.value.code, caught.value.message) == ("PART_UNKNOWN", told)
