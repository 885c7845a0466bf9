"""What somebody wanted when they were asked to sign in: a page, or a form that they had filled in.

Always true: a form is remembered only when one of our own pages sent it, nothing is done with it before the person
sends it once more, and no address leads to another site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.console.parts import hidden
from holdfast.console.routes import ROUTES, Does, Shows
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup
from holdfast.http.return_path import checked

NEXT = "next"
ACTION = "form_action"
FIELD = "form."
"""Before the names of the fields of a form that is kept."""
OWN = frozenset({"csrf", "token"})
"""Fields that are of no use later, or that nobody else should see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRequest:
    """A page to return to, and the form that was sent to `action`, if one was."""

    back: str = "/"
    """Below the root."""
    action: str = ""
    """The path of the form below the root; empty when there is none."""
    form: Mapping[str, str] = field(default_factory=dict)


def pending_page(visit: Visit) -> PendingRequest:
    """The page that was asked for; of what is not a page, the first one."""
    found = ROUTES.find("GET", visit.path)
    return (
        PendingRequest(back=checked(visit.own))
        if found is not None and isinstance(found.answer, Shows)
        else PendingRequest()
    )


def pending_form(visit: Visit, form: Mapping[str, str]) -> PendingRequest:
    """The form that was sent."""
    fields = {name: value for name, value in form.items() if name not in OWN}
    return PendingRequest(back=checked(form.get("back", "/")), action=visit.path, form=fields)


def written(pending: PendingRequest) -> list[Markup]:
    """The request as hidden fields of the form that asks for the token."""
    kept = [hidden(FIELD + name, value) for name, value in pending.form.items()]
    return [hidden(NEXT, pending.back), *([hidden(ACTION, pending.action), *kept] if pending.action else [])]


def read_pending(form: Mapping[str, str]) -> PendingRequest:
    """The request that the form with the token brought along."""
    back, action = checked(form.get(NEXT, "/")), form.get(ACTION, "")
    found = ROUTES.find("POST", action)
    if found is None or not isinstance(found.answer, Does):
        return PendingRequest(back=back)
    kept = {name.removeprefix(FIELD): value for name, value in form.items() if name.startswith(FIELD)}
    return PendingRequest(
        back=back, action=action, form={name: value for name, value in kept.items() if name not in OWN}
    )
