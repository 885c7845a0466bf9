"""Fill the generated parts of the documentation: diagrams and tables of defaults, read from the code.

`python docs/generate.py` rewrites every part between `<!-- generated: NAME -->` and `<!-- end -->`; with `--check` it
writes nothing and ends with code 1 when a page is stale.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from holdfast.analysis import breaker_states, decision_order, schedule
from holdfast.catalog import CORE
from holdfast.cli.command import every_command
from holdfast.cli.exit_codes import ExitCode
from holdfast.guard import Link, LinkEvent, LinkVerb
from holdfast.lifecycle import JOB, Stop, mermaid
from holdfast.policy import Backoff, Breaker, Budget, Concurrency, Decorrelated, RateLimit, Retry, Spread
from holdfast.worker import NewJob, QueueSettings

FOLDER = Path(__file__).parent
ARGUMENT = re.compile(r"^ {4}(\w+): (.*)$", re.MULTILINE)
PART = re.compile(r"(?P<head><!-- generated: (?P<name>[\w-]+) -->\n).*?(?P<foot><!-- end -->)", re.DOTALL)


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def defaults(kind: type) -> str:
    """The fields of a policy that can be given, with their defaults and what they mean."""
    said = dict(_field_docstrings(kind))
    rows = []
    for field in fields(kind):
        if not field.init:
            continue
        rows.append((f"`{field.name}`", _default(field), said[field.name]))
    return table(("field", "default", "meaning"), rows)


def parameters(kind: type) -> str:
    """The same for what a class is made with, from the docstring of its constructor."""
    said = dict(ARGUMENT.findall(inspect.getdoc(kind.__init__) or ""))
    rows = []
    for name, parameter in inspect.signature(kind).parameters.items():
        default = "required" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        rows.append((f"`{name}`", default, said[name][0].upper() + said[name][1:]))
    return table(("argument", "default", "meaning"), rows)


def meanings(kind: Any, head: str) -> str:
    """The members of an enumeration, with the string that stands below each."""
    said = dict(_field_docstrings(kind))
    return table((head, "meaning"), [(f"`{member.value}`", said[member.name]) for member in kind])


def faults() -> str:
    rows = [
        (f"`{fault.code}`", str(fault.status), "yes" if fault.retryable else "no", fault.blame.value, fault.says)
        for fault in CORE
    ]
    return table(("code", "status", "retried", "who has to act", "what the person reads"), rows)


def exit_codes() -> str:
    said = dict(_field_docstrings(ExitCode))
    return table(("code", "meaning"), [(str(member.value), said[member.name]) for member in ExitCode])


def commands() -> str:
    """Every command with its first sentence and its examples."""
    lines = []
    for name, command, examples in sorted(every_command()):
        sentence = " ".join((inspect.getdoc(command) or "").partition("\n\n")[0].split())
        shown = "\n".join(f"$ {words}    # {what}" for words, what in examples)
        lines.append(f"### `holdfast {name}`\n\n{sentence}\n\n{fenced('console', shown)}")
    return "\n\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    "exit-codes": exit_codes,
    "commands": commands,
    "job-states": lambda: fenced("mermaid", mermaid(JOB)),
    "defaults-new-job": lambda: defaults(NewJob),
    "defaults-queue": lambda: defaults(QueueSettings),
    "breaker-states": lambda: fenced("mermaid", breaker_states()),
    "decision-order": lambda: fenced("mermaid", decision_order()),
    "schedule-exponential": lambda: fenced("text", schedule(Backoff.exponential(1), 6)),
    "schedule-spread": lambda: fenced("text", schedule(Backoff.listed(5, 15, 45, jitter=Spread(0.2)), 4)),
    "schedule-decorrelated": lambda: fenced(
        "text", schedule(Backoff.exponential(1, cap_s=32, jitter=Decorrelated()), 5)
    ),
    "schedule-default": lambda: fenced("text", schedule(Retry().backoff, Retry().attempts)),
    "defaults-backoff": lambda: defaults(Backoff),
    "defaults-retry": lambda: defaults(Retry),
    "defaults-breaker": lambda: defaults(Breaker),
    "defaults-budget": lambda: defaults(Budget),
    "defaults-rate-limit": lambda: defaults(RateLimit),
    "defaults-concurrency": lambda: defaults(Concurrency),
    "defaults-link": lambda: parameters(Link),
    "link-event": lambda: defaults(LinkEvent),
    "link-verbs": lambda: meanings(LinkVerb, "event"),
    "stop-reasons": lambda: meanings(Stop, "reason"),
    "core-faults": faults,
}


def filled(text: str) -> str:
    """The page with every generated part made anew.

    Raises:
        KeyError: a marker names a part that nobody makes.
    """
    return PART.sub(lambda found: f"{found['head']}{PARTS[found['name']]()}\n{found['foot']}", text)


def main(arguments: list[str]) -> int:
    stale = []
    for page in sorted(FOLDER.rglob("*.md")):
        text = page.read_text()
        fresh = filled(text)
        if fresh != text:
            stale.append(page)
            if "--check" not in arguments:
                page.write_text(fresh)
    for page in stale:
        word = "stale" if "--check" in arguments else "written"
        sys.stdout.write(f"{word}: {page.relative_to(FOLDER.parent)}\n")
    return 1 if stale and "--check" in arguments else 0


def _field_docstrings(kind: type) -> Iterator[tuple[str, str]]:
    """The string that stands below each field or member in the source of the class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    for declared, below in zip(body.body, body.body[1:], strict=False):
        name = _declared_name(declared)
        if name and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield name, " ".join(str(below.value.value).split())


def _declared_name(statement: ast.stmt) -> str | None:
    """The name of a field, or of a member of an enumeration."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return None


def _default(field: Any) -> str:
    if field.default_factory is not MISSING:
        return _shown(field.default_factory())
    return "required" if field.default is MISSING else _shown(field.default)


def _shown(value: object) -> str:
    if isinstance(value, Backoff):
        jitter = type(value.jitter).__name__.lower() if value.jitter else "no"
        return f"{value.base_s:g} s × {value.factor:g}, at most {value.cap_s:g} s, {jitter} jitter"
    return f"`{value!r}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
