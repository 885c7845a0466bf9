"""How long things are kept: the setting that `serve`, `worker` and `prune` share."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.base.formatting import read_span
from holdfast.cli.output import refuse
from holdfast.worker.retention import Retention, other_names

FOREVER = "forever"

Keep = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="WHAT=SPAN",
        envvar="HOLDFAST_KEEP",
        help="How long to keep: finished=7d, failed=forever, journal=30d, webhook-events=7d and audit=365d are the "
        "defaults; may be given again.",
        show_default=False,
    ),
]


def retention_of(words: list[str]) -> Retention:
    """The retention that these words ask for; what they do not name is kept as long as usual.

    Raises:
        typer.Exit: a word cannot be used; what is wrong was said.
    """
    import holdfast.delivery.pruning
    import holdfast.operate.retention  # noqa: F401 - both say that they have something to prune

    others = {name.replace(" ", "-"): name for name in other_names()}
    own: dict[str, float | None] = {}
    theirs: dict[str, float | None] = {}
    for word in words:
        what, equals, text = word.partition("=")
        seconds = _seconds(word, text) if equals else None
        if what in others and equals:
            theirs[others[what]] = seconds
        elif what in ("finished", "failed", "journal") and equals:
            own[f"{what}_s"] = seconds
        else:
            known = ", ".join(["finished", "failed", "journal", *others])
            raise refuse(f"--keep {word}: write WHAT=SPAN, such as finished=7d; what can be kept is {known}")
    return Retention(**own, others_s=theirs)  # type: ignore[arg-type]


def keep_words(words: list[str]) -> list[str]:
    """What tells a child process to keep the same."""
    return [part for word in words for part in ("--keep", word)]


def _seconds(word: str, text: str) -> float | None:
    if text == FOREVER:
        return None
    try:
        return read_span(text)
    except ValueError as invalid:
        raise refuse(f"--keep {word}: {invalid}; or {FOREVER}") from None
