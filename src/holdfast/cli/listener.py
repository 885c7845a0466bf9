"""The socket that a server listens on, and the address under which it is reached."""

from __future__ import annotations

import errno
import socket

BACKLOG_MAX = 2_048

# Nobody is reached at an address that means all of them; from this machine, loopback is one.
_ALL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read, not bound


def listening(host: str, port: int) -> socket.socket:
    """A socket that accepts connections already, so that what is printed next is true.

    Raises:
        OSError: the host does not exist, or the port cannot be had.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG_MAX)
    except OSError:
        listener.close()
        raise
    return listener


def refusal(refused: OSError, host: str, port: int) -> str:
    """Why it cannot listen, in one line."""
    if refused.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; choose another with --port or HOLDFAST_PORT"
    return f"cannot listen on port {port} of {host}: {refused.strerror or refused}"


def address_of(listener: socket.socket) -> str:
    """`http://127.0.0.1:8080`, as a client on this machine reaches it."""
    host, port = listener.getsockname()[:2]
    host = _ALL.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listens_on(listener: socket.socket) -> str:
    """Where it is bound, such as `0.0.0.0:8080 (every address of this machine)`."""
    host, port = listener.getsockname()[:2]
    bound = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{bound} (every address of this machine)" if host in _ALL else bound


def on_loopback(listener: socket.socket) -> bool:
    """Whether nobody but this machine can reach it."""
    from ipaddress import ip_address

    return ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback
