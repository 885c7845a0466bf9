"""The order in which the servers of an address are tried."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import psycopg
import pytest

from holdfast.store.servers import Servers, servers_of


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("postgresql://u@a:1,b:2/d", {"host": "a,b", "port": "1,2"}),
        ("host=a,b port=7 dbname=d", {"host": "a,b", "port": "7,7"}),
        ("host=a,b dbname=d", {"host": "a,b"}),
        ("hostaddr=127.0.0.1,127.0.0.2 port=1,2", {"hostaddr": "127.0.0.1,127.0.0.2", "port": "1,2"}),
        ("postgresql://u@a:1/d", {}),
        ("dbname=d", {}),
        ("host=a,b port=1,2,3", {}),
    ],
)
def test_an_address_tells_its_servers_in_order(target: str, wanted: dict[str, str]) -> None:
    assert Servers(target).keywords() == wanted


def test_the_one_that_took_a_connection_comes_first_and_one_that_was_left_comes_last(emptied_dsn: str) -> None:
    here = urlsplit(emptied_dsn)
    names = ["127.0.0.2", "127.0.0.1", "localhost"]  # of the same server
    servers = Servers(f"postgresql://postgres@{','.join(f'{name}:{here.port}' for name in names)}{here.path}")

    def order() -> list[str]:
        return servers.keywords()["host"].split(",")

    assert order() == names
    with psycopg.connect(emptied_dsn, host="localhost") as connection:
        assert servers.put_first(connection)
        assert order() == ["localhost", "127.0.0.2", "127.0.0.1"]
        assert not servers.put_first(connection), "it was the first already"
        servers.put_last(connection)
        assert order() == names
    with psycopg.connect(emptied_dsn) as connection:
        servers.put_last(connection)
        assert order() == ["127.0.0.2", "localhost", "127.0.0.1"]
    servers.put_first(connection)  # nobody knows any more where it led
    assert order() == ["127.0.0.2", "localhost", "127.0.0.1"]


def test_all_stores_of_a_process_know_which_server_was_left() -> None:
    target = "postgresql://u@a:1,b:2/d"
    one, other = servers_of(target), servers_of(target)
    assert one is other
    assert servers_of("postgresql://u@a:1,b:2/e") is not one
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"new" if servers_of(target) is not one else b"the parent's")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"new", "its lock may have been held"
    for end in (reader, writer):
        os.close(end)
