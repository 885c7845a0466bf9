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
from holdfast.guard import Link, LinkEvent, LinkVerb
from holdfast.lifecycle import JOB, Stop, mermaid
from holdfast.policy import Backoff, Breaker, Budget, Concurrency, Decorrelated, RateLimit, Retry, Spread
from holdfast.worker import NewJob, QueueSettings

FOLDER = Path(__file__).parent
PART = re.compile(r"(?P<head><!-- generated: (?P<name>[\w-]+) -->\n).*?(?P<foot><!-- end -->)", re.DOTALL)

# What the code says about a field in the docstring of its class, or nowhere near it.
MEANINGS = {
    "Backoff.base_s": "The delay after the first attempt.",
    "Backoff.factor": "Each delay is so many times the one before; 1 keeps it the same.",
    "Backoff.cap_s": "No delay is longer, jitter included.",
    "Backoff.jitter": "How chance spreads the delay; None does not.",
    "Backoff.delays_s": "Exactly these delays instead of the curve; the last one serves for all that follow.",
    "Retry.backoff": "How long to wait between two attempts.",
    "RateLimit.count": "So many are let through in `per_s`, in the long run.",
    "RateLimit.per_s": "The length of the period in seconds.",
    "RateLimit.burst": "So many may come at one moment; as many as `count` when not given.",
    "Concurrency.count": "So many may run at once.",
    "Concurrency.retry_after_s": "What a caller without a place is told to wait.",
    "Link.name": "Who calls whom; it stands in events, notes and refusals.",
    "Link.retry": "The rule of the whole call; None leaves it to the rule of each fault.",
    "Link.timeout_s": "How long one attempt may take.",
    "Link.total_s": "How long all attempts and the waits between them may take.",
    "Link.breaker": "When to stop calling.",
    "Link.rate": "How many attempts in a time.",
    "Link.concurrency": "How many attempts at once.",
    "Link.budget": "How many retries the traffic pays for.",
    "Link.classifier": "What an exception means here; None knows what Holdfast knows.",
    "Link.writes": "The calls change something; they are retried only under a key.",
    "LinkEvent.verb": "What happened, one of the verbs above.",
    "LinkEvent.link": "The name of the link.",
    "LinkEvent.attempt": "The number of the attempt, from 1; 0 when none was made.",
    "LinkEvent.failure": "What went wrong, classified.",
    "LinkEvent.delay_s": "How long the link waits before the next attempt.",
    "LinkEvent.reason": "Why there is no further attempt.",
}
VERBS = {
    LinkVerb.SUCCEEDED: "An attempt worked; `attempt` tells which.",
    LinkVerb.RETRIED: "An attempt failed and another follows after `delay_s`.",
    LinkVerb.GAVE_UP: "An attempt failed and no other follows, for `reason`; or the next one was refused.",
    LinkVerb.REJECTED: "No attempt was made, for `reason`; `failure` tells how long to wait.",
}
STOPS = {
    Stop.NOT_RETRYABLE: "The fault is declared never to be retried.",
    Stop.CONDITION_UNMET: "`Retry.when` refused this occurrence.",
    Stop.ATTEMPTS_USED: "All attempts of the rule are used.",
    Stop.CODE_ATTEMPTS_USED: "All attempts that may fail with this code are used.",
    Stop.TIME_USED: "The next attempt would start after `Retry.within_s`.",
    Stop.DEADLINE_TOO_NEAR: "The wait is longer than what the deadline leaves.",
    Stop.WRITE_WITHOUT_KEY: "The link writes and the call has no key.",
    Stop.UNKNOWN_FAILURE: "Nobody classified the exception: a write, or seen `attempts_unknown` times.",
    Stop.BUDGET_SPENT: "The retry budget has nothing left.",
    Stop.BREAKER_OPEN: "The breaker is open.",
    Stop.LIMIT_REACHED: "A rate or concurrency limit has no place.",
    Stop.RETRIED_INSIDE: "A link inside has retried this already.",
}


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
        meaning = said.get(field.name) or MEANINGS[f"{kind.__name__}.{field.name}"]
        rows.append((f"`{field.name}`", _default(field), meaning))
    return table(("field", "default", "meaning"), rows)


def parameters(kind: type) -> str:
    """The same for what a class is made with."""
    rows = []
    for name, parameter in inspect.signature(kind).parameters.items():
        default = "required" if parameter.default is parameter.empty else f"`{parameter.default!r}`"
        rows.append((f"`{name}`", default, MEANINGS[f"{kind.__name__}.{name}"]))
    return table(("argument", "default", "meaning"), rows)


def meanings(said: dict[Any, str], kind: Any, head: str) -> str:
    return table((head, "meaning"), [(f"`{member.value}`", said[member]) for member in kind])


def faults() -> str:
    rows = [
        (f"`{fault.code}`", str(fault.status), "yes" if fault.retryable else "no", fault.blame.value, fault.says)
        for fault in CORE
    ]
    return table(("code", "status", "retried", "who has to act", "what the person reads"), rows)


PARTS: dict[str, Callable[[], str]] = {
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
    "link-verbs": lambda: meanings(VERBS, LinkVerb, "event"),
    "stop-reasons": lambda: meanings(STOPS, Stop, "reason"),
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
    """The string that stands below each field in the source of the class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    for declared, below in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(declared, ast.AnnAssign)
            and isinstance(declared.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            yield declared.target.id, " ".join(str(below.value.value).split())


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
