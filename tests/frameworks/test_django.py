"""Django: the project of docs/how/django.md runs on both engines, and its connections are joined as promised."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.store import Store
from holdfast.worker import Jobs

PAGE = Path(__file__).parents[2] / "docs" / "how" / "django.md"
BLOCK = re.compile(r"^```python\n# (?P<name>[\w/]+\.py)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
WITHIN_S = 100.0
MANAGE = """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
POSTGRESQL = """
DATABASES["default"] = {{
    "ENGINE": "django.db.backends.postgresql", "NAME": "{dbname}", "USER": "{user}", "HOST": "{host}", "PORT": {port},
}}
"""
BESIDE = """
DATABASES["other"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).parent / "other.sqlite3"}
"""
SETUP = "import django; django.setup()\n"


class Project:
    """The page's files in a folder, and its commands."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        for found in BLOCK.finditer(PAGE.read_text()):
            file = folder / found["name"]
            file.parent.mkdir(exist_ok=True)
            file.write_text(found["text"])
        (folder / "shop" / "__init__.py").touch()
        (folder / "manage.py").write_text(MANAGE)
        settings = folder / "settings.py"
        more = BESIDE
        if url.startswith("postgresql"):
            more += POSTGRESQL.format(**psycopg.conninfo.conninfo_to_dict(url))
        settings.write_text(settings.read_text() + more)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "error", *words],
            cwd=self.folder,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "settings"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            umask=0o077,  # other users may not open the database
            text=True,
        )

    def run(self, *words: str) -> str:
        process = self.start(*words)
        said, _ = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0, said
        return said

    def ask(self, text: str) -> str:
        """Run this inside the project."""
        return self.run("-c", SETUP + text)


@pytest.fixture(params=["sqlite", "postgresql"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    url = f"sqlite:///{tmp_path / 'shop.sqlite3'}"
    if request.param == "postgresql":
        url = str(request.getfixturevalue("postgres_empty_dsn"))
    made = Project(tmp_path, url)
    made.run("manage.py", "makemigrations", "shop")
    assert "Holdfast: 0001_baseline" in made.run("manage.py", "migrate")
    return made


@pytest.fixture
def postgres_empty_dsn(postgres_server: Any, worker_id: str) -> Iterator[str]:
    """A database without any tables."""
    name = f"django_{worker_id}"
    postgres_server.drop_database(name)
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


def test_the_page_is_a_project_that_runs(project: Project) -> None:
    worker = project.start("manage.py", "holdfast_worker", "--queue", "default:2")
    try:
        assert worker.stdout is not None
        assert "works at" in worker.stdout.readline()
        assert project.run("check.py").endswith("all is well\n")
        worker.send_signal(signal.SIGTERM)
        said, _ = worker.communicate(timeout=WITHIN_S)
        assert (worker.returncode, said) == (0, "has stopped\n")
    finally:
        worker.kill()
        worker.communicate(timeout=WITHIN_S)
    store = Store.open(project.url)
    (job,) = Jobs(store).list()
    assert [event["verb"] for event in Jobs(store).history(job["id"])] == ["enqueued", "claimed", "finished"]
    store.close()


JOINED = """
from django.db import connection, connections, transaction
from holdfast.base import bus
from holdfast.frameworks.django import jobs, store
from holdfast.store import JoinRefused
from shop.models import Order

def refused(joining, wanted):
    try:
        joining()
    except JoinRefused as told:
        assert wanted in str(told), told
    else:
        raise AssertionError("it was joined")

refused(lambda: store().join(connection), "transaction.atomic()")
with bus.heard() as told:
    try:
        with transaction.atomic():
            jobs().enqueue("k", tx=store().join(connection))
            raise LookupError
    except LookupError:
        pass
    assert jobs().list() == [] and told == []
    with transaction.atomic():
        Order.objects.create(item="lamp")
        tx = store().join(connection)
        kept = jobs().enqueue("k", tx=tx)
        try:
            with transaction.atomic():
                undone = jobs().enqueue("k", tx=tx)
                raise LookupError
        except LookupError:
            pass
        assert told == [], "nothing is told before the commit"
    assert [(verb, facts["id"]) for verb, facts in told] == [("job.enqueued", kept.id)]
assert [job["id"] for job in jobs().list()] == [kept.id]
refused(lambda: jobs().enqueue("k", tx=tx), "transaction.atomic()")
with transaction.atomic(using="other"):
    wanted = "goes to" if connection.vendor == "sqlite" else "on a postgresql store"
    refused(lambda: store().join(connections["other"]), wanted)
print("all is well")
"""


def test_joining_follows_djangos_transactions_and_its_savepoints(project: Project) -> None:
    assert project.ask(JOINED) == "all is well\n"


def test_handlers_that_are_not_named_are_one_clear_line(tmp_path: Path) -> None:
    project = Project(tmp_path, f"sqlite:///{tmp_path / 'shop.sqlite3'}")
    process = project.start("manage.py", "holdfast_worker", "--handlers", "shop.models:Order")
    said, _ = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    assert said == "CommandError: shop.models:Order is of type ModelBase; it has to be a holdfast.Handlers\n"
