"""Files and folders that are for the user of this process alone: 0600 and 0700, whatever the umask says."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = 0o077


def make_folder(path: Path | str) -> None:
    """Make the folder and those above it that are missing, for this user alone; those that are there stay as they are.

    Raises:
        OSError: one of them cannot be made.
    """
    folder = Path(path)
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        if folder == folder.parent:
            break
        folder = folder.parent
    for one in reversed(missing):
        with suppress(FileExistsError):  # another process was quicker
            one.mkdir(mode=FOLDER_MODE)
    if missing and not Path(path).is_dir():
        raise FileExistsError(errno.EEXIST, "it is not a folder", str(path))


def make_file(path: Path | str) -> None:
    """Make an empty file for this user alone, unless there is one.

    Raises:
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))


def open_to_others(path: Path | str) -> bool:
    """Whether other users of this machine may read or change what is there; False where nothing is."""
    try:
        return bool(os.stat(path).st_mode & _OTHERS)
    except OSError:
        return False
