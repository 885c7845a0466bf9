"""What an upstream said about its own failure: for the log and the operator, never for the person.

Kept beside our own words, so that an upstream's status, code and sentence are known without becoming ours.
"""

from __future__ import annotations

from typing import NamedTuple


class Remote(NamedTuple):
    """The upstream's own account of a failure."""

    status: int | None = None
    """The HTTP status that it answered with."""
    code: str = ""
    """The code in its error body; empty when there was none."""
    message: str = ""
    """Its sentence, without what looks like a secret."""

    def __str__(self) -> str:
        """One line for the log."""
        named = " ".join(str(part) for part in (self.status, self.code) if part)
        return f"{named}: {self.message}" if self.message and named else named or self.message
