"""Paths below a root, walked part by part without following any link, so that none leads out of it."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from holdfast.base.private_files import FOLDER_MODE, make_folder

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, because a pipe that somebody put there would keep us waiting for its other end.
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class LinkMet(OSError):
    """A link stands where a path leads through; it is not followed."""

    def __init__(self, part: str) -> None:
        super().__init__(errno.ELOOP, "a link is not followed", part)


@contextmanager
def opened_folder(root: str, parts: Sequence[str], *, make: bool) -> Iterator[int]:
    """A descriptor of the folder below the root.

    Raises:
        LinkMet: a part is a link.
        NotADirectoryError: a part is a file, where the folder was to be made.
        FileNotFoundError: there is no such folder.
    """
    if make:
        make_folder(root)
    # The root itself may be a link: where it stands is the operator's choice.
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            inner = _entered(folder, part, make=make)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def open_file(folder: int, part: str) -> io.FileIO:
    """A regular file in the folder, opened for reading.

    Raises:
        LinkMet: it is a link.
        FileNotFoundError: there is nothing, or something that is not a file.
    """
    check_file(folder, part)
    try:
        return io.FileIO(os.open(part, FILE, dir_fd=folder))
    except OSError:
        check_file(folder, part)  # it became a link or a folder in between
        raise


def check_file(folder: int, part: str) -> os.stat_result:
    """The status of a regular file.

    Raises:
        LinkMet, FileNotFoundError: as `open_file` does.
    """
    status = os.stat(part, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise LinkMet(part)
    if not stat.S_ISREG(status.st_mode):
        raise FileNotFoundError(errno.ENOENT, "no file", part)
    return status


def _entered(folder: int, part: str, *, make: bool) -> int:
    try:
        return os.open(part, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    except OSError:
        status = os.stat(part, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise LinkMet(part) from None
        if make or stat.S_ISDIR(status.st_mode):
            raise
        raise FileNotFoundError(errno.ENOENT, "no folder", part) from None
    try:
        os.mkdir(part, FOLDER_MODE, dir_fd=folder)
        os.fsync(folder)
    except FileExistsError:
        pass  # another was quicker
    return os.open(part, FOLDER, dir_fd=folder)
