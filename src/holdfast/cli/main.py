"""The entry point of the `holdfast` command. Importing it costs nothing; an extra that is missing is named."""

from __future__ import annotations

import sys

EXTRAS = frozenset({"typer", "rich", "uvicorn"})
INSTALL = 'pip install "holdfast[cli,serve]"'
MISUSED = 2
"""As `ExitCode.MISUSED`, which costs imports."""


def main() -> None:
    """Run the command with the words of this process."""
    try:
        from holdfast.cli.command import run

        run(sys.argv[1:])
    except ModuleNotFoundError as missing:
        if missing.name not in EXTRAS:
            raise
        sys.exit(f"holdfast: this needs {missing.name}, which is not installed: {INSTALL}")
    except ValueError as invalid:
        # Limits are read when the first module is loaded, so their own exception cannot be imported here.
        if type(invalid).__name__ != "LimitInvalid":
            raise
        sys.stderr.write(f"holdfast: {invalid}\n")
        sys.exit(MISUSED)
