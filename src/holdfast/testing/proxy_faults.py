"""What the fault proxy can do to a connection."""

from __future__ import annotations

from dataclasses import dataclass

COMMIT = r"""\A(?:(?:[^'";]|'[^']*'|"[^"]*")*;)*\s*(?:commit|end)\b"""
"""Matches SQL of which a statement, not a word inside one, commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFaults:
    """What goes wrong; nothing by default.

    The two patterns are regular expressions without regard to case. They are matched with the SQL that a PostgreSQL
    client runs (prepared or not), and with the bare bytes of any other client.
    """

    delay_s: float = 0.0
    """Time for which everything that the client sends is held back."""
    refuse: bool = False
    """Nobody listens: new connections are refused, open ones go on."""
    reset: bool = False
    """Open connections are reset now, new ones as soon as they are made."""
    half_open: bool = False
    """Connections are accepted and stay open, but not a byte is forwarded in either direction."""
    cut_after_bytes: int | None = None
    """Number of bytes of replies after which a connection is closed, counted from when this was set."""
    lose_request: str = ""
    """A matching request never reaches the server; the connection is closed."""
    lose_reply: str = ""
    """A matching request is carried out by the server; then the connection is closed without a byte of the reply."""
    times: int | None = None
    """Number of cuts and losses after which all is well again; None is for ever."""
