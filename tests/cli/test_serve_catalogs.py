"""`holdfast serve --catalog`: the codes of one's own code have pages, on the site and in the console."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from .serving import COMMAND, SHADOW, STOP_S_MAX, TOKEN, Running, environment_of

ERRORS = """
from holdfast import Catalog

errors = Catalog("{name}")
errors.fault("{code}", status=409, says="The order is gone: {code}.", remedy="Look for it.")
"""
BEARER = {"authorization": f"Bearer {TOKEN}", "accept": "text/html"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with two catalogs of its own."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    for name, code in (("orders", "ORDER_LOST"), ("returns", "RETURN_LOST")):
        (tmp_path / "shop" / f"{name}.py").write_text(ERRORS.format(name=name, code=code))
    return tmp_path


def has_pages(served: Running, code: str) -> None:
    for path, headers in ((f"/errors/{code}", {}), (f"/console/faults/{code}", BEARER)):
        response, text = served.ask(path, headers=headers)
        assert (response.status, f"The order is gone: {code}." in text) == (200, True), path
    assert f"/console/faults/{code}" in served.ask("/console/faults", headers=BEARER)[1]
    assert f"/errors/{code}" in served.ask("/errors/")[1]


def test_own_codes_have_pages(folder: Path) -> None:
    words = ["--catalog", "shop.orders:errors", "--catalog", "shop.returns:errors"]
    with Running(folder, "alpha", *words, HOLDFAST_TOKEN=TOKEN) as served:
        has_pages(served, "ORDER_LOST")
        has_pages(served, "RETURN_LOST")
        assert served.stop(signal.SIGTERM)[0] == 0


def test_the_setting_does_the_same(folder: Path) -> None:
    setting = "shop.orders:errors shop.returns:errors"
    with Running(folder, "alpha", HOLDFAST_TOKEN=TOKEN, HOLDFAST_CATALOG=setting) as served:
        has_pages(served, "ORDER_LOST")
        has_pages(served, "RETURN_LOST")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("shop.orders:lost", "CATALOG_NOT_FOUND"),
        ("shop", "CATALOG_NOT_FOUND"),
        ("shop.none:errors", "CATALOG_NOT_FOUND"),
    ],
)
def test_a_catalog_that_is_not_there_is_refused_at_the_start(folder: Path, where: str, said: str) -> None:
    ended = subprocess.run(
        [*COMMAND, "serve", "alpha", "--port", "0", "--catalog", where],
        cwd=folder,
        env=environment_of(SHADOW, HOLDFAST_TOKEN=TOKEN),
        capture_output=True,
        text=True,
        timeout=STOP_S_MAX,
        check=False,
    )
    assert ended.returncode != 0
    assert "CATALOG_NOT_FOUND" in ended.stderr
    assert "Traceback" not in ended.stderr
