"""Joined connections to a server that was left are ended, also where it changes while the new one is looked for."""

from __future__ import annotations

import socket

from holdfast.store.join.stale import JoinedConnections
from holdfast.testing.processes import wait_until

OLD, NEW = 1, 2


def test_a_change_during_the_look_for_the_server_is_looked_at_too() -> None:
    found: list[int] = []

    def find() -> int:
        if not found:
            joined.end_stale()  # the server that answers here is left in this moment
        found.append(NEW if found else OLD)
        return found[-1]

    joined = JoinedConnections("a database of this test alone", find)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        joined.add(ours, OLD)
        joined.end_stale()
        wait_until(lambda: ours not in joined, within_s=30, what="the connection is ended")
        assert theirs.recv(1) == b""
    assert found == [OLD, NEW]


def test_a_look_that_broke_does_not_keep_others_from_looking() -> None:
    broken = [ValueError("not a failure of the database")]

    def find() -> int:
        if broken:
            raise broken.pop()
        return NEW

    joined = JoinedConnections("another database of this test alone", find)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        joined.add(ours, OLD)
        joined._looking = True
        try:
            joined._look()
        except ValueError:
            joined.end_stale()
        wait_until(lambda: ours not in joined, within_s=30, what="the connection is ended")
