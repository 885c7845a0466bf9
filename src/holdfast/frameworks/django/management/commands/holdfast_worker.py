"""`manage.py holdfast_worker`: run jobs until SIGTERM or Ctrl-C."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from holdfast.frameworks.django.handlers import HandlersNotNamed, named_handlers, with_connections
from holdfast.frameworks.django.stores import DEFAULT_ALIAS, store
from holdfast.watch import start
from holdfast.worker import Handlers, QueueSettings, Worker
from holdfast.worker.attend import Ended, attend
from holdfast.worker.worker import GRACE_S, LEASE_S


class Command(BaseCommand):
    """Runs the jobs of the handlers that the settings name."""

    help = "Run jobs until SIGTERM or Ctrl-C; what runs is finished first."

    def add_arguments(self, parser: Any) -> None:
        """What may be said on the command line."""
        parser.add_argument("--handlers", help="module:name of the Handlers, instead of HOLDFAST_HANDLERS")
        parser.add_argument("--database", default=DEFAULT_ALIAS, help="alias of the database with the jobs")
        parser.add_argument("--queue", action="append", metavar="NAME[:CONCURRENCY]", help="may be given again")
        parser.add_argument("--lease", type=float, default=LEASE_S, metavar="SECONDS")
        parser.add_argument("--grace", type=float, default=GRACE_S, metavar="SECONDS")

    def handle(self, *_: Any, **options: Any) -> None:
        """Work until told to stop.

        Raises:
            CommandError: there are no handlers, or the worker ended by itself.
        """
        try:
            handlers = with_connections(named_handlers(options["handlers"]))
        except HandlersNotNamed as unnamed:
            raise CommandError(str(unnamed)) from None
        here = store(options["database"])
        queues = _queues(handlers, options["queue"])
        worker = Worker(here, handlers, queues=queues, lease_s=options["lease"], grace_s=options["grace"])
        watching = start(here)
        try:
            ended = attend(here, worker, started=lambda: self.stdout.write(f"works at {here.address}"))
        finally:
            watching.stop()
        if ended is Ended.BROKEN:
            raise CommandError("the worker ended by itself")
        self.stdout.write("has stopped")


def _queues(handlers: Handlers, words: list[str] | None) -> list[QueueSettings] | None:
    """The queues asked for; a breaker that the handlers declare for a queue stays on it."""
    if not words:
        return None
    declared = {one.name: one for one in handlers.queues}
    found = []
    for word in words:
        name, _, count = word.partition(":")
        if count and not count.isdigit():
            raise CommandError(f"--queue {word}: write NAME or NAME:CONCURRENCY")
        one = declared.get(name, QueueSettings(name))
        found.append(replace(one, concurrency=int(count)) if count else one)
    return found
