"""What a process tells of itself: lines on standard error about what happens, and traces where OpenTelemetry is set up.

Always true: neither keeps a process from starting, unless it was asked for by name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Any

import typer

from holdfast.base import bus
from holdfast.cli.output import note, refuse

LOG_VARIABLE = "HOLDFAST_LOG"
LEVEL_VARIABLE = "HOLDFAST_LOG_LEVEL"
LOGS_MISSING = 'lines about what happens need structlog, which is not installed: pip install "holdfast[watch]"'

EXPORTER_VARIABLE = "OTEL_TRACES_EXPORTER"
ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTERS = "opentelemetry_traces_exporter"
"""The group under which OpenTelemetry's exporters announce themselves."""
OTLP = {
    "http/protobuf": ("otlp_proto_http",),
    "grpc": ("otlp_proto_grpc",),
    "": ("otlp_proto_http", "otlp_proto_grpc", "otlp"),
}
EXPORTERS_MAX = 8
SDK = ("resources", "trace", "trace.export")
SERVICE = "holdfast"


class LogForm(StrEnum):
    OFF = "off"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogOption = Annotated[
    LogForm | None,
    typer.Option(
        "--log",
        envvar=LOG_VARIABLE,
        help="Lines about what happens, on standard error: for people, for machines, or none. Without it, for people.",
        show_default=False,
    ),
]
LevelOption = Annotated[LogLevel, typer.Option("--log-level", envvar=LEVEL_VARIABLE, help="The least that is told.")]


@dataclass(frozen=True, slots=True)
class Log:
    """Which lines are written."""

    form: LogForm | None
    """None where nobody has said."""
    level: LogLevel

    def words(self) -> list[str]:
        """What tells a child process to do the same."""
        return [*(() if self.form is None else ("--log", self.form.value)), "--log-level", self.level.value]


@contextmanager
def logged(log: Log) -> Iterator[None]:
    """What happens within the block is told in lines.

    Raises:
        typer.Exit: they were asked for, and what writes them is not installed; that was said.
    """
    if log.form is LogForm.OFF:
        from holdfast.watch.log_records import drop_unhandled

        # What would otherwise go to the standard log is off, too.
        end = bus.listen(lambda _verb, _facts: None, writes_log=True)
        end_records = drop_unhandled()
        try:
            yield
        finally:
            end()
            end_records()
        return
    from holdfast.watch import log_events

    try:
        end = log_events(json=log.form is LogForm.JSON, level=log.level.value, unhandled=True)
    except ModuleNotFoundError as missing:
        if missing.name != "structlog":
            raise
        if log.form is not None:
            raise refuse(LOGS_MISSING) from None
        note(f"holdfast: {LOGS_MISSING}")
        yield
        return
    try:
        yield
    finally:
        end()


@contextmanager
def traced(environment: Mapping[str, str]) -> Iterator[None]:
    """Spans are made within the block, if somebody has set up OpenTelemetry: in this process, or in its environment."""
    ours = None if _provided() or not _asked(environment) else _provider(environment)
    if ours is None and not _provided():
        yield
        return
    from holdfast.watch import trace_events

    end = trace_events(ours)
    try:
        yield
    finally:
        end()
        if ours is not None:
            ours.shutdown()


def _provided() -> bool:
    """Whether a program, such as the module with the handlers, has set up OpenTelemetry's SDK by now."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return False
    return not isinstance(api.get_tracer_provider(), api.ProxyTracerProvider | api.NoOpTracerProvider)


def _asked(environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get(EXPORTER_VARIABLE, "").strip()
    return exporter != "none" if exporter else any(environment.get(name) for name in ENDPOINT_VARIABLES)


def _provider(environment: Mapping[str, str]) -> Any:
    """A provider that sends spans where the environment says; None when what it takes is missing, which is said."""
    try:
        resources, sdk, export = (import_module(f"opentelemetry.sdk.{name}") for name in SDK)
    except ImportError:
        note("holdfast: no traces are sent: OpenTelemetry's SDK is not installed: pip install opentelemetry-sdk")
        return None
    exporters = _exporters(environment)
    if not exporters:
        return None
    named = "OTEL_SERVICE_NAME" in environment or "service.name" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = resources.Resource.create({} if named else {"service.name": SERVICE})
    provider = sdk.TracerProvider(resource=resource)
    for exporter in exporters:
        provider.add_span_processor(export.BatchSpanProcessor(exporter))
    return provider


def _exporters(environment: Mapping[str, str]) -> list[Any]:
    from importlib.metadata import entry_points

    installed = {one.name: one for one in entry_points(group=EXPORTERS)}
    protocol = next((environment[name] for name in PROTOCOL_VARIABLES if environment.get(name)), "")
    made = []
    for word in (environment.get(EXPORTER_VARIABLE) or "otlp").split(",")[:EXPORTERS_MAX]:
        name = word.strip()
        known = [one for one in (OTLP.get(protocol, ()) if name == "otlp" else (name,)) if one in installed]
        if not known:
            hint = ": pip install opentelemetry-exporter-otlp" if name == "otlp" else ""
            note(f"holdfast: no traces are sent: the exporter {name!r} is not installed{hint}")
            continue
        try:
            made.append(installed[known[0]].load()())
        except Exception as broken:  # noqa: BLE001 - what an exporter makes of its settings must not stop the process
            note(f"holdfast: no traces are sent: the exporter {name!r} did not start: {broken}")
    return made
