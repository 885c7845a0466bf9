"""What the console itself refuses."""

from __future__ import annotations

from holdfast.catalog import Catalog

CONSOLE = Catalog("console", docs="/errors/")

CONSOLE_BUSY = CONSOLE.fault(
    "CONSOLE_BUSY",
    status=503,
    says="The console has as much in hand as it takes.",
    retry=True,
    causes=("too many pages with live updates are open", "too much work on many dead letters runs"),
    remedy="Close pages that nobody looks at, or wait until the running work has ended.",
)
