"""Every route that is mounted × {nobody, a wrong token, another tenant, a lower scope}: a table, and what really comes.

A route without a rule fails here, and so does a route with an id for which there is no real object of another tenant.
A system declares its rules in `access.py`, and makes what they need in `tests/access_scene.py`: a coroutine function
`scene(client, operator)`, or `scene(client, operator, store)`, that returns

- `params`: the id of a real object for each parameter of its routes, as `name` or, where parts differ, `part name`;
- `owner` and `other`: headers of the one to whom they belong, and of another tenant;
- `foreign`: ids of another tenant's objects instead, where `other` has the same credentials (`operator`);
- `bodies`: by route, where a request needs one; `lower`: headers by method of callers that do not reach so far.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.base import Secret
from holdfast.cli.assembly import Premises, built
from holdfast.cli.serve_layout import CONSOLE, METRICS, RESERVED, catalogs_of, laid_out
from holdfast.cli.systems import chosen
from holdfast.console import console
from holdfast.console.access_table import ROUTES as OF_CONSOLE
from holdfast.console.routes import ROUTES as DISPATCHING
from holdfast.http.front import Front
from holdfast.http.operator import OperatorOnly
from holdfast.http.route_access import RouteAccess, _applications, routes_of
from holdfast.http.route_table import Route, RouteTable
from holdfast.http.sessions import COOKIE
from holdfast.http.system import System
from holdfast.http.wrong_tokens import WRONG_TOKENS
from holdfast.store import Store
from holdfast.watch import metrics_app

TOKEN = "the token of the operator"
ADDRESS = "http://127.0.0.1:9"
OPERATOR = {"Authorization": f"Bearer {TOKEN}"}
WRONG = {"Authorization": "Bearer a token of nobody"}
LET_IN = (401, 403)
BAD = 400
SYSTEMS = chosen([])
MISSING_ID = "0" * 36
STREAMS = frozenset({"GET /api/events"})
"""What never ends; that it begins is tested where it belongs."""


def rules_of(name: str) -> tuple[RouteAccess, ...]:
    module = f"holdfast_systems.{name}.access"
    return tuple(import_module(module).ROUTES) if find_spec(module) else ()


def scene_of(name: str) -> Any:
    """The module that makes a system's objects; None when it has none to make."""
    module = f"holdfast_systems.{name}.tests.access_scene"
    return import_module(module) if find_spec(module) else None


RULES = [(name, rule) for name in SYSTEMS for rule in rules_of(name)]


def identifier(scene: dict[str, Any], part: str, parameter: str) -> str | None:
    """The id that stands for a parameter of a part's routes."""
    params = scene.get("params", {})
    found = params.get(f"{part} {parameter}", params.get(parameter))
    return None if found is None else str(found)


WITH_ID = [one for one in RULES if one[1].parameters and not one[1].elsewhere]
ELSEWHERE = [one for one in RULES if one[1].elsewhere]
PARAMETERS = sorted({(name, rule.part, parameter) for name, rule in WITH_ID for parameter in rule.parameters})


class Mounted:
    """Everything that `holdfast serve` mounts, asked without a network by a client that is elsewhere."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        token = Secret(TOKEN)
        premises = Premises(store=store, data=folder, token=token, address=ADDRESS, standins=True, alone=False)
        self.systems: list[System] = built(SYSTEMS, premises)
        catalogs = catalogs_of(self.systems)
        self.page = console(store, token, catalogs, address=ADDRESS + CONSOLE)
        own = {CONSOLE: self.page.app, METRICS: OperatorOnly(metrics_app(store), token)}
        self.front: Front = laid_out(store, self.systems, alone=False, standins=True, own=own, catalogs=catalogs).front
        self.scenes: dict[str, dict[str, Any]] = {}

    def run(self, work: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
        async def within() -> Any:
            transport = httpx.ASGITransport(self.front, client=("192.0.2.7", 5_000))
            async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
                return await work(client)

        WRONG_TOKENS.forget()
        return asyncio.run(within())

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> httpx.Response:
        given = {"json": {} if body is None else body} if method in {"POST", "PUT", "PATCH"} else {}
        reply: httpx.Response = self.run(lambda client: client.request(method, path, headers=headers, **given))
        return reply

    def scene(self, name: str) -> dict[str, Any]:
        if name not in self.scenes:
            self.scenes[name] = self.new_scene(name)
        return self.scenes[name]

    def new_scene(self, name: str) -> dict[str, Any]:
        """Objects of their own, for requests that change or remove them."""
        module = scene_of(name)
        if module is None:
            return {}
        given = {"store": self.store} if "store" in signature(module.scene).parameters else {}
        made: dict[str, Any] = self.run(lambda client: module.scene(client, OPERATOR, **given))
        return made

    def asked(
        self, name: str, rule: RouteAccess, headers: dict[str, str], *, scene: dict[str, Any] | None = None
    ) -> int:
        """The status that a route of a system answers with."""
        scene = scene or self.scene(name)
        path = re.sub(r"\{(\w+)[^}]*\}", lambda found: identifier(scene, rule.part, found[1]) or MISSING_ID, rule.path)
        place = f"/{name}/{rule.part}" if rule.part else f"/{name}"
        return self.ask(rule.method, place + path, headers, scene.get("bodies", {}).get(rule.route)).status_code

    def foreign(self, name: str) -> dict[str, Any]:
        """The scene as another tenant asks in it."""
        scene = self.scene(name)
        return {**scene, "params": {**scene["params"], **scene.get("foreign", {})}}

    def lets_in(self, name: str, rule: RouteAccess, scene: dict[str, Any]) -> bool:
        """Whether the route does what it is asked by the owner, or by the operator where it is the operator's."""
        callers = (scene["owner"], OPERATOR) if "owner" in scene else (OPERATOR,)
        return any(self.asked(name, rule, headers, scene=scene) < BAD for headers in callers)

    def close(self) -> None:
        self.page.close()
        for system in self.systems:
            system.stop()


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    folder = tmp_path_factory.mktemp("mounted")
    store = Store.open(f"sqlite:///{folder / 'holdfast.db'}")
    store.migrate()
    with pytest.MonkeyPatch.context() as patch:
        for module in (scene_of(name) for name in SYSTEMS):
            for variable, value in getattr(module, "environment", lambda _: {})(folder).items():
                patch.setenv(variable, value)
        made = Mounted(store, folder)
    yield made
    made.close()
    store.close()


def label(value: Any) -> str:
    return f"{value.part} {value.route}".strip() if isinstance(value, RouteAccess) else str(value)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_route_has_one_rule_and_every_rule_has_a_route(mounted: Mounted, name: str) -> None:
    system = next(one for one in mounted.systems if one.name == name)
    there = [f"{part} {route}" for part, app in system.parts.items() for route in routes_of(app)]
    declared = [f"{rule.part} {rule.route}" for rule in rules_of(name)]
    assert there, f"no route of {name} was found"
    assert sorted(declared) == sorted(there), "a route without a rule is added to access.py"


@pytest.mark.parametrize(("name", "rule"), RULES, ids=label)
def test_nobody_and_a_wrong_token_are_answered_as_declared(mounted: Mounted, name: str, rule: RouteAccess) -> None:
    if rule.route in STREAMS:
        return
    for headers, declared in (({}, rule.nobody), (WRONG, rule.wrong_token)):
        found = mounted.asked(name, rule, headers)
        assert found == declared if declared is not None else found not in LET_IN, rule.why


@pytest.mark.parametrize(("name", "rule"), WITH_ID, ids=label)
def test_a_route_with_an_id_says_what_another_tenant_gets(name: str, rule: RouteAccess) -> None:
    assert rule.other is not None or rule.shared, f"declare other=… in access.py of {name}, or say why there is none"


@pytest.mark.parametrize(("name", "rule"), ELSEWHERE, ids=label)
def test_the_test_that_is_named_for_another_tenant_is_there(name: str, rule: RouteAccess) -> None:
    file, _, test = rule.elsewhere.partition("::")
    module = import_module(f"holdfast_systems.{name}.tests.{file.removesuffix('.py')}")
    assert callable(getattr(module, test, None)), rule.elsewhere


@pytest.mark.parametrize(("name", "part", "parameter"), PARAMETERS)
def test_every_id_that_is_tried_is_that_of_a_real_object(
    mounted: Mounted, name: str, part: str, parameter: str
) -> None:
    scene = mounted.scene(name)
    tried = identifier(scene, part, parameter)
    assert tried is not None, f"make one in tests/access_scene.py of {name}"
    # One part may know an object only by asking another: it is real if any part finds it.
    rules = [
        rule
        for system, rule in WITH_ID
        if system == name and tried in [identifier(scene, rule.part, one) for one in rule.parameters]
    ]
    reading = [rule for rule in rules if rule.method == "GET"]
    changing = [rule for rule in rules if rule.method != "GET"]
    assert any(mounted.lets_in(name, rule, scene) for rule in reading) or any(
        mounted.lets_in(name, rule, mounted.new_scene(name)) for rule in changing
    ), f"no route finds {tried}"


@pytest.mark.parametrize(("name", "rule"), [one for one in RULES if one[1].other is not None], ids=label)
def test_another_tenant_is_answered_as_declared(mounted: Mounted, name: str, rule: RouteAccess) -> None:
    scene = mounted.foreign(name)
    assert mounted.asked(name, rule, scene["other"], scene=scene) == rule.other


@pytest.mark.parametrize(("name", "rule"), [one for one in WITH_ID if one[1].other == 404], ids=label)
def test_what_another_tenant_does_not_find_is_there_for_its_owner(
    mounted: Mounted, name: str, rule: RouteAccess
) -> None:
    if rule.method == "GET":
        assert mounted.lets_in(name, rule, mounted.scene(name))


@pytest.mark.parametrize(("name", "rule"), [one for one in RULES if one[1].lower is not None], ids=label)
def test_a_lower_scope_is_answered_as_declared(mounted: Mounted, name: str, rule: RouteAccess) -> None:
    keys = mounted.scene(name)["lower"]
    assert mounted.asked(name, rule, keys.get(rule.method, keys[""])) == rule.lower


# -- the core's own ----------------------------------------------------------------------------------------------------

OPEN = ("/", "/errors/", "/errors/NOT_FOUND", "/health", "/ready", "/site.css", "/console/static/console.css")


def of_console(rule: RouteAccess) -> str:
    return CONSOLE + re.sub(r"\{\w+\}", "x", rule.path)


def test_every_route_of_the_console_has_one_rule_and_every_rule_has_a_route(mounted: Mounted) -> None:
    declared = [rule.route for rule in OF_CONSOLE]
    assert sorted(declared) == sorted(routes_of(mounted.page.app)), "a route without a rule is added to access_table.py"


def test_a_route_that_is_added_to_a_table_is_found_without_anybody_listing_it(mounted: Mounted) -> None:
    """The tables that dispatch are those that are listed: the console's, those of pages, that of the sign-in."""
    assert mounted.page._app.table is DISPATCHING
    parts = [mounted.page.app, *(app for system in mounted.systems for app in system.parts.values())]
    tables = {
        id(table): table for part in parts for table in _applications(part, set(), 0) if isinstance(table, RouteTable)
    }
    assert len(tables) > 1
    for table in tables.values():
        before = table.routes
        table.routes = (*before, Route("GET /nobody-has-a-rule-for-this", before[0].answer))
        try:
            assert table.find("GET", "/nobody-has-a-rule-for-this") is not None
            assert any("GET /nobody-has-a-rule-for-this" in routes_of(part) for part in parts)
        finally:
            table.routes = before


@pytest.mark.parametrize("rule", OF_CONSOLE, ids=label)
def test_the_console_answers_nobody_and_a_wrong_token_as_declared(mounted: Mounted, rule: RouteAccess) -> None:
    for headers, declared in (
        ({}, rule.nobody),
        (WRONG, rule.wrong_token),
        ({"Cookie": f"{COOKIE}=a.b.c.d"}, rule.wrong_token),
    ):
        found = mounted.ask(rule.method, of_console(rule), headers).status_code
        assert found == declared if declared is not None else found not in LET_IN, rule.why


@pytest.mark.parametrize("rule", [rule for rule in OF_CONSOLE if rule.method != "GET"], ids=label)
def test_the_console_does_nothing_for_a_form_of_another_site(mounted: Mounted, rule: RouteAccess) -> None:
    session = {"Cookie": f"{COOKIE}={mounted.page._app.access.sessions.begin('operator')}"}
    form = {"content-type": "application/x-www-form-urlencoded", "origin": "http://evil.test"}
    assert mounted.ask(rule.method, of_console(rule), session | form).status_code == 403


@pytest.mark.parametrize("path", ["/x", "/jobs/x/y/z", "/static", "/dead/x", "/queues/x"])
def test_what_the_console_does_not_have_is_not_told_without_the_token(mounted: Mounted, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert mounted.ask(method, CONSOLE + path).status_code == 401


@pytest.mark.parametrize("path", OPEN)
def test_these_are_open_to_everybody(mounted: Mounted, path: str) -> None:
    assert mounted.ask("GET", path).status_code in {200, 503}


def test_the_metrics_ask_for_the_token_where_they_are_closed(mounted: Mounted) -> None:
    assert [mounted.ask("GET", METRICS, headers).status_code for headers in ({}, WRONG, OPERATOR)] == [401, 401, 200]


def test_stand_ins_are_for_this_machine_alone(mounted: Mounted) -> None:
    for name in [name for system in mounted.systems for name in system.standins]:
        assert mounted.ask("GET", f"/standins/{name}/faults", OPERATOR).status_code == 403


def test_every_place_that_is_mounted_is_in_this_table(mounted: Mounted) -> None:
    known = {"", *RESERVED, *(f"/standins/{name}" for system in mounted.systems for name in system.standins)}
    parts = {f"/{system.name}/{part}".rstrip("/") for system in mounted.systems for part in system.parts}
    assert set(mounted.front.paths) <= known | parts
