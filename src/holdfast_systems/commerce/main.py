"""Assembly: the ground in, the system out. The five services stand beside each other, or some of them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from holdfast.http.asgi import Application
from holdfast.http.system import Ground, System
from holdfast.worker import Handlers
from holdfast_systems.commerce import tables
from holdfast_systems.commerce.faults import COMMERCE, NAME, catalog_at
from holdfast_systems.commerce.model import CONNECTORS, CONTROL_PLANE, GATEWAY, PROVISIONER, RUNNER
from holdfast_systems.commerce.parts import Context, Part
from holdfast_systems.commerce.settings import read_settings
from holdfast_systems.commerce.tokens import tokens_of

PARTS = (PROVISIONER, CONTROL_PLANE, GATEWAY, RUNNER, CONNECTORS)


def build(ground: Ground) -> System:
    """The commerce system, or the parts of it that were asked for, on this ground.

    Raises:
        SettingInvalid: a setting cannot be meant, or is missing for a service that is elsewhere.
    """
    settings = read_settings(ground.environment)
    tables.prepare(ground.store)
    here = frozenset(name for name in PARTS if ground.parts is None or name in ground.parts)
    context = Context(
        ground=ground,
        settings=settings,
        tokens=tokens_of(ground, settings),
        catalog=catalog_at(ground.address.removesuffix(f"/{NAME}")),
        here=here,
    )
    made = [_made(name)(context) for name in PARTS if name in here]
    return System(
        name=NAME,
        title="From a paid order to a metered run",
        catalogs=[COMMERCE],
        parts=_applications(made, divided=ground.parts is not None),
        without_page=frozenset(PARTS) - {CONTROL_PLANE},
        handlers=_handlers(made),
        standins={name: app for part in made for name, app in part.standins.items()} if ground.standins else {},
        checks={f"{part.name}.{name}": check for part in made for name, check in part.checks.items()},
        says=[line for part in made for line in part.says],
        start=lambda: _each(part.start for part in made),
        closing=lambda: _each(part.closing for part in made),
        stop=lambda: _each(part.stop for part in reversed(made)),
    )


def _applications(made: Sequence[Part], *, divided: bool) -> dict[str, Application]:
    """Each service at its name; one that is asked for alone also at the address itself."""
    applications = {part.name: part.app for part in made}
    return {**applications, "": made[0].app} if divided and len(made) == 1 else applications


def _handlers(made: Sequence[Part]) -> Handlers | None:
    merged = Handlers()
    for part in made:
        if part.handlers is not None:
            merged.include(part.handlers)
    return merged if len(merged) else None


def _each(calls: Iterable[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _made(name: str) -> Callable[[Context], Part]:
    """What makes a service; loaded only where it is served, since each needs libraries of its own."""
    module = import_module(f"{tables.PACKAGE}.{name.replace('-', '_')}.part")
    make: Callable[[Context], Part] = module.part
    return make
