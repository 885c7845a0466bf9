"""Before work on many dead letters begins: what will happen, in words, and the button that begins it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.base import redacted_text
from holdfast.base.formatting import age, count, plural
from holdfast.console.filters import filter_of
from holdfast.console.page import Desk, Page
from holdfast.console.parts import Column, act, code_link, facts, field, hidden, link, moment, notice, panel, table
from holdfast.console.visit import Visit
from holdfast.http.markup import Markup, element, joined
from holdfast.operate.bulk import Verb
from holdfast.operate.dead_groups import COUNT_MAX, Group, Summary, count_blocked, summary_of
from holdfast.store import Tx
from holdfast.worker import DeadFilter
from holdfast.worker.queues import Queues, QueueStatus

FILTERS = ("fingerprint", "code", "remote_code", "queue", "kind", "tenant", "endpoint", "text", "since", "until")
QUEUES_NAMED_MAX = 8
MESSAGE_CHARS_MAX = 300
COLUMNS = (Column("letters", "number"), Column("code"), Column("message", "wide"), Column("kind", "self"))
CALLED = {
    "fingerprint": "group",
    "remote_code": "upstream's code",
    "text": "text",
    "since": "failed since",
    "until": "failed before",
}
"""What a part of the filter is called where its own name says little."""


def ask(desk: Desk, visit: Visit, verb: Verb) -> Page:
    """Say what it would do to how many, and ask.

    Raises:
        Failure: BAD_REQUEST names the field of the filter that cannot be read.
    """

    def read(tx: Tx) -> tuple[int, DeadFilter, Summary, int]:
        now_us = tx.now_us()
        wanted = filter_of(visit, now_us).dead()
        blocked = count_blocked(tx, wanted) if verb is Verb.REVIVE else 0
        return now_us, wanted, summary_of(tx, wanted), blocked

    now_us, wanted, found, blocked = desk.store.atomic(read, write=False)
    title = f"{verb.capitalize()} dead letters"
    back = element("p", link(visit.to("dead", **_asked(visit)), "Back to the dead letters"))
    if not found.count:
        return Page(title, [element("h1", title), notice("No dead letter matches."), back], "dead")
    many = f"{count(found.count)}{'+' if found.more else ''} dead letter{'' if _is_one(found) else 's'}"
    form = act(
        visit,
        visit.to("dead", verb),
        f"{verb.capitalize()} {many}",
        *(hidden(name, visit.get(name)) for name in FILTERS),
        field("Why (it stands in their history)", "reason", maxlength="500"),
        tone="danger" if verb is Verb.DISCARD else "",
    )
    asked = panel(
        f"{verb.capitalize()} {many}?",
        element("p", _does(found, many, verb)),
        element("p", _when(found, now_us)),
        _died_of(visit, found),
        *_held(desk, found, verb),
        *([notice(f"Of these, {_left(blocked)}")] if blocked else []),
        facts([("Filter", filter_words(wanted))]),
        form,
    )
    return Page(title, [element("h1", title), asked, back], "dead")


def filter_words(wanted: DeadFilter) -> str:
    """A filter as a person says it: `code NETWORK_TIMEOUT, queue mail`; all letters without one."""
    said = [f"{CALLED.get(name, name)} {value}" for name, value in wanted.document().items()]
    return redacted_text(", ".join(said), MESSAGE_CHARS_MAX) or "none: all dead letters"


def _asked(visit: Visit) -> dict[str, str]:
    return {name: value for name in FILTERS if name != "fingerprint" and (value := visit.get(name)) is not None}


def _is_one(found: Summary) -> bool:
    return found.count == 1 and not found.more


def _does(found: Summary, many: str, verb: Verb) -> Markup:
    """What happens to them, with their number and their queues."""
    where = _queues(found)
    if verb is Verb.REVIVE:
        goes, starts = ("goes", "its") if _is_one(found) else ("go", "their")
        return joined(f"{many} {goes} back to ", where, f", and all {starts} attempts start anew.")
    are, their = ("is", "Its") if _is_one(found) else ("are", "Their")
    after = f"This cannot be undone. {their} history stays for as long as the journal is kept."
    return joined(f"{many} of ", where, f" {are} deleted. {after}")


def _queues(found: Summary) -> Markup:
    named = list(found.queues.items())[:QUEUES_NAMED_MAX]
    alone = len(found.queues) == 1
    said = [joined(element("strong", name), "" if alone else f" ({count(number)})") for name, number in named]
    others = len(found.queues) - len(named)
    return joined("the queue " if alone else "the queues ", *_listed(said, others))


def _listed(said: Sequence[Markup], others: int) -> list[str]:
    every: list[str] = [*said, *([plural(others, "other")] if others else [])]
    parts: list[str] = []
    for place, one in enumerate(every):
        separator = "" if not place else " and " if place == len(every) - 1 else ", "
        parts += [separator, one]
    return parts


def _when(found: Summary, now_us: int) -> Markup:
    oldest, newest = found.oldest_us, found.newest_us
    assert oldest is not None
    assert newest is not None, "there is at least one"
    if _is_one(found) or oldest == newest:
        return joined("It failed " if _is_one(found) else "They failed ", *_moment(newest, now_us), ".")
    counted = " of those counted" if found.more else ""
    return joined(
        f"The oldest{counted} failed ", *_moment(oldest, now_us), ", the newest ", *_moment(newest, now_us), "."
    )


def _moment(at_us: int, now_us: int) -> list[Markup | str]:
    return [age(at_us, now_us), " (", moment(at_us, now_us), ")"]


def _died_of(visit: Visit, found: Summary) -> Markup:
    """The codes and messages, the largest groups first."""
    rows = [_row(visit, group) for group in found.groups]
    shown = table(COLUMNS, rows, caption="What they died of", empty="")
    others = found.group_count - len(rows)
    return joined(shown, *([element("p", f"And {plural(others, 'smaller group')}.", class_="note")] if others else []))


def _row(visit: Visit, group: Group) -> list[str]:
    message = redacted_text(group.message or group.technical, MESSAGE_CHARS_MAX)
    return [count(group.count), code_link(visit, group.code), message, group.kind]


def _held(desk: Desk, found: Summary, verb: Verb) -> list[Markup]:
    """What keeps revived letters from being worked on, said before somebody wonders."""
    if verb is not Verb.REVIVE:
        return []
    stopped = [one for one in Queues(desk.store).status() if one.name in found.queues and one.state != "running"]
    return [notice(_why(one)) for one in stopped[:QUEUES_NAMED_MAX]]


def _why(one: QueueStatus) -> str:
    why = redacted_text(one.why or "", MESSAGE_CHARS_MAX)
    match one.state:
        case "paused":
            return f"The queue {one.name} is paused: {why}. They wait there until it is resumed."
        case "no worker":
            return f"No worker serves the queue {one.name}. They wait there until one does."
        case "holding":
            return f"A breaker holds the queue {one.name}: {why}. They wait there until it closes."
        case _:
            return f"The breaker of the queue {one.name} is open: {why}. They fail again at once."


def _left(many: int) -> str:
    return f"{count(many, most=COUNT_MAX)} will be left as they are: their endpoint is disabled or removed."
