"""Who runs the command: the user of the operating system, on this host."""

from __future__ import annotations

import getpass
import os
import socket

from holdfast.operate import Actor, ActorKind
from holdfast.operate.actor import NAME_CHARS_MAX

SUDO_VARIABLE = "SUDO_USER"


def os_actor() -> Actor:
    """The user by name, with the one who called sudo before it; by number where there is no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    behind = os.environ.get(SUDO_VARIABLE)
    whole = f"{behind} as {name}" if behind and behind != name else name
    return Actor(ActorKind.COMMAND, whole[:NAME_CHARS_MAX] or "unknown", socket.gethostname())
