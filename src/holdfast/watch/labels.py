"""Labels as they are stored: canonical JSON text, each set written and read once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from holdfast.base import canonical

Labels = Mapping[str, str]

REMEMBERED = 8_192


def label_text(labels: Labels) -> str:
    """The text of a set of labels; the same set has the same text."""
    return canonical(dict(labels))


@lru_cache(REMEMBERED)
def read_labels(text: str) -> Labels:
    """The labels of a text that we wrote; not to be changed."""
    return json.loads(text)  # type: ignore[no-any-return]  # only `label_text` writes these


def fits(labels: Labels, where: Labels) -> bool:
    """Whether every label that is asked for has the value that is asked for."""
    return all(labels.get(name) == value for name, value in where.items())
