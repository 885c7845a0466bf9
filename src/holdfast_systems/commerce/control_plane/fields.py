"""The shapes of ids and names in requests."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
CREDITS_MAX = 1_000_000_000
QUANTITY_MAX = 10_000
PAGE_ROWS = 50
PAGE_ROWS_MAX = 200

Identifier = Annotated[str, Field(min_length=1, max_length=200, pattern=PRINTABLE)]
"""An id that somebody else gives, such as the shop."""
Name = Annotated[str, Field(pattern=NAME)]
NamePath = Annotated[str, Path(pattern=NAME)]
IdPath = Annotated[str, Path(max_length=200, pattern=PRINTABLE)]
Title = Annotated[str, Field(min_length=1, max_length=200, pattern=PRINTABLE)]
Credits = Annotated[int, Field(ge=1, le=CREDITS_MAX, strict=True)]
Limit = Annotated[int, Query(ge=1, le=PAGE_ROWS_MAX)]
Cursor = Annotated[str | None, Query(max_length=200)]
