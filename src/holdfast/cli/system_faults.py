"""What can go wrong when systems are found, built and started. The faults belong to the operator's catalog."""

from __future__ import annotations

from holdfast.cli.faults import errors

SYSTEM_UNKNOWN = errors.fault(
    "SYSTEM_UNKNOWN",
    status=404,
    says="There is no system named {name}; there are: {known}.",
    causes=("a misspelt name", "the system's folder was removed"),
    remedy="Name one of those, or none for all.",
)
PART_UNKNOWN = errors.fault(
    "PART_UNKNOWN",
    status=404,
    says="The system {name} has no part named {part}; {known}.",
    causes=("a misspelt name", "the system cannot be divided"),
    remedy="Name one of its parts with --part, or leave the option out to serve all of them.",
)
SYSTEM_BROKEN = errors.fault(
    "SYSTEM_BROKEN",
    status=500,
    says="The system {name} cannot be used: {problem}.",
    causes=("its module raises when it is loaded or built", "an extra that it needs is not installed"),
    remedy='Correct it, serve the others by name, or run: pip install "holdfast[all]".',
)
SYSTEM_NOT_STARTED = errors.fault(
    "SYSTEM_NOT_STARTED",
    status=500,
    says="{name} did not start: {problem}.",
    causes=("something that it needs cannot be reached", "a setting that it cannot use"),
    remedy="Correct what it names, or serve the others by name.",
)
DATA_UNUSABLE = errors.fault(
    "DATA_UNUSABLE",
    status=500,
    says="The folder {folder} cannot be used: {problem}.",
    causes=("it cannot be made or written to", "it belongs to somebody else"),
    remedy="Choose another with --data or HOLDFAST_DATA.",
)
TOKEN_TOO_SHORT = errors.fault(
    "TOKEN_TOO_SHORT",
    status=500,
    says="The operator's token has {chars} characters; it needs at least {least}.",
    causes=("a token that was made up by hand",),
    remedy="Set HOLDFAST_TOKEN to something long and random, or leave it out: then one is made.",
)
SECRET_KEY_INVALID = errors.fault(
    "SECRET_KEY_INVALID",
    status=500,
    says="Stored secrets cannot be encrypted: {problem}.",
    causes=("HOLDFAST_SECRET_KEY holds a key that is too short", "the package that encrypts is not installed"),
    remedy="Make a key with `openssl rand -base64 32`, or leave the variable out.",
)
EXPORT_UNREADABLE = errors.fault(
    "EXPORT_UNREADABLE",
    status=400,
    says="{file} is not an export of a catalog: {problem}.",
    causes=("the file was written by something else", "the file was cut off"),
    remedy="Make one with `holdfast catalog export --format json --output FILE`.",
)
CATALOG_NOT_FOUND = errors.fault(
    "CATALOG_NOT_FOUND",
    status=400,
    says="{where} {problem}.",
    causes=("a misspelt module or name", "the command runs in another folder than the code"),
    remedy="Name the object as MODULE:NAME, such as app.errors:errors, and run this where `import MODULE` works.",
)
CATALOG_BROKEN = errors.fault(
    "CATALOG_BROKEN",
    status=500,
    says="{where} cannot be imported: {problem}.",
    causes=("the module, or one that it imports, raises when it is loaded",),
    remedy="Correct the module; `python -c 'import MODULE'` shows where.",
)
