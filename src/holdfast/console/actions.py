"""What a form asks for, as a call of the operator's verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.catalog.core import BAD_REQUEST
from holdfast.operate import Actor, Outcome, breakers, dead_letters, jobs, queues
from holdfast.operate.faults import NOTHING_CHANGED
from holdfast.store import Store

Form = Mapping[str, str]
Act = Callable[[Store, str, Actor, str | None, Form], Outcome]


def act_on(store: Store, actor: Actor, kind: str, verb: str, name: str, form: Form) -> str:
    """Do it to one job, queue or breaker; the id of its row in the audit.

    Raises:
        Failure: why it cannot be done; NOTHING_CHANGED when it is in that state already.
    """
    act = _ACTS.get((kind, verb))
    if act is None:
        raise BAD_REQUEST("{verb} is not an action.", verb=verb)
    outcome = act(store, name, actor, form.get("reason") or None, form)
    if not outcome.changed:
        raise NOTHING_CHANGED()
    return outcome.id


def _cancel(store: Store, name: str, actor: Actor, reason: str | None, _form: Form) -> Outcome:
    return jobs.cancel(store, name, actor=actor, reason=reason)[0]


def _trip(store: Store, name: str, actor: Actor, reason: str | None, form: Form) -> Outcome:
    text = form.get("open_s", "")
    open_s = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return breakers.trip(store, name, actor=actor, reason=reason, open_s=open_s)


_ACTS: dict[tuple[str, str], Act] = {
    ("job", "cancel"): _cancel,
    ("job", "revive"): lambda store, name, who, why, _: dead_letters.revive(store, name, actor=who, reason=why),
    ("job", "discard"): lambda store, name, who, why, _: dead_letters.discard(store, name, actor=who, reason=why),
    ("queue", "pause"): lambda store, name, who, why, _: queues.pause(store, name, actor=who, reason=why),
    ("queue", "resume"): lambda store, name, who, why, _: queues.resume(store, name, actor=who, reason=why),
    ("queue", "probe"): lambda store, name, who, why, _: queues.probe(store, name, actor=who, reason=why),
    ("breaker", "probe"): lambda store, name, who, why, _: breakers.probe(store, name, actor=who, reason=why),
    ("breaker", "trip"): _trip,
    ("breaker", "recover"): lambda store, name, who, why, _: breakers.recover(store, name, actor=who, reason=why),
}
