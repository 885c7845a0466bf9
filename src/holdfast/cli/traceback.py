"""A traceback as a terminal shows it: the calls of the service's own code first, the last one on top."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.base.formatting import clean, plural
from holdfast.base.tracebacks import Frame, Raised

OTHERS_MAX = 6
"""Maximum number of library calls that are named."""
_BEHIND = {"cause": "caused by ", "context": "raised while handling ", "group": "one of its exceptions: "}


def traceback_lines(chain: Sequence[Raised]) -> Iterator[str]:
    """The lines to print; none of them steers the terminal."""
    for one in chain:
        yield clean(f"{_BEHIND.get(one.link, '')}{one.type}: {one.message}".removesuffix(": "))
        own = [frame for frame in reversed(one.frames) if frame.own]
        others = [frame for frame in reversed(one.frames) if not frame.own]
        for frame in own or others:
            yield f"  {_place(frame)}"
            if frame.source:
                yield f"      {clean(frame.source)}"
        if own and others:
            yield f"  and {plural(len(others), 'call')} of libraries:"
            yield from (f"    {_place(frame)}" for frame in others[:OTHERS_MAX])
        if one.left_out:
            yield f"  {plural(one.left_out, 'call')} left out"


def _place(frame: Frame) -> str:
    return clean(f"{frame.file}:{frame.line} in {frame.function}")
