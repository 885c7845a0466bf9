"""Where a running Holdfast keeps its state: the data folder, the database in it, and the operator's token.

Always true: however many processes start at once on one folder, they use the same token, and nobody else can read it.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from holdfast.base import Secret, new_id, world
from holdfast.base.private_files import make_folder
from holdfast.cli.system_faults import DATA_UNUSABLE, TOKEN_TOO_SHORT
from holdfast.store.address import ENVIRONMENT_VARIABLE

DATA_VARIABLE = "HOLDFAST_DATA"
TOKEN_VARIABLE = "HOLDFAST_TOKEN"  # noqa: S105 - the name of a variable
ADDRESS_VARIABLE = "HOLDFAST_ADDRESS"
DEFAULT_DATA = Path("holdfast-data")
DATABASE_FILE = "holdfast.db"
TOKEN_FILE = "operator-token"  # noqa: S105 - the name of a file
TOKEN_BYTES = 24
TOKEN_CHARS_MIN = 16
TOKEN_FILE_CHARS_MAX = 1_024

DataFolder = Annotated[
    Path,
    typer.Option(
        "--data", metavar="DIR", envvar=DATA_VARIABLE, help="Where files, the token and the embedded database are kept."
    ),
]

DatabaseInData = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar=ENVIRONMENT_VARIABLE,
        help=f"sqlite:///path or postgresql://user@host/name; without it {DATABASE_FILE} in --data.",
        show_default=False,
    ),
]


def data_folder(folder: Path) -> Path:
    """The folder, made when it is not there.

    Raises:
        Failure: DATA_UNUSABLE.
    """
    try:
        make_folder(folder)
    except OSError as refused:
        raise DATA_UNUSABLE(folder=folder, problem=refused.strerror or str(refused)) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DATA_UNUSABLE(folder=folder, problem="it cannot be written to")
    return folder


def database_of(folder: Path, database: str | None) -> str:
    """The address given, or the embedded database in the folder."""
    return database or f"sqlite:///{folder / DATABASE_FILE}"


def operators_token(folder: Path, environment: Mapping[str, str]) -> tuple[Secret, bool]:
    """The operator's token, and whether it was made just now and has to be shown.

    Raises:
        Failure: DATA_UNUSABLE when it can neither be read nor written; TOKEN_TOO_SHORT.
    """
    given = environment.get(TOKEN_VARIABLE, "").strip()
    if given:
        return _long_enough(given), False
    file = folder / TOKEN_FILE
    try:
        text, fresh = (_read(file), False) if file.exists() else _made(file)
    except OSError as refused:
        raise DATA_UNUSABLE(folder=file, problem=refused.strerror or str(refused)) from None
    if not text:
        raise DATA_UNUSABLE(folder=file, problem="there is no token in it; remove it, and a new one is made")
    return _long_enough(text), fresh


def _long_enough(token: str) -> Secret:
    if len(token) < TOKEN_CHARS_MIN:
        raise TOKEN_TOO_SHORT(chars=len(token), least=TOKEN_CHARS_MIN)
    return Secret(token)


def _read(file: Path) -> str:
    file.chmod(0o600)
    with file.open(encoding="ascii", errors="replace") as opened:
        return opened.read(TOKEN_FILE_CHARS_MAX).strip()


def _made(file: Path) -> tuple[str, bool]:
    """A new token, on disk before it is used, and whether it counts: another process may have been quicker."""
    text = urlsafe_b64encode(world().token_bytes(TOKEN_BYTES)).decode().rstrip("=")
    draft = file.with_name(f"{file.name}.{new_id()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as opened:
            opened.write(f"{text}\n")
            opened.flush()
            os.fsync(opened.fileno())
        try:
            file.hardlink_to(draft)  # unlike a rename, this never replaces the one that another process has made
        except FileExistsError:
            return _read(file), False
        return text, True
    finally:
        draft.unlink(missing_ok=True)
