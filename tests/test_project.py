"""The project around the code: what is declared in one file has to agree with the others."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import holdfast

TARGETS = ("run", "test", "bench", "lint", "format", "clean", "constraints", "help")


@pytest.fixture(scope="module")
def declared(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def pins(root: Path) -> list[str]:
    return [line for line in (root / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


def plain_name(requirement: str) -> str:
    """`psycopg[binary,pool]>=3.2` as `psycopg`, spelt the way every index spells it."""
    found = re.match(r"[\w.-]+", requirement)
    assert found, requirement
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def test_the_core_depends_on_nothing(declared: dict[str, Any]) -> None:
    assert declared["project"]["dependencies"] == []


def test_the_package_knows_its_own_version(declared: dict[str, Any]) -> None:
    assert holdfast.__version__ == declared["project"]["version"]


def test_every_line_of_the_constraints_is_one_exact_version(pins: list[str]) -> None:
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_everything_that_is_asked_for_is_pinned(declared: dict[str, Any], pins: list[str]) -> None:
    extras = declared["project"]["optional-dependencies"].values()
    wanted = [*declared["build-system"]["requires"], *(line for extra in extras for line in extra)]
    assert {plain_name(line) for line in wanted} - {plain_name(line) for line in pins} == {"holdfast"}


def test_all_means_every_extra_that_is_not_for_developing(declared: dict[str, Any]) -> None:
    extras = declared["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    assert set(everything.removeprefix("holdfast[").rstrip("]").split(",")) == set(extras) - {"all", "test", "lint"}


@pytest.mark.parametrize("target", TARGETS)
def test_every_make_target_explains_itself(root: Path, target: str) -> None:
    makefile = (root / "Makefile").read_text()
    assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE)
    assert re.search(rf"^\.PHONY:.*\b{target}\b", makefile, re.MULTILINE)


def test_every_make_command_in_the_documentation_exists(root: Path) -> None:
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    told = {word for page in pages for word in re.findall(r"(?:`|^\$ |^)make ([a-z]+)", page.read_text(), re.MULTILINE)}
    assert told - set(TARGETS) == set()


def test_the_acceptance_run_can_be_started_and_runs_both(root: Path) -> None:
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines()[-2:] == ["make lint", "make test"]


def test_the_changelog_has_room_for_what_comes_next(root: Path) -> None:
    assert "## [Unreleased]" in (root / "CHANGELOG.md").read_text()


def test_the_licence_is_the_one_that_is_declared(root: Path, declared: dict[str, Any]) -> None:
    assert declared["project"]["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0" in (root / "LICENSE").read_text()


@pytest.mark.parametrize("package", ["holdfast", "holdfast_systems"])
def test_both_packages_are_marked_as_typed(root: Path, package: str) -> None:
    assert (root / "src" / package / "py.typed").exists()
