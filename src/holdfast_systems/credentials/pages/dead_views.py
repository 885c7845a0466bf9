"""The platform's pages of dead letters: by cause, one by one, and the question before something is done about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.base import utc_text
from holdfast.http.markup import Markup, element, joined
from holdfast.operate.bulk import Verb
from holdfast_systems.credentials.pages.layout import (
    Frame,
    facts,
    fault,
    lead,
    moment,
    notice,
    pager,
    section,
    table,
    whole,
)
from holdfast_systems.credentials.pages.platform_views import endpoint_name, event_link, why
from holdfast_systems.credentials.platform import DeadLetter
from holdfast_systems.credentials.platform_lists import DeadGroup

PATH = "dead-letters"
WORDS = {
    Verb.REVIVE: ("reprocess", "Deliver {letters} again", "They go to their endpoints once more, the oldest first."),
    Verb.DISCARD: (
        "discard",
        "Discard {letters}",
        "They are deleted for good. What happened to them stays in the journal.",
    ),
}
"""For each verb: its address, the question and the words of its button, and what will happen."""
REASON_CHARS_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which dead letters are meant; nothing chosen is all of them."""

    event_id: str | None = None
    endpoint_id: str | None = None
    error_code: str | None = None
    """Only for a list: what is done is done to an event, an endpoint, or all."""

    def query(self) -> dict[str, str | None]:
        return {"event_id": self.event_id, "endpoint_id": self.endpoint_id, "error_code": self.error_code}

    def subject(self) -> dict[str, str | None]:
        return {"event_id": self.event_id, "endpoint_id": self.endpoint_id}


def dead_letters(
    frame: Frame,
    *,
    groups: Sequence[DeadGroup],
    letters: Sequence[DeadLetter],
    following: str | None,
    urls: Mapping[str, str],
    chosen: Chosen,
    done: str,
) -> str:
    """Dead letters by cause, and one by one."""
    total = sum(one.letters for one in groups)
    narrowed = any(chosen.query().values())
    return whole(
        "Dead letters",
        frame,
        element("h1", "Dead letters"),
        notice(done, "good") if done else "",
        lead(_summary(total, chosen), element("a", "show all", href=frame.to(PATH)) if narrowed else ""),
        _acts(frame, chosen) if total else "",
        section("By cause", _groups(frame, groups, urls)),
        section("Oldest first", _letters(frame, letters, urls)),
        pager(frame, PATH, following, "after", **chosen.query()),
    )


def confirm(
    frame: Frame,
    verb: Verb,
    *,
    groups: Sequence[DeadGroup],
    urls: Mapping[str, str],
    blocked: Mapping[str, str],
    chosen: Chosen,
    csrf: str,
    reason: str,
    problem: str = "",
) -> str:
    """What will happen, and to which dead letters, before it does.

    Args:
        blocked: endpoints that receive nothing, with why.
    """
    address, sentence, future = WORDS[verb]
    held = [one for one in groups if verb is Verb.REVIVE and one.endpoint_id in blocked]
    count = sum(one.letters for one in groups) - sum(one.letters for one in held)
    words = sentence.format(letters=_letters_of(count))
    rejected = [notice(_rejection(one, blocked[one.endpoint_id])) for one in held]
    form = element(
        "form",
        element("input", type="hidden", name="csrf", value=csrf),
        *(element("input", type="hidden", name=name, value=text) for name, text in chosen.subject().items() if text),
        element("label", "Reason, for the audit (optional)", for_="reason"),
        element("input", id="reason", name="reason", value=reason, maxlength=str(REASON_CHARS_MAX), autocomplete="off"),
        element(
            "div",
            element("button", words, type="submit", class_=address),
            element("a", "Cancel", href=frame.to(PATH, **chosen.query()), class_="button quiet"),
            class_="acts",
        ),
        method="post",
        action=frame.to(f"{PATH}/{address}"),
        class_="confirm",
    )
    return whole(
        f"{words}?",
        frame,
        element("h1", f"{words}?"),
        notice(problem) if problem else "",
        lead(future if count else "Nothing would happen."),
        *rejected,
        facts({"Oldest": _first(groups), "Newest": _last(groups)}),
        _groups(frame, groups, urls),
        form if count else element("p", element("a", "Back", href=frame.to(PATH), class_="button quiet")),
    )


def _acts(frame: Frame, chosen: Chosen) -> Markup:
    if chosen.error_code is not None:
        return Markup()  # what is done is done to an event, an endpoint or all, whatever the code
    again = frame.to(f"{PATH}/reprocess", **chosen.subject())
    if not any(chosen.subject().values()):
        return element("p", element("a", "Reprocess all", href=again, class_="button"), class_="acts")
    away = frame.to(f"{PATH}/discard", **chosen.subject())
    return element(
        "p",
        element("a", "Reprocess these", href=again, class_="button"),
        element("a", "Discard these", href=away, class_="button quiet"),
        class_="acts",
    )


def _groups(frame: Frame, groups: Sequence[DeadGroup], urls: Mapping[str, str]) -> Markup:
    rows = [
        [
            joined(
                fault(one.error_code),
                element("span", one.error_message or "", class_="detail"),
            ),
            endpoint_name(frame, one.endpoint_id, urls),
            element(
                "a",
                f"{one.letters:,}",
                href=frame.to(PATH, endpoint_id=one.endpoint_id, error_code=one.error_code),
            ),
            moment(utc_text(one.oldest_us)),
            moment(utc_text(one.newest_us)),
        ]
        for one in groups
    ]
    heads = ("Cause", "Endpoint", "Dead letters", "Oldest", "Newest")
    return table("Dead letters by cause", heads, rows, numeric=frozenset({2}), empty="No dead letter.")


def _letters(frame: Frame, letters: Sequence[DeadLetter], urls: Mapping[str, str]) -> Markup:
    rows = [
        [
            joined(event_link(frame, one.event_id), element("span", one.event_type, class_="detail")),
            why(one.error_code, one.error_message, one.reason if one.status_code is None else None),
            endpoint_name(frame, one.endpoint_id, urls),
            f"{one.attempts:,}",
            moment(one.created_at),
            element(
                "div",
                _act(frame, "reprocess", one),
                _act(frame, "discard", one),
                class_="acts",
            ),
        ]
        for one in letters
    ]
    heads = ("Event", "Cause", "Endpoint", "Attempts", "Given up", "Do")
    return table("Dead letters", heads, rows, numeric=frozenset({3}), empty="No dead letter.")


def _act(frame: Frame, address: str, one: DeadLetter) -> Markup:
    to = frame.to(f"{PATH}/{address}", event_id=one.event_id, endpoint_id=one.endpoint_id)
    words = f"{address.capitalize()} {one.event_id}"
    return element("a", address.capitalize(), href=to, class_="small", aria_label=words)


def _summary(total: int, chosen: Chosen) -> str:
    named = {"of the event": chosen.event_id, "of the endpoint": chosen.endpoint_id, "with the code": chosen.error_code}
    of = " ".join(f"{words} {value}" for words, value in named.items() if value)
    return f"{_letters_of(total)} {of}".strip() + ". "


def _letters_of(count: int) -> str:
    return f"{count:,} dead letter{'' if count == 1 else 's'}"


def _rejection(group: DeadGroup, reason: str) -> str:
    return (
        f"{_letters_of(group.letters)} of {group.endpoint_id} with {group.error_code} will stay as they are: {reason}"
    )


def _first(groups: Sequence[DeadGroup]) -> Markup:
    return moment(utc_text(min(one.oldest_us for one in groups))) if groups else Markup()


def _last(groups: Sequence[DeadGroup]) -> Markup:
    return moment(utc_text(max(one.newest_us for one in groups))) if groups else Markup()
