"""What a run costs: one credit for the run, and one for each started hundred words of its output. Pure."""

from __future__ import annotations

WORDS_PER_CREDIT = 100


def credits_of(output: str) -> int:
    """The credits that a run with this output uses."""
    return 1 + -(-len(output.split()) // WORDS_PER_CREDIT)
