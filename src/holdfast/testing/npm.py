"""Packages of npm that tests need: installed into a folder once, whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

INSTALL_S_MAX = 300.0


class NotInstalled(Exception):
    """A package is not here and could not be fetched; the message says why."""


def npm_package(package: str, folder: Path) -> Path:
    """The folder `node_modules` below `folder` that holds a package, such as `axe-core@4.14.0`.

    Raises:
        NotInstalled: there is no `npm`, or it failed.
    """
    kept = folder / package
    if not kept.exists():
        _install(package, kept)
    return kept / "node_modules"


def _install(package: str, kept: Path) -> None:
    if shutil.which("npm") is None:
        raise NotInstalled(f"{package} is not here, and there is no `npm` on the path to install it")
    draft = kept.with_name(f"{kept.name}.{os.getpid()}")
    draft.mkdir(parents=True, exist_ok=True)
    words = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(draft), package]
    try:
        ended = subprocess.run(  # noqa: S603 - fixed words
            words, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False
        )
        if ended.returncode:
            raise NotInstalled(f"npm could not install {package}: {ended.stderr[-300:]}")
        draft.replace(kept)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"npm took longer than {INSTALL_S_MAX:.0f} s to install {package}") from None
    except OSError:
        # Another test process was first: a folder that is there already cannot be replaced.
        if not kept.exists():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
