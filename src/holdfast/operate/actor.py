"""Who does something by hand, and through which door."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from holdfast.http.asgi import Scope
from holdfast.http.sessions import OPERATOR
from holdfast.http.wrong_tokens import bearer

NAME_CHARS_MAX = 200


class ActorKind(StrEnum):
    """The door through which an operator came."""

    CONSOLE = "console"
    """A person with a session of the console or of a system's page, or one whom a trusted proxy names."""
    COMMAND = "command"
    """A user of the operating system who ran `holdfast`."""
    API = "api"
    """A program that showed a token; the name is the token's."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who, by the name that the door knows, and from where."""

    kind: ActorKind
    name: str
    address: str = ""
    """The client's address, or the host on which the command ran; empty where it is not known."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= NAME_CHARS_MAX:
            raise ValueError(f"the name of an actor has 1 to {NAME_CHARS_MAX} characters")

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


def actor_of(scope: Scope, name: str = OPERATOR) -> Actor:
    """Who acts with this request, which was let in: a program that brought a token itself, or a person on a page."""
    client = scope.get("client")
    return Actor(ActorKind.API if bearer(scope) else ActorKind.CONSOLE, name, str(client[0]) if client else "")
