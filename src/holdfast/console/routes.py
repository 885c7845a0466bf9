"""Which address is which page, and which form does what: one table that dispatches, and that tests of access list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from holdfast.base.formatting import cut
from holdfast.catalog import Failure
from holdfast.catalog.core import METHOD_NOT_ALLOWED, NOT_FOUND
from holdfast.console.actions import act_on
from holdfast.console.background import Background
from holdfast.console.filters import filter_of
from holdfast.console.page import Desk, Page
from holdfast.console.pages import (
    alerts,
    audit,
    breakers,
    dead,
    dead_ask,
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
from holdfast.http.return_path import checked
from holdfast.http.route_table import Found, Route, RouteTable
from holdfast.operate.bulk import Verb

PATH_CHARS_SHOWN_MAX = 200
JOB_VERBS = ("cancel", "revive", "discard")
QUEUE_VERBS = ("pause", "resume", "probe")
BREAKER_VERBS = ("probe", "trip", "recover")


class Door(Enum):
    """What the application itself answers."""

    STATIC = auto()
    LINK = auto()
    TOKEN = auto()
    LEAVE = auto()
    LIVE = auto()


OPEN = frozenset({Door.STATIC, Door.LINK, Door.TOKEN})
"""The only ones that answer a caller without access."""


@dataclass(frozen=True, slots=True)
class Shows:
    """A page, made from what it reads, the visit, and the names in its path in their order."""

    render: Callable[..., Page]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A form that arrived, from somebody who may send it."""

    desk: Desk
    background: Background
    visit: Visit
    form: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Does:
    """What a form does; it returns the address to go to then. The names in the path come in their order."""

    act: Callable[..., str]


Answer = Shows | Does | Door


def page_for(desk: Desk, visit: Visit) -> Page:
    """The page at an address, read at one moment, with what was just done where the address names an action.

    Raises:
        Failure: NOT_FOUND, or what the page itself raises.
    """
    found = route_of("GET", visit)
    if not isinstance(found.answer, Shows):
        raise _nothing(visit)
    render, said = found.answer.render, visit.get("said")

    def make() -> Page:
        # Asked before anything is read: whatever is read now is at least as new as this.
        version = desk.store.atomic(lambda tx: tx.now_us(), write=False)
        page = replace(render(desk, visit, *found.names.values()), version=version)
        return page if said is None else replace(page, parts=[*audit.word_of(desk, said), *page.parts])

    return desk.store.snapshot(make)


def route_of(method: str, visit: Visit) -> Found[Answer]:
    """What answers a request.

    Raises:
        Failure: NOT_FOUND; METHOD_NOT_ALLOWED where the path is there.
    """
    found = ROUTES.find(method, visit.path)
    if found is not None:
        return found
    if ROUTES.methods(visit.path):
        raise METHOD_NOT_ALLOWED(method=method)
    raise _nothing(visit)


def _nothing(visit: Visit) -> Failure:
    return NOT_FOUND(path=cut(visit.path, PATH_CHARS_SHOWN_MAX))


def _on_job(verb: str) -> Does:
    return Does(lambda sent, job_id: _acted(sent, "job", verb, job_id))


def _on_named(kind: str, verb: str) -> Does:
    # Such names are whatever somebody chose, slashes included: they come in the form, not in the path.
    return Does(lambda sent: _acted(sent, kind, verb, sent.form.get("name", "")))


def _acted(sent: Sent, kind: str, verb: str, name: str) -> str:
    assert sent.visit.actor is not None, "forms are read after access was checked"
    action_id = act_on(sent.desk.store, sent.visit.actor, kind, verb, name, sent.form)
    path = checked(sent.form.get("back", "/"))
    return f"{sent.visit.root}{path}{'&' if '?' in path else '?'}said={action_id}"


def _on_many(verb: Verb) -> Does:
    def act(sent: Sent) -> str:
        assert sent.visit.actor is not None, "forms are read after access was checked"
        now_us = sent.desk.store.atomic(lambda tx: tx.now_us(), write=False)
        chosen = filter_of(replace(sent.visit, query=sent.form), now_us).dead()
        begun = sent.background.begin(verb, chosen, actor=sent.visit.actor, reason=sent.form.get("reason"))
        return sent.visit.to("dead", "progress", begun)

    return Does(act)


def _resumed(sent: Sent) -> str:
    assert sent.visit.actor is not None, "forms are read after access was checked"
    return sent.visit.to("dead", "progress", sent.background.resume(sent.form.get("id", ""), actor=sent.visit.actor))


def _asks(verb: Verb) -> Shows:
    return Shows(lambda desk, visit: dead_ask.ask(desk, visit, verb))


_TABLE: Mapping[str, Answer] = {
    "GET /": Shows(overview.page),
    "GET /table/{name}": Shows(overview.panel_table),
    "GET /jobs": Shows(jobs.page),
    "GET /jobs/{job_id}": Shows(job.page),
    "GET /deliveries": Shows(deliveries.page),
    "GET /dead": Shows(dead.page),
    **{f"GET /dead/{verb}": _asks(verb) for verb in Verb},
    "GET /dead/progress/{action_id}": Shows(dead_work.follow),
    "GET /faults": Shows(faults.page),
    "GET /faults/{code}": Shows(fault.page),
    "GET /breakers": Shows(breakers.page),
    "GET /limits": Shows(limits_page.page),
    "GET /alerts": Shows(alerts.page),
    "GET /audit": Shows(audit.page),
    **{f"POST /jobs/{{job_id}}/{verb}": _on_job(verb) for verb in JOB_VERBS},
    **{f"POST /queues/{verb}": _on_named("queue", verb) for verb in QUEUE_VERBS},
    **{f"POST /breakers/{verb}": _on_named("breaker", verb) for verb in BREAKER_VERBS},
    **{f"POST /dead/{verb}": _on_many(verb) for verb in Verb},
    "POST /dead/resume": Does(_resumed),
    "GET /enter": Door.LINK,
    "POST /enter": Door.TOKEN,
    "POST /leave": Door.LEAVE,
    "GET /live": Door.LIVE,
    "GET /static/{name}": Door.STATIC,
}
ROUTES: RouteTable[Answer] = RouteTable(Route(written, answer) for written, answer in _TABLE.items())
