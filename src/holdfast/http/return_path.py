"""Where a person goes after signing in: the page they asked for, and never another site.

Always true: what `checked` returns is a path below the application's own root, so that `./` before it leads nowhere
else, whatever the address was.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from holdfast.http.asgi import Scope, below

PATH_CHARS_MAX = 2_000
FRONT_PAGE = "/"

# Printable ASCII without the backslash, which browsers read as a slash; two slashes would begin another host.
_PATH = re.compile(r"/(?:[!-.0-\[\]-~][!-\[\]-~]*)?\Z")
_NO_PAGES = frozenset({"/sign-in", "/sign-out"})


def asked_path(scope: Scope) -> str:
    """The path and query of a request below the application's root, encoded as the browser sent them."""
    query = scope.get("query_string", b"").decode("latin-1")
    return checked(f"{_encoded(scope)}?{query}" if query else _encoded(scope))


def depth(scope: Scope) -> int:
    """How many steps of the browser's lead from the address of a request up to the application's root."""
    return _encoded(scope).count("/") - 1


def checked(path: str) -> str:
    """The path if it is one of this application; the front page if it is not, or leads back to signing in."""
    if len(path) > PATH_CHARS_MAX or not _PATH.match(path):
        return FRONT_PAGE
    plain = unquote(path.partition("#")[0].partition("?")[0])
    climbs = ".." in re.split(r"[/\\]", plain)
    return FRONT_PAGE if climbs or plain in _NO_PAGES else path


def _encoded(scope: Scope) -> str:
    # A slash that is part of a name is encoded, and no step of the browser's: only the raw path shows it.
    root = quote(scope.get("root_path", ""))
    path = (scope.get("raw_path") or b"").decode("latin-1").partition("?")[0]
    return path.removeprefix(root) if path.startswith(f"{root}/") else quote(below(scope))
