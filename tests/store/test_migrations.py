"""Migrations: each runs once, whoever starts, and one that fails leaves nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from holdfast.catalog import Failure
from holdfast.store import Engine, Store
from holdfast.testing.postgres import PostgresAddress

PROCESSES = 10
SHIPPED = sorted(
    file.name.removesuffix(".sql") for file in resources.files("holdfast.store").joinpath("migrations").iterdir()
)
"""The migrations of the core, in their order."""
MIGRATE = (
    "import sys; from holdfast.store import Store; store = Store.open(sys.argv[1]); sys.stdin.read();"
    " print(*store.migrate()); store.close()"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database with nothing in it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    server: PostgresAddress = request.getfixturevalue("postgres_server")
    name = f"empty_{tmp_path.name[:40]}_{request.getfixturevalue('worker_id')}"
    yield server.create_database(name)
    server.drop_database(name)


def tables(store: Store) -> set[str]:
    catalog = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        if store.engine is Engine.SQLITE
        else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    )
    with store.database.transaction(write=False) as execute:
        return {name for (name,) in execute(catalog.replace("%", "%%" if "pg_" in catalog else "%"), {}).fetchall()}


@pytest.mark.timeout(300)
def test_ten_processes_that_start_at_once_migrate_once(empty_url: str) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE, empty_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(PROCESSES)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.close()
        child.stdin = None
    answers = [child.communicate(timeout=250) for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES, [error for _, error in answers]
    assert sorted(told.strip() for told, _ in answers) == [""] * (PROCESSES - 1) + [" ".join(SHIPPED)]
    store = Store.open(empty_url)
    assert {"holdfast_job", "holdfast_journal", "holdfast_worker", "holdfast_migration"} <= tables(store)
    store.close()


def test_migrating_twice_is_nothing(empty_url: str) -> None:
    store = Store.open(empty_url)
    assert store.migrate() == SHIPPED
    before = tables(store)
    assert store.migrate() == []
    assert tables(store) == before
    store.close()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system of its own, whose migrations the test writes."""
    folder = tmp_path / "shop_of_the_test" / "migrations"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_of_the_test", raising=False)
    return folder


def test_a_failing_migration_leaves_nothing_of_any_that_ran_with_it(empty_url: str, package: Path) -> None:
    store = Store.open(empty_url)
    store.migrate()
    before = tables(store)
    (package / "0001_shop.sql").write_text("CREATE TABLE shop (id TEXT); CREATE TABLE basket (id TEXT);")
    (package / "0002_shop.sql").write_text("CREATE TABLE till (id TEXT); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(Failure) as refused:
        store.migrate("shop_of_the_test", system="shop")
    assert "nowhere" in str(refused.value.__cause__)
    assert tables(store) == before
    (package / "0002_shop.sql").write_text("CREATE TABLE till (id TEXT); INSERT INTO shop VALUES ('100 % --; ''');")
    assert store.migrate("shop_of_the_test", system="shop") == ["0001_shop", "0002_shop"]
    assert tables(store) - before == {"shop", "basket", "till"}
    store.close()


def test_each_system_numbers_its_own_and_new_ones_run_alone(empty_url: str, package: Path) -> None:
    store = Store.open(empty_url)
    store.migrate()
    (package / "0001_core.sql").write_text("CREATE TABLE shop (id TEXT);")
    assert store.migrate("shop_of_the_test", system="shop") == ["0001_core"]
    (package / "0002_more.sql").write_text("CREATE TABLE till (id TEXT);")
    (package / "notes.txt").write_text("no migration")
    assert store.migrate("shop_of_the_test", system="shop") == ["0002_more"]
    assert store.migrate() == []
    store.close()
