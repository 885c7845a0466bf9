"""A sender process of the chaos test: it delivers until it is killed. Arguments: database, and the engine's URL."""

from __future__ import annotations

import sys

from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.worker import Jobs, Worker
from holdfast_systems.credentials.links import sender
from holdfast_systems.credentials.settings import SenderSettings

if __name__ == "__main__":
    url, engine_url = sys.argv[1:]
    store = Store.open(url)
    deliveries = Deliveries(store, Jobs(store))
    handlers = deliveries.handlers(sender(SenderSettings(), engine_url))
    Worker(store, handlers, queues=[deliveries.queue()], lease_s=1.0).run()
