"""Assembly of the gateway."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from holdfast.http import link_check
from holdfast.http.asgi import Application, Receive, Scope, Send
from holdfast.worker import Jobs
from holdfast_systems.commerce.gateway.api import application
from holdfast_systems.commerce.gateway.control_plane import ControlPlane
from holdfast_systems.commerce.gateway.execution import Executor
from holdfast_systems.commerce.gateway.instances import Instances
from holdfast_systems.commerce.gateway.limits import MinuteLimits
from holdfast_systems.commerce.gateway.links import Links
from holdfast_systems.commerce.gateway.origins import Origins
from holdfast_systems.commerce.gateway.reconcile import Reconciliation
from holdfast_systems.commerce.gateway.runner_client import RunnerClient
from holdfast_systems.commerce.gateway.runs import Runs
from holdfast_systems.commerce.gateway.service import Gateway
from holdfast_systems.commerce.model import CONTROL_PLANE, GATEWAY, RUNNER
from holdfast_systems.commerce.parts import Context, Part
from holdfast_systems.commerce.settings import Settings

DAY_S = 86_400.0
PAGES = "holdfast_systems.commerce.pages.widget"
"""The module of the widget's pages; its `widget_pages(context)` answers everything below `PAGE_PATHS`."""
PAGE_PATHS = ("/widget.js", "/widget/")


def part(context: Context) -> Part:
    """The gateway."""
    settings, store = context.settings, context.ground.store
    links = Links()
    jobs = Jobs(store)
    control_plane = ControlPlane(
        context.address_of(CONTROL_PLANE), context.tokens, links, timeout_s=settings.control_plane_timeout_s
    )
    runner = RunnerClient(context.address_of(RUNNER), context.tokens, links.runner)
    runs = Runs(store, jobs, deferred_max=settings.soft_fail_concurrency)
    gateway = Gateway(
        tokens=context.tokens,
        instances=Instances(
            store,
            lambda instance_id: control_plane.ask(control_plane.instance(instance_id)),
            cache_s=settings.instance_cache_s,
            defaults=_limits(settings),
        ),
        runs=runs,
        executor=Executor(runs, control_plane, runner),
        limits=MinuteLimits(store),
        origins=Origins(context.address_of(GATEWAY), loopback=settings.loopback_origins == "allow"),
        sessions_per_minute=settings.sessions_per_minute,
    )
    reconciliation = Reconciliation(runs, control_plane, kept_s=settings.run_days * DAY_S)
    app = application(gateway, context.tokens, context.catalog)

    def stop() -> None:
        control_plane.close()
        runner.close()
        jobs.close()

    return Part(
        name=GATEWAY,
        app=_with_pages(app, context),
        handlers=reconciliation.handlers(sweep_every_s=settings.sweep_every_s),
        checks={
            "billing": link_check(links.authorize),
            "runner": link_check(links.runner),
        },
        stop=stop,
    )


def _limits(settings: Settings) -> dict[str, int]:
    return {
        "requestsPerMinute": settings.requests_per_minute,
        "concurrentRuns": settings.concurrent_runs,
        "sessionsPerMinute": settings.sessions_per_minute,
        "chatsPerMinute": settings.chats_per_minute,
    }


def _with_pages(app: Application, context: Context) -> Application:
    """The API, with the widget's pages where they are installed."""
    if find_spec(PAGES.rpartition(".")[0]) is None or find_spec(PAGES) is None:
        return app
    return _Paged(app, import_module(PAGES).widget_pages(context))


class _Paged:
    """Hands the widget's paths to its pages, and everything else to the API."""

    def __init__(self, app: Application, pages: Application) -> None:
        self.app = app
        self.pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", "")).removeprefix(scope.get("root_path", ""))
        await (self.pages if path.startswith(PAGE_PATHS) else self.app)(scope, receive, send)
