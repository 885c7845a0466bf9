"""A worker that does ingestions in a process of its own, to be killed.

It has the handler and what the handler needs, and no routes: it is started often, and starts in a third of the time.
Arguments: database, settings as JSON.
"""

from __future__ import annotations

import json
import sys

from holdfast.artifact import Artifacts
from holdfast.base import Secret
from holdfast.store import Store
from holdfast.worker import Handlers, QueueSettings, Worker
from holdfast_systems.commerce import tables
from holdfast_systems.commerce.control_plane.ingestion import Ingestions, Links
from holdfast_systems.commerce.control_plane.rag import Ragflow
from holdfast_systems.commerce.control_plane.storage import Storage
from holdfast_systems.commerce.control_plane.uploads import INGEST, QUEUE
from holdfast_systems.commerce.settings import PREFIX, read_settings

LEASE_S = 1.0
"""Short, so that a test need not wait for long until the process is taken for dead."""


def main(url: str, given: str) -> None:
    settings = read_settings({PREFIX + name.upper(): value for name, value in json.loads(given).items()})
    store = Store.open(url)
    tables.prepare(store)
    ingestions = Ingestions(
        store,
        Storage(Artifacts.open(settings.artifacts), address="", secret=Secret("")),
        lambda client: Ragflow(
            client,
            address=settings.ragflow_url,
            key=settings.ragflow_key,
            timeout_s=settings.rag_ingest_timeout_s,
        ),
        Links(settings),
        settings,
    )
    handlers = Handlers()
    handlers.serve(QueueSettings(QUEUE))
    handlers.handle(INGEST)(ingestions.work)
    worker = Worker(store, handlers, lease_s=LEASE_S)
    worker.start()
    worker.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
