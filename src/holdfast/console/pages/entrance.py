"""The way in, for a visitor that has no access yet; and a form that arrived too late, to be sent once more."""

from __future__ import annotations

from holdfast.base import redacted_text
from holdfast.catalog import Failure
from holdfast.catalog.core import UNAUTHORIZED
from holdfast.console.layout import bare
from holdfast.console.page import Page
from holdfast.console.parts import act, facts, field, hidden, link, notice, panel
from holdfast.console.pending_request import PendingRequest, written
from holdfast.console.visit import Visit
from holdfast.http.markup import element

VALUE_CHARS_MAX = 200
REASON = "reason"
UNSEEN = frozenset({"back", "name", "id", REASON})
"""Fields that are shown elsewhere, or that say nothing to a person."""


def entrance(failure: Failure, visit: Visit, pending: PendingRequest) -> bytes:
    """Ask for the token, and say why nothing else is shown."""
    plain = failure.code == UNAUTHORIZED.code and failure.message == UNAUTHORIZED.says
    said = [] if plain else [notice(failure.message, tone="bad")]
    if pending.action:
        said.append(notice("The session has ended. What you sent was not done; it is kept until you are signed in."))
    form = element(
        "form",
        *written(pending),
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


def send_again(visit: Visit, pending: PendingRequest) -> Page:
    """Show a form whose session had ended, with everything that was filled in, and ask whether to send it."""
    *_, verb = parts = pending.action.split("/")[1:]
    kept = [hidden(name, value) for name, value in pending.form.items() if name not in {"back", REASON}]
    why = [field("Why", REASON, pending.form[REASON], maxlength="500")] if REASON in pending.form else []
    label = verb.capitalize()
    form = act(visit, visit.to(*parts), label, *kept, *why, back=pending.back)
    subject = pending.form.get("name") or (parts[1] if len(parts) > 2 else "")
    others = [
        (name.replace("_", " ").capitalize(), redacted_text(value, VALUE_CHARS_MAX))
        for name, value in pending.form.items()
        if name not in UNSEEN
    ]
    asked = panel(
        f"{label} {parts[0]}",
        facts([("What", element("code", redacted_text(subject, VALUE_CHARS_MAX)) if subject else ""), *others]),
        form,
    )
    said = notice("The session that this form belongs to has ended. Nothing was done yet.", tone="bad")
    way = element("p", link(visit.root + pending.back, "Go back without sending it"))
    return Page("Send it again?", [element("h1", "Send it again?"), said, asked, way])
