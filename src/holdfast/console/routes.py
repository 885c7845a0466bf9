"""Which address is which page, and which form does what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.base.formatting import cut
from holdfast.catalog.core import NOT_FOUND
from holdfast.console.bulk import Bulk
from holdfast.console.deeds import VERBS_OF_MANY, do, new_deed
from holdfast.console.filters import filter_of
from holdfast.console.forms import safe_back
from holdfast.console.look import at_one_look
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

PATH_CHARS_SHOWN_MAX = 200

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
    """The page at an address, with word of what was just done where the address names a deed.

    Raises:
        Failure: NOT_FOUND, or what the page itself raises.
    """
    render, said = _render_of(visit.parts), visit.get("said")

    def make(looking: Desk) -> Page:
        page = render(looking, visit)
        return page if said is None else replace(page, parts=[*audit.word_of(looking, said), *page.parts])

    return at_one_look(desk, make)


def answer_form(desk: Desk, bulk: Bulk, visit: Visit, form: Mapping[str, str]) -> str:
    """Do what a form asks for; the address to go to then.

    Raises:
        Failure: NOT_FOUND, or why it cannot be done.
    """
    match visit.parts:
        case ["jobs", job_id, verb] if job_id:
            return _done(desk, visit, verb, "job", job_id, form)
        case ["queues" | "breakers" as place, verb]:
            # Such names are whatever somebody chose, slashes included: they come in the form, not in the path.
            return _done(desk, visit, verb, place.removesuffix("s"), form.get("name", ""), form)
        case ["dead", verb] if verb in VERBS_OF_MANY:
            now_us = desk.store.atomic(lambda tx: tx.now_us(), write=False)
            chosen = filter_of(replace(visit, query=form), now_us)
            deed = new_deed(visit.who, verb, chosen.words(), form.get("reason"))
            bulk.begin(deed, chosen.dead())
            return visit.to("dead", "progress", deed.id)
        case _:
            raise _nothing(visit.path)


def _done(desk: Desk, visit: Visit, verb: str, kind: str, name: str, form: Mapping[str, str]) -> str:
    deed = new_deed(visit.who, verb, f"{kind}:{name}", form.get("reason"))
    do(desk.store, deed, name, form)
    return _back(visit, form, deed.id)


def _back(visit: Visit, form: Mapping[str, str], deed_id: str) -> str:
    path = safe_back(form.get("back", "/"))
    return f"{visit.root}{path}{'&' if '?' in path else '?'}said={deed_id}"


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
        case ["dead", "progress", deed_id] if deed_id:
            return lambda desk, visit: dead_work.follow(desk, visit, deed_id)
        case _:
            raise _nothing("/" + "/".join(parts))


def _nothing(path: str) -> Exception:
    return NOT_FOUND(path=cut(path, PATH_CHARS_SHOWN_MAX))
