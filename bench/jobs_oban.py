"""Where Oban runs: it needs Python 3.12, which the environment of the bench may not be.

Then an environment of its own is made inside the bench's, with the newest interpreter that is found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from bench.jobs_process import Unavailable

RELEASE = "0.7.0"
PYTHON_MIN = (3, 12)
NAMES = ("python3.14", "python3.13", "python3.12")
COMMAND_S_MAX = 180.0


def python_with_oban() -> str:
    """An interpreter that can import Oban; made on the first call.

    Raises:
        Unavailable: with the reason.
    """
    if find_spec("oban") is not None:
        return sys.executable
    place = Path(sys.prefix) / "oban"
    made = place / "bin" / "python"
    if _run(made, "-c", "import oban, psycopg"):
        return str(made)
    base = next((python for python in _interpreters() if _run(python, "-c", _CHECK)), None)
    if base is None:
        raise Unavailable("Oban needs Python 3.12 or later, and none was found beside this one")
    if not _run(base, "-m", "venv", "--clear", place):
        raise Unavailable(f"{base} could not make an environment in {place}")
    if not _run(made, "-m", "pip", "install", "--quiet", f"oban=={RELEASE}"):
        raise Unavailable(f"pip could not install oban {RELEASE}")
    return str(made)


_CHECK = f"import sys, venv; sys.exit(sys.version_info < {PYTHON_MIN})"


def _interpreters() -> Iterator[Path]:
    yield from (Path(found) for name in NAMES if (found := shutil.which(name)))
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    yield from sorted(versions.glob("3.1*/bin/python3"), reverse=True)


def _run(*command: str | Path) -> bool:
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, timeout=COMMAND_S_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
