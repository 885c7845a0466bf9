"""Which address is which page, and which form does what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.base.formatting import cut
from holdfast.catalog.core import NOT_FOUND
from holdfast.console.actions import act_on
from holdfast.console.background import Background
from holdfast.console.filters import filter_of
from holdfast.console.forms import safe_back
from holdfast.console.page import Desk, Page, Render
from holdfast.console.pages import (
    alerts,
    audit,
    breakers,
    dead,
    dead_work,
    deliveries,
    fault,
    faults,
    job,
    jobs,
    overview,
)
from holdfast.console.pages import limits as limits_page
from holdfast.console.visit import Visit
from holdfast.operate.bulk import Verb

PATH_CHARS_SHOWN_MAX = 200
VERBS_OF_MANY = frozenset(Verb)

_LISTS: Mapping[str, Render] = {
    "": overview.page,
    "jobs": jobs.page,
    "deliveries": deliveries.page,
    "dead": dead.page,
    "faults": faults.page,
    "breakers": breakers.page,
    "limits": limits_page.page,
    "alerts": alerts.page,
    "audit": audit.page,
}


def page_for(desk: Desk, visit: Visit) -> Page:
    """The page at an address, read at one moment, with what was just done where the address names an action.

    Raises:
        Failure: NOT_FOUND, or what the page itself raises.
    """
    render, said = _render_of(visit.parts), visit.get("said")

    def make() -> Page:
        page = render(desk, visit)
        return page if said is None else replace(page, parts=[*audit.word_of(desk, said), *page.parts])

    return desk.store.snapshot(make)


def answer_form(desk: Desk, background: Background, visit: Visit, form: Mapping[str, str]) -> str:
    """Do what a form asks for; the address to go to then.

    Raises:
        Failure: NOT_FOUND, or why it cannot be done.
    """
    assert visit.actor is not None, "forms are read after access was checked"
    match visit.parts:
        case ["jobs", job_id, verb] if job_id:
            return _back(visit, form, act_on(desk.store, visit.actor, "job", verb, job_id, form))
        case ["queues" | "breakers" as place, verb]:
            # Such names are whatever somebody chose, slashes included: they come in the form, not in the path.
            kind, name = place.removesuffix("s"), form.get("name", "")
            return _back(visit, form, act_on(desk.store, visit.actor, kind, verb, name, form))
        case ["dead", "resume"]:
            return visit.to("dead", "progress", background.resume(form.get("id", ""), actor=visit.actor))
        case ["dead", verb] if verb in VERBS_OF_MANY:
            now_us = desk.store.atomic(lambda tx: tx.now_us(), write=False)
            chosen = filter_of(replace(visit, query=form), now_us).dead()
            begun = background.begin(Verb(verb), chosen, actor=visit.actor, reason=form.get("reason"))
            return visit.to("dead", "progress", begun)
        case _:
            raise _nothing(visit.path)


def _back(visit: Visit, form: Mapping[str, str], action_id: str) -> str:
    path = safe_back(form.get("back", "/"))
    return f"{visit.root}{path}{'&' if '?' in path else '?'}said={action_id}"


def _render_of(parts: list[str]) -> Render:
    match parts:
        case [name] if name in _LISTS:
            return _LISTS[name]
        case ["jobs", job_id] if job_id:
            return lambda desk, visit: job.page(desk, visit, job_id)
        case ["table", name]:
            return lambda desk, visit: overview.panel_table(desk, visit, name)
        case ["faults", code] if code:
            return lambda desk, visit: fault.page(desk, visit, code)
        case ["dead", verb] if verb in VERBS_OF_MANY:
            return lambda desk, visit: dead_work.ask(desk, visit, verb)
        case ["dead", "progress", action_id] if action_id:
            return lambda desk, visit: dead_work.follow(desk, visit, action_id)
        case _:
            raise _nothing("/" + "/".join(parts))


def _nothing(path: str) -> Exception:
    return NOT_FOUND(path=cut(path, PATH_CHARS_SHOWN_MAX))
