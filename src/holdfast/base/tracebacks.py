"""The traceback of an exception as a value: bounded, redacted, and with the user's own code marked.

It is stored with the attempt that raised it and shown on pages, by commands and in logs. Reading one opens source
files, so only failures pay for it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import dropwhile
from types import CodeType, FrameType, TracebackType

from holdfast.base.bus import bus
from holdfast.base.codec import encode
from holdfast.base.redaction import one_line, redacted_text
from holdfast.base.world import limits

MESSAGE_CHARS_MAX = 1_000
SOURCE_CHARS_MAX = 160
NAME_CHARS_MAX = 200
NOTES_MAX = 3
FIRST_FRAMES = 3
"""Of a long traceback the first frames are kept beside the last ones: they say who began it."""
GROUPED_MAX = 3
_LINKS = {
    "cause": "The above exception was the direct cause of the following exception:",
    "context": "During handling of the above exception, another exception occurred:",
    "group": "One of the exceptions of the following group:",
}


Call = tuple[CodeType, int, str]
"""The code, the line in it, and the module it belongs to."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One call: where it stands in the code, and whether that is the user's own."""

    file: str
    line: int
    function: str
    source: str
    own: bool


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception with the calls that led to it, the last one last."""

    type: str
    message: str
    frames: tuple[Frame, ...]
    left_out: int = 0
    """How many frames between the first and the last are not kept."""
    link: str = ""
    """How it belongs to the one before it in the list: its `cause`, its `context`, or a member of its `group`."""

    def document(self) -> dict[str, object]:
        """As JSON says it."""
        return {
            "type": self.type,
            "message": self.message,
            "frames": [
                {"file": one.file, "line": one.line, "function": one.function, "source": one.source, "own": one.own}
                for one in self.frames
            ],
            "left_out": self.left_out,
            "link": self.link,
        }


@dataclass(frozen=True, slots=True)
class Traceback:
    """An exception and those behind it: the one that was raised last is the first."""

    chain: tuple[Raised, ...]
    place: str = ""
    """The innermost call of the user's own code, as `module:function`."""
    source: str = ""
    """The line that stands there."""

    def stored(self) -> str:
        """As the journal keeps it: JSON text of at most `limits().traceback_bytes_max` bytes."""
        kept = list(self.chain)
        while len(text := encode([one.document() for one in kept])) * 4 > limits().traceback_bytes_max:
            if len(text.encode()) <= limits().traceback_bytes_max:
                break
            if not _shortened(kept):
                return "[]"
        return text

    def __str__(self) -> str:
        return traceback_text(self.chain)


def read_traceback(error: BaseException, *, home: str = "") -> Traceback:
    """The traceback of an exception that was caught.

    Args:
        home: the package of the user's own code, for where it is installed among the libraries.
    """
    chain, own = [], None
    for one, link in _linked(error):
        calls = list(_calls(one.__traceback__))
        own = own or _innermost(calls, home)
        chain.append(Raised(_type(one), _message(one), *_frames(calls, home), link))
    return _placed(chain, own)


def read_stack(frame: FrameType, what: str, *, home: str = "") -> Traceback:
    """Where a thread is at this moment, told as if `what` had been raised there."""
    calls: list[Call] = []
    at: FrameType | None = frame
    while at is not None:
        calls.append((at.f_code, at.f_lineno or 0, str(at.f_globals.get("__name__", ""))))
        at = at.f_back
    calls.reverse()
    first = next((number for number, call in enumerate(calls) if _room(call[0].co_filename) == "holdfast"), 0)
    return _placed([Raised(what, "", *_frames(calls[first:], home))], _innermost(calls, home))


def _frames(calls: list[Call], home: str) -> tuple[tuple[Frame, ...], int]:
    """The calls that are kept, and how many are left out."""
    if _innermost(calls, home):
        # Who called it says nothing: every handler is called so.
        calls = list(dropwhile(lambda call: _room(call[0].co_filename) == "holdfast", calls))
    first, last = calls[:FIRST_FRAMES], calls[FIRST_FRAMES:]
    kept = [*first, *last[max(0, len(last) - limits().traceback_frames_max + FIRST_FRAMES) :]]
    return tuple(_frame(code, line, module, home) for code, line, module in kept), len(calls) - len(kept)


def _placed(chain: Sequence[Raised], own: Call | None) -> Traceback:
    if own is None:
        return Traceback(tuple(chain))
    code, line, module = own
    return Traceback(tuple(chain), f"{module}:{_function(code.co_qualname)}", _source(code.co_filename, line))


def passes_own_code(error: BaseException, *, home: str = "") -> bool:
    """Whether the user's own code stands anywhere between the exception and who caught it; opens no file."""
    return any(_innermost(list(_calls(one.__traceback__)), home) for one, _ in _linked(error))


def stored_traceback(text: str | None) -> tuple[Raised, ...]:
    """What `Traceback.stored` made; nothing where there is none, or where it cannot be read."""
    import json

    if not text:
        return ()
    try:
        return tuple(
            Raised(**{**one, "frames": tuple(Frame(**frame) for frame in one["frames"])}) for one in json.loads(text)
        )
    except (ValueError, TypeError, KeyError):
        return ()


def traceback_text(chain: Sequence[Raised]) -> str:
    """As Python prints it, the most recent call last; no text in it begins a line of its own."""
    lines: list[str] = []
    for number, one in reversed(list(enumerate(chain))):
        if one.frames:
            lines.append("Traceback (most recent call last):")
        for position, frame in enumerate(one.frames):
            if one.left_out and position == FIRST_FRAMES:
                lines.append(f"  … {one.left_out} calls left out …")
            lines.append(f'  File "{one_line(frame.file)}", line {frame.line}, in {one_line(frame.function)}')
            if frame.source:
                lines.append(f"    {one_line(frame.source)}")
        lines.append(f"{one_line(one.type)}: {one_line(one.message)}" if one.message else one_line(one.type))
        if number and one.link:
            lines += ["", _LINKS.get(one.link, ""), ""]
    return "\n".join(lines)


def log_exception(area: str, text: str, error: BaseException) -> None:
    """One error line with its traceback: in the standard `logging`, or where `log_events` writes lines, there."""
    try:
        traceback = read_traceback(error)
    except Exception:  # noqa: BLE001 - whatever an exception is made of, that it was raised is told
        traceback = Traceback((Raised(type(error).__name__, "its traceback cannot be read", ()),))
    if bus.writers:
        bus.tell("exception.caught", area=area, technical=text, place=traceback.place, traceback=traceback.stored())
        return
    import logging  # loaded when first needed: most programs that come here have loaded it

    logging.getLogger(area).error("%s\n%s", one_line(redacted_text(text)), traceback)


def _calls(traceback: TracebackType | None) -> Iterator[Call]:
    while traceback is not None:
        frame = traceback.tb_frame
        yield frame.f_code, traceback.tb_lineno, str(frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next


def _linked(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """The exception and those behind it, each once."""
    waiting: deque[tuple[BaseException, str]] = deque([(error, "")])
    seen: set[int] = set()
    while waiting and len(seen) < limits().cause_depth_max:
        one, link = waiting.popleft()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one, link
        if one.__cause__ is not None:
            waiting.append((one.__cause__, "cause"))
        elif one.__context__ is not None and not one.__suppress_context__:
            waiting.append((one.__context__, "context"))
        if isinstance(one, BaseExceptionGroup):
            waiting.extend((member, "group") for member in one.exceptions[:GROUPED_MAX])


def _innermost(calls: Sequence[Call], home: str) -> Call | None:
    """The last call of the user's own code."""
    return next((call for call in reversed(calls) if _is_own(call[0].co_filename, call[2], home)), None)


def _frame(code: CodeType, line: int, module: str, home: str) -> Frame:
    return Frame(
        _shown_file(code.co_filename),
        line,
        _function(code.co_qualname),
        _source(code.co_filename, line),
        _is_own(code.co_filename, module, home),
    )


def _is_own(file: str, module: str, home: str = "") -> bool:
    """Whether a file is the user's own code: neither Python's, nor a library's, nor Holdfast's."""
    room = _room(file)
    return room == "own" or (room == "library" and bool(home) and module.partition(".")[0] == home)


@lru_cache(maxsize=1_024)
def _room(file: str) -> str:
    if file.startswith("<frozen"):
        return "python"
    if file.startswith("<"):
        return "own"  # a console, or code that was made as the program ran
    path = os.path.abspath(file)
    holdfast, *python = _rooms()
    if path.startswith(holdfast):
        return "holdfast"
    if any(f"{os.sep}{name}{os.sep}" in path for name in ("site-packages", "dist-packages")):
        return "library"
    return "python" if path.startswith(tuple(python)) else "own"


@lru_cache(maxsize=1_024)
def _shown_file(file: str) -> str:
    """The file without the folders that say nothing, and without the name of anyone's home."""
    path = os.path.abspath(file) if not file.startswith("<") else file
    for name in ("site-packages", "dist-packages"):
        _, found, rest = path.rpartition(f"{os.sep}{name}{os.sep}")
        if found:
            return _kept(rest, NAME_CHARS_MAX)
    for folder in (os.getcwd() + os.sep, *_rooms()):
        if path.startswith(folder):
            below = os.path.basename(folder.rstrip(os.sep)) if folder in _rooms() else ""
            return _kept(os.path.join(below, path.removeprefix(folder)), NAME_CHARS_MAX)
    return _kept(path, NAME_CHARS_MAX)


@lru_cache(maxsize=1_024)
def _function(name: str) -> str:
    return _kept(name, NAME_CHARS_MAX)


@cache
def _rooms() -> tuple[str, ...]:
    """The folders of Holdfast and of Python itself."""
    import sysconfig

    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = sysconfig.get_paths()
    return tuple(f"{folder}{os.sep}" for folder in (here, paths["stdlib"], paths["platstdlib"]))


@lru_cache(maxsize=4_096)
def _source(file: str, line: int) -> str:
    import linecache

    try:
        return _kept(linecache.getline(file, line).strip(), SOURCE_CHARS_MAX)
    except Exception:  # noqa: BLE001 - a traceback must not fail because of what it reports
        return ""


def _type(error: BaseException) -> str:
    kind = type(error)
    module = "" if kind.__module__ in {"builtins", "__main__"} else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"[:NAME_CHARS_MAX]


def _message(error: BaseException) -> str:
    try:
        notes = [str(note) for note in getattr(error, "__notes__", ())[:NOTES_MAX]]
        text = "\n".join([str(error), *notes])
    except Exception:  # noqa: BLE001 - as above
        return "<its text cannot be read>"
    return _kept(text, MESSAGE_CHARS_MAX)


def _kept(text: str, chars_max: int) -> str:
    """The text as any database takes it and anyone may read it."""
    kept = redacted_text(text, chars_max)
    return kept if kept.isascii() else kept.encode("utf-8", "replace").decode()


def _shortened(chain: list[Raised]) -> bool:
    """Leave out one call of the longest traceback, or the last exception; False when nothing is left to leave out."""
    longest = max(range(len(chain)), key=lambda number: len(chain[number].frames), default=0)
    if chain and len(chain[longest].frames) > FIRST_FRAMES + 1:
        one = chain[longest]
        frames = (*one.frames[:FIRST_FRAMES], *one.frames[FIRST_FRAMES + 1 :])
        chain[longest] = replace(one, frames=frames, left_out=one.left_out + 1)
    elif chain:
        chain.pop()
    return bool(chain)
