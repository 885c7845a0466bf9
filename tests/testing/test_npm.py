"""Packages of npm: used where they are, installed where they can be, and missed with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.npm import NotInstalled, npm_package

NPM = """#!/bin/sh
while [ "$1" != --prefix ]; do shift; done
{does}
"""


def fake_npm(folder: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    program = folder / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(NPM.replace("{does}", does))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_what_is_there_is_used_without_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "thing@1" / "node_modules").mkdir(parents=True)
    assert npm_package("thing@1", tmp_path) == tmp_path / "thing@1" / "node_modules"


def test_without_npm_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="no `npm` on the path"):
        npm_package("thing@1", tmp_path / "build")


def test_what_npm_installs_is_there_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path, monkeypatch, 'mkdir -p "$2/node_modules/thing"')
    assert (npm_package("thing@1", tmp_path / "build") / "thing").is_dir()
    assert [one.name for one in (tmp_path / "build").iterdir()] == ["thing@1"], "no draft is left"


def test_what_npm_could_not_install_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(tmp_path, monkeypatch, 'mkdir -p "$2/node_modules"; echo no network >&2; exit 1')
    with pytest.raises(NotInstalled, match="no network"):
        npm_package("thing@1", tmp_path / "build")
    assert list((tmp_path / "build").iterdir()) == []
