"""What can go wrong in the operator's hand, beyond what the core declares."""

from __future__ import annotations

from holdfast.catalog import Catalog

errors = Catalog("cli")

HANDLERS_NOT_FOUND = errors.fault(
    "HANDLERS_NOT_FOUND",
    status=400,
    says="{where} {problem}.",
    causes=("a misspelt module or name", "the command runs in another folder than the code"),
    remedy="Name the object as MODULE:NAME, such as app.jobs:handlers, and run this where `import MODULE` works.",
)
HANDLERS_BROKEN = errors.fault(
    "HANDLERS_BROKEN",
    status=500,
    says="{where} cannot be imported: {problem}.",
    causes=("the module, or one that it imports, raises when it is loaded",),
    remedy="Correct the module; `python -c 'import MODULE'` shows where.",
)
DATABASE_NOT_FOUND = errors.fault(
    "DATABASE_NOT_FOUND",
    status=404,
    says="There is no database at {address}.",
    causes=("the command runs in another folder", "the address is not the one that the service uses"),
    remedy="Name it with --database or HOLDFAST_DATABASE, or make it with `holdfast migrate`.",
)
SCHEMA_OUTDATED = errors.fault(
    "SCHEMA_OUTDATED",
    status=500,
    says="The database has not got our tables, or older ones.",
    causes=("`holdfast migrate` was not run since the last upgrade",),
    remedy="Run `holdfast migrate`.",
)
DRIVER_MISSING = errors.fault(
    "DRIVER_MISSING",
    status=500,
    says="PostgreSQL needs {module}, which is not installed.",
    remedy='Run: pip install "holdfast[postgresql]".',
)
DATABASE_UNUSABLE = errors.fault(
    "DATABASE_UNUSABLE",
    status=500,
    says="The database at {address} cannot be used: {problem}.",
    causes=("the folder or the file cannot be made or written to", "the file is something else, or damaged"),
    remedy="Check the path, what lies there and who may write there.",
)
WORKER_BROKEN = errors.fault(
    "WORKER_BROKEN",
    status=500,
    says="The worker ended without having been asked.",
    causes=("an error of Holdfast itself",),
    remedy="Start it again, and report what it wrote above.",
)
