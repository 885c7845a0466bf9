"""`python -m holdfast_systems.conversion.gateway`: the gateway as a process of its own, until it is told to stop.

Always true: the address that is printed accepts connections and converts, and SIGTERM or Ctrl-C ends with code 0.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields
from logging.handlers import RotatingFileHandler
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.base import Secret, world
from holdfast.catalog import Failure
from holdfast.cli.listener import address_of, listening, on_loopback
from holdfast.http.server import Server
from holdfast.testing.ports import listening_socket
from holdfast_systems.conversion.gateway.app import Desk, gateway_app
from holdfast_systems.conversion.gateway.limits import MEBIBYTE, GatewayLimits
from holdfast_systems.conversion.gateway.pool import Pool

TOKEN_VARIABLE = "HOLDFAST_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
ANNOUNCED = "The conversion gateway is running at "
TOKEN_BYTES = 24
STOP_S_MAX = 2
"""Time after the signal at which requests that are not done are cut off; their clients try again."""


LOOPBACK = "127.0.0.1"
LOG_BYTES_MAX = 10 * MEBIBYTE
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"

_log = logging.getLogger("holdfast.conversion.gateway")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes."""
    options = _options()
    chosen = options.parse_args(arguments)
    try:
        limits = GatewayLimits(**{part.name: getattr(chosen, part.name) for part in fields(GatewayLimits)})
    except ValueError as invalid:
        options.error(str(invalid))
    pool = Pool(limits)
    try:
        log_to(chosen.log)
        listener = _listening(chosen.host, chosen.port)
        # Connections take this over; without it, each reply waits for the client's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pool.start()
    except (OSError, Failure) as refused:
        print(f"The conversion gateway cannot start: {refused}", file=sys.stderr)  # noqa: T201 - a command line
        return 1
    with TemporaryDirectory(prefix="gateway-", dir=chosen.folder) as folder, listener:
        desk = Desk(pool, Path(folder), limits)
        server = Server(
            gateway_app(desk, limits, faults=_switches(os.environ) if chosen.faults else None), stop_s_max=STOP_S_MAX
        )
        _stop_on_signals(server)
        if chosen.with_parent:
            threading.Thread(target=_outlive_nobody, daemon=True).start()
        address = address_of(listener)
        print(f"{ANNOUNCED}{address}", flush=True)  # noqa: T201 - a command line
        _log.info("started at %s: %d processes, %d more may wait", address, limits.processes, limits.queue_max)
        if not on_loopback(listener):
            _log.warning("every client that reaches %s may convert: let only the workers reach it", chosen.host)
        try:
            server.run(sockets=[listener])
        finally:
            pool.stop()
            desk.close()
            _log.info("stopped")
    return 0


def log_to(path: Path | None) -> None:
    """Write lines about conversions to the file, of which one full one is kept; without one, to standard error."""
    handler: logging.Handler = logging.StreamHandler()
    if path is not None:
        handler = RotatingFileHandler(path, maxBytes=LOG_BYTES_MAX, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    _log.handlers = [handler]
    _log.propagate = False
    _log.setLevel(logging.INFO)


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m holdfast_systems.conversion.gateway", description=main.__doc__)
    options.add_argument("--host", default=LOOPBACK, help="where to listen; only the workers should reach it")
    options.add_argument("--port", type=int, default=0, help="0 takes any free one")
    options.add_argument("--log", type=Path, help="a file for the log, instead of standard error")
    options.add_argument("--folder", type=Path, help="for files that last as long as a request")
    options.add_argument(
        "--faults", action="store_true", help=f"let faults be switched at /faults, with the token in {TOKEN_VARIABLE}"
    )
    options.add_argument("--with-parent", action="store_true", help="end when standard input ends")
    for part in fields(GatewayLimits):
        options.add_argument(f"--{part.name.replace('_', '-')}", type=int, default=part.default, help="a limit")
    return options


def _listening(host: str, port: int) -> socket.socket:
    return listening_socket(port or None) if host == LOOPBACK else listening(host, port)


def _switches(environment: Mapping[str, str]) -> Secret:
    """The token that `/faults` asks for: the one given, or a new one that is printed."""
    given = environment.get(TOKEN_VARIABLE, "")
    token = Secret(given or world().token_bytes(TOKEN_BYTES).hex())
    if not given:
        print(f"The token of /faults is {token.reveal()}", file=sys.stderr)  # noqa: T201 - a command line
    return token


def _stop_on_signals(server: Server) -> None:
    def stop(*_: object) -> None:
        server.should_exit = True

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def _outlive_nobody() -> None:
    """The parent holds the other end of our input; it closes when the parent is gone, however that came about."""
    # Not by way of sys.stdin: a thread that waits inside it keeps the interpreter from ending in order.
    while os.read(0, 1_024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
