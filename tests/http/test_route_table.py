"""A table of routes finds what answers, says what a path answers, and is listed with the applications that hold it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.http.route_access import routes_of
from holdfast.http.route_table import Route, RouteTable

TABLE = RouteTable(
    [
        Route("GET /jobs/{job_id}", "one"),
        Route("POST /jobs/{job_id}/{verb}", "verb"),
        Route("GET /jobs/new", "new"),
        Route("GET /", "first"),
        Route("GET /files/{folder}/{name:path}", "file"),
    ]
)


class Application:
    """It holds its table as the console does."""

    def __init__(self) -> None:
        self.table = TABLE

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("method", "path", "answer", "names"),
    [
        ("GET", "/", "first", {}),
        ("HEAD", "/jobs/7", "one", {"job_id": "7"}),
        ("GET", "/jobs/new", "new", {}),
        ("POST", "/jobs/7/revive", "verb", {"job_id": "7", "verb": "revive"}),
        ("GET", "/files/a/b", "file", {"folder": "a", "name": "b"}),
        ("GET", "/files/a/b/c/", "file", {"folder": "a", "name": "b/c/"}),
    ],
)
def test_a_route_is_found_with_the_names_in_its_path(
    method: str, path: str, answer: str, names: dict[str, str]
) -> None:
    found = TABLE.find(method, path)
    assert found is not None
    assert (found.answer, dict(found.names)) == (answer, names)
    assert list(found.names) == list(names), "in the order of the path"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/jobs"),
        ("GET", "/jobs/"),
        ("POST", "/jobs/7"),
        ("PUT", "/"),
        ("GET", ""),
        ("GET", "/jobs/7/x"),
        ("GET", "/files/a"),
        ("GET", "/files/a/"),
        ("GET", "/files//b"),
    ],
)
def test_what_fits_no_route_is_not_found(method: str, path: str) -> None:
    assert TABLE.find(method, path) is None


def test_a_path_says_which_methods_it_answers() -> None:
    assert TABLE.methods("/jobs/7") == ["GET", "HEAD"]
    assert TABLE.methods("/jobs/7/revive") == ["POST"]
    assert TABLE.methods("/nowhere/at/all/x") == []


def test_a_route_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="GET /jobs"):
        RouteTable([Route("GET /jobs", 1), Route("GET /jobs", 2)])


def test_a_table_is_listed_with_the_application_that_holds_it() -> None:
    Application.__module__ = "holdfast.somewhere"  # only our own objects are looked into
    assert routes_of(Application()) == {
        "GET /jobs/{job_id}",
        "POST /jobs/{job_id}/{verb}",
        "GET /jobs/new",
        "GET /",
        "GET /files/{folder}/{name:path}",
    }
