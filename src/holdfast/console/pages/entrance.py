"""The way in, for whoever has no access yet."""

from __future__ import annotations

from holdfast.catalog import Failure
from holdfast.catalog.core import UNAUTHORIZED
from holdfast.console.layout import bare
from holdfast.console.parts import field, notice
from holdfast.console.visit import Visit
from holdfast.http.markup import element


def entrance(failure: Failure, visit: Visit) -> bytes:
    """Ask for the token, and say why nothing else is shown."""
    plain = failure.code == UNAUTHORIZED.code and failure.message == UNAUTHORIZED.says
    said = [] if plain else [notice(failure.message, tone="bad")]
    form = element(
        "form",
        field("Token", "token", kind="password", autocomplete="current-password", required="", autofocus=""),
        element("button", "Enter", type="submit"),
        method="post",
        action=visit.to("enter"),
        class_="enter",
    )
    return bare(
        "Enter",
        visit,
        element("h1", "Console"),
        *said,
        element("p", "Enter the operator's token, or open the link that was printed at the start.", class_="lead"),
        form,
    )
