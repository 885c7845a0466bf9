"""Who asks for a page: a person with a session, or a program with the token; whether a form is really theirs; and what
is answered where there is no page to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from holdfast.base import Secret
from holdfast.catalog import Failure
from holdfast.catalog.core import BAD_REQUEST, FORBIDDEN
from holdfast.catalog.dialect import Dialect, render
from holdfast.http.asgi import Reply, Scope
from holdfast.http.markup import element
from holdfast.http.origin import is_foreign, origin_of
from holdfast.http.sessions import Session, Sessions
from holdfast.http.sign_in import ask_to_sign_in, session_or_token
from holdfast_systems.credentials.faults import NOT_SIGNED_IN
from holdfast_systems.credentials.pages.layout import Frame, lead, whole

FIELDS_MAX = 20
VALUE_CHARS_MAX = 500
# As all pages here, but with forms that are sent to ourselves.
POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who was let in."""

    csrf: str
    """What a form of theirs has to bring along; empty for a program, which brings the token itself."""


class PageAccess:
    """Lets operators in to the pages of one half. Threads may share it."""

    def __init__(self, sessions: Sessions, token: Secret, *, address: str) -> None:
        self._sessions = sessions
        self._token = token
        self._origin = origin_of(address)

    async def visitor(self, scope: Scope) -> Visitor | None:
        """Who this is; None for somebody who has yet to sign in.

        Raises:
            Failure: RATE_LIMIT_EXCEEDED for a wrong token after too many; or the database's own.
        """
        found = await session_or_token(self._sessions, self._token, scope)
        if isinstance(found, Session):
            return Visitor(self._sessions.csrf(found.id))
        return Visitor("") if found else None

    def check_form(self, scope: Scope, visitor: Visitor, given: str) -> None:
        """Whether a form was sent by one of our own pages.

        Raises:
            Failure: FORBIDDEN.
        """
        if is_foreign(scope, self._origin):
            raise FORBIDDEN("The request came from another site.")
        if visitor.csrf and not Secret(visitor.csrf).matches(given):
            raise FORBIDDEN("The form is too old, or not ours. Go back, load the page again and repeat.")


def to_sign_in(scope: Scope, *, wanted: str | None = None) -> Reply:
    """The way to the sign-in and back.

    Raises:
        Failure: UNAUTHORIZED for a program.
    """
    asked = ask_to_sign_in(scope, wanted=wanted)
    if asked is None:
        raise NOT_SIGNED_IN()
    return asked


def read_fields(form: bytes) -> dict[str, str]:
    """The fields of a query or a form, without those that are empty.

    Raises:
        Failure: BAD_REQUEST when there are too many, or one that is too long or that no database could look for.
    """
    try:
        found = parse_qs(form.decode("latin-1"), max_num_fields=FIELDS_MAX)
    except ValueError:
        raise _unreadable("more fields than a page has") from None
    for name, values in found.items():
        if len(values[0]) > VALUE_CHARS_MAX or "\0" in values[0] or "\0" in name:
            raise _unreadable("a value that cannot be meant")
    return {name: values[0].strip() for name, values in found.items() if values[0].strip()}


def html(page: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A page as a reply."""
    # Not `no-referrer`: a form would then name no origin, and could not be told from another site's.
    guarded = {"content-security-policy": POLICY, "cache-control": "no-store", "referrer-policy": "same-origin"}
    return Reply(body=page.encode(), status=status, headers={**guarded, **(headers or {})})


def refused(frame: Frame, failure: Failure) -> Reply:
    """The page of a request that cannot be served."""
    title = failure.code.replace("_", " ").capitalize()
    back = element("p", element("a", "To the front page", href=frame.root or "./"))
    page = whole(title, frame, element("h1", title), lead(failure.message), element("p", failure.fault.remedy), back)
    said = {name.lower(): value for name, value in render(failure, Dialect.FLAT).headers}
    del said["content-type"]
    return html(page, status=failure.status, headers=said)


def _unreadable(what: str) -> Failure:
    return BAD_REQUEST("The address or the form has {what}.", what=what)
