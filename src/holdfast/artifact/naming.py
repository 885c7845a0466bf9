"""Names of artifacts: the same text is the same place on every backend, and no name leads out of the root.

A name is one or more parts joined by `/`, in Unicode's composed form (NFC): the two ways to write `é` are one name.
"""

from __future__ import annotations

from holdfast.artifact.faults import ARTIFACT_NAME_INVALID
from holdfast.base import Private
from holdfast.catalog.failure import Failure

NAME_BYTES_MAX = 768
"""With a prefix in front, still less than the 1,024 bytes that S3 and GCS allow."""
PART_BYTES_MAX = 200
"""A file system allows 255 at most."""
STAGING = ".holdfast-staging"
"""Where what is not finished yet lies; no artifact can be named so."""


def checked_name(name: str) -> str:
    """The name in its one form.

    Raises:
        Failure: ARTIFACT_NAME_INVALID, with the reason.
    """
    from unicodedata import normalize

    if not isinstance(name, str):
        raise _refused("not_text", name)
    # Before anything that takes time in its length.
    if len(name) > NAME_BYTES_MAX:
        raise _refused("too_long", name[:NAME_BYTES_MAX])
    name = normalize("NFC", name)
    _check(name, name)
    # Letters that only look different (a full-width dot or slash) must not make a path where they are folded.
    folded = normalize("NFKC", name)
    if folded != name:
        _check(folded, name)
        if folded.count("/") != name.count("/"):
            raise _refused("disguised", name)
    return name


def checked_prefix(prefix: str) -> str:
    """The name of a folder of artifacts; empty for all, and a closing `/` is allowed.

    Raises:
        Failure: ARTIFACT_NAME_INVALID, with the reason.
    """
    return checked_name(prefix.removesuffix("/")) if prefix else ""


def _check(text: str, name: str) -> None:
    if any(_forbidden(letter) for letter in text):
        raise _refused("character", name)
    if len(text.encode()) > NAME_BYTES_MAX:
        raise _refused("too_long", name)
    parts = text.split("/")
    for part in parts:
        reason = _wrong(part)
        if reason:
            raise _refused(reason, name)
    if parts[0].lower() == STAGING:
        raise _refused("reserved", name)


def _wrong(part: str) -> str:
    """What is wrong with one part; empty when nothing is."""
    if not part:
        return "empty_part"
    if not part.strip("."):
        return "dots"
    if part != part.strip():
        return "space"
    return "too_long" if len(part.encode()) > PART_BYTES_MAX else ""


def _forbidden(letter: str) -> bool:
    """Controls, invisible and unassigned letters, half surrogates, line and paragraph ends, and the backslash."""
    from unicodedata import category

    kind = category(letter)
    return letter == "\\" or kind[0] == "C" or kind in {"Zl", "Zp"}


def _refused(reason: str, name: object) -> Failure:
    return ARTIFACT_NAME_INVALID(reason=reason, name=Private(ascii(name)))
