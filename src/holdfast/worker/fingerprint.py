"""The fingerprint of a failure: the same for failures of one cause, another for each other cause.

It is made of the code, the kind of job, the place in the user's own code, the upstream's code, and the failure's own
text without what changes from one occurrence to the next.
"""

from __future__ import annotations

import re
from functools import cache

from holdfast.base import digest, limits, plain

FINGERPRINT_CHARS = 16
_NAME = re.compile(r"[A-Za-z_][A-Za-z_.\-]{0,60}")


def fingerprint(code: str, kind: str, text: str, *, place: str = "", source: str = "", remote_code: str = "") -> str:
    """The same for failures that differ only in numbers, ids and quoted values.

    Args:
        text: the technical line of the failure.
        place: where it was raised, as `module:function`; without the line, which every change of the file moves.
        source: the line of code at the place; a quoted name that stands in it is not a value, as in `order["total"]`.
        remote_code: the upstream's own code.
    """
    return digest(plain([code, kind, place, remote_code, stable(text, source)]))[:FINGERPRINT_CHARS]


def stable(text: str, source: str = "") -> str:
    """The text without what changes from one occurrence to the next."""

    def kept(found: re.Match[str]) -> str:
        quoted = found[0][1:-1]
        return found[0] if _NAME.fullmatch(quoted) and quoted in source else "…"

    return _variable().sub(kept, text[: limits().message_chars_max])


@cache
def _variable() -> re.Pattern[str]:
    quoted = r"'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`"
    addresses = r"(?<=://)[^\s/]*[^\s'\")]*|[\w.+\-]+@[\w.\-]+"
    return re.compile(rf"{quoted}|{addresses}|[0-9a-fA-F\-]{{8,}}|[\w\-]*\d[\w\-]*")
