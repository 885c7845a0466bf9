"""The registry for people: one Markdown page with a table of all codes and a section for each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from holdfast.analysis.export import Entry
from holdfast.catalog import Blame, Severity
from holdfast.http.wording import BLAME, SEVERITY, status_words

_SPECIAL = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_[]|#"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def to_markdown(recorded: Sequence[Entry]) -> str:
    """The page, the same for the same catalogs."""
    codes = {entry.code for entry in recorded}
    lines = ["# Error codes", "", f"{len(codes)} codes.", "", *_table(_anchored(recorded))]
    for entry in recorded:
        lines += ["", *_section(entry, codes)]
    return "\n".join(lines) + "\n"


def _anchored(recorded: Sequence[Entry]) -> Iterator[tuple[Entry, str]]:
    """Each entry with the anchor of its section; Markdown numbers headings that have the same text."""
    seen: dict[str, int] = {}
    for entry in recorded:
        times = seen[entry.code] = seen.get(entry.code, -1) + 1
        yield entry, entry.code.lower() + (f"-{times}" if times else "")


def _table(anchored: Iterable[tuple[Entry, str]]) -> Iterator[str]:
    yield "| code | status | retried | who has to act | what the person reads | in |"
    yield "|---|---|---|---|---|---|"
    for entry, anchor in sorted(anchored, key=lambda one: (one[0].code, one[0].catalogs)):
        catalogs = ", ".join(_text(name) for name in entry.catalogs)
        cells = (_link(entry.code, anchor), entry.status, _yes(entry), _blame(entry), _text(entry.says), catalogs)
        yield f"| {' | '.join(str(cell) for cell in cells)} |"


def _section(entry: Entry, codes: set[str]) -> Iterator[str]:
    yield f"## {entry.code}"
    yield ""
    yield f"> {_text(entry.says)}"
    yield ""
    if entry.says_retrying:
        yield f"- **While it is tried again**: {_text(entry.says_retrying)}"
    yield f"- **Status**: {status_words(entry.status)}"
    yield f"- **Retry**: {' '.join(_text(words) for words in entry.retry) or _yes(entry)}"
    yield f"- **Who has to act**: {_blame(entry)}"
    yield f"- **Alert**: {SEVERITY[Severity(entry.severity)]}"
    if entry.causes:
        yield f"- **Causes**: {'; '.join(_text(cause) for cause in entry.causes)}"
    if entry.remedy:
        yield f"- **Remedy**: {_text(entry.remedy)}"
    if entry.related:
        related = (_link(code, code.lower()) if code in codes else _text(code) for code in entry.related)
        yield f"- **Related**: {', '.join(related)}"
    yield f"- **In**: {', '.join(_text(name) for name in entry.catalogs)}"
    for example in entry.examples:
        # Backticks are written as JSON may write them, so that nothing inside can close the fence.
        text = json.dumps(example, indent=2, ensure_ascii=False).replace("`", "\\u0060")
        yield f"\n```json\n{text}\n```"


def _link(code: str, anchor: str) -> str:
    return f"[`{code}`](#{anchor})"


def _yes(entry: Entry) -> str:
    return ("on condition" if entry.conditional else "yes") if entry.retryable else "no"


def _blame(entry: Entry) -> str:
    return BLAME[Blame(entry.blame)]


def _text(words: str) -> str:
    """Words that mean themselves, on one line."""
    return " ".join(words.split()).translate(_SPECIAL)
