"""The fields of every body as a table: it checks requests and imported rows alike, and it is what the API describes.

Always true: everything that is wrong is told at once, each with its field, value, constraint and message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from holdfast.catalog import Failure
from holdfast_systems.records.faults import VALIDATION_ERROR
from holdfast_systems.records.model import COMPANY_SHAPE, ID_SHAPE, PERSON_SHAPE, OnConflict, Role, is_plain_website

NAME_CHARS_MAX = 200
WEBSITE_CHARS_MAX = 500
EMAIL_CHARS_MAX = 254
VALUE_CHARS_MAX = 200
"""Maximum number of characters of a bad value that are shown."""
PROBLEMS_MAX = 50

_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*\Z", re.I)
_EMAIL = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+\Z"
)
# A database keeps no NUL, and half of a surrogate pair has no UTF-8.
_UNKEEPABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

Problem = dict[str, Any]
Check = Callable[[str], tuple[str, str] | None]
"""What is wrong with a text: the constraint and the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a body; all of them are texts."""

    name: str
    title: str
    required: bool = False
    clearable: bool = False
    """Whether null takes the value away."""
    chars_max: int = NAME_CHARS_MAX
    check: Check | None = None
    pattern: str = ""
    shape: str = ""
    """The pattern as a person reads it."""
    choices: tuple[str, ...] = ()
    format: str = ""
    example: str = ""

    def problem(self, value: object) -> tuple[str, str] | None:
        """What is wrong with the value: the constraint and the message; None when it is good."""
        if value is None or value == "" or (isinstance(value, str) and not value.strip()):
            return ("required", f"{self.title} is required") if self.required else None
        if not isinstance(value, str):
            return "type", f"{self.title} must be text"
        if len(value) > self.chars_max:
            return "max_length", f"{self.title} must have at most {self.chars_max} characters"
        if _UNKEEPABLE.search(value):
            return "format", f"{self.title} holds characters that cannot be kept"
        if self.choices and value not in self.choices:
            return "enum", f"{self.title} must be one of {', '.join(self.choices)}"
        if self.pattern and not re.fullmatch(self.pattern, value, re.ASCII):
            return "pattern", f"Must match pattern: {self.shape}"
        return None if self.check is None else self.check(value)

    def schema(self) -> dict[str, Any]:
        """The field as JSON Schema says it."""
        said: dict[str, Any] = {"type": "string", "maxLength": self.chars_max}
        if self.required:
            said["minLength"] = 1
        if self.choices:
            said = {"type": "string", "enum": list(self.choices)}
        if self.pattern:
            said["pattern"] = f"^{self.pattern}$"
        if self.format:
            said["format"] = self.format
        if self.example:
            said["examples"] = [self.example]
        return {"anyOf": [said, {"type": "null"}]} if self.clearable else said


def _website(value: str) -> tuple[str, str] | None:
    if is_plain_website(value):
        return None
    wrong = "format", "Website must be an http or https address"
    try:
        parts = urlsplit(value)
        good = (
            parts.scheme.lower() in ("http", "https")
            and bool(_HOST.match(parts.hostname or ""))
            and parts.port != 0
            and "@" not in parts.netloc
            and not re.search(r"[\s\\]", value)
        )
    except ValueError:
        return wrong
    return None if good else wrong


def _email(value: str) -> tuple[str, str] | None:
    name, _, host = value.partition("@")
    good = _EMAIL.match(value) and not name.startswith(".") and not name.endswith(".") and ".." not in name
    return None if good and len(host) <= 253 else ("format", "Must be a valid e-mail address")


NAME = Field(name="name", title="Company name", required=True, example="Acme")
WEBSITE = Field(
    name="website",
    title="Website",
    clearable=True,
    chars_max=WEBSITE_CHARS_MAX,
    check=_website,
    format="uri",
    example="https://acme.example",
)
INDUSTRY = Field(name="industry", title="Industry", clearable=True, example="Manufacturing")
COMPANY_UID = Field(
    name="company_uid",
    title="Company",
    required=True,
    pattern=COMPANY_SHAPE,
    shape="CO-YYYYMMDD-######",
    example="CO-20240828-000001",
)
FULL_NAME = Field(name="full_name", title="Full name", required=True, example="Ada Lovelace")
EMAIL = Field(
    name="email",
    title="E-mail",
    required=True,
    chars_max=EMAIL_CHARS_MAX,
    check=_email,
    format="email",
    example="ada@acme.example",
)
ROLE = Field(name="role", title="Role", clearable=True, example="Chief executive")
PERSON_UID = Field(
    name="person_uid",
    title="Person",
    required=True,
    pattern=PERSON_SHAPE,
    shape="PE-YYYYMMDD-######",
    example="PE-20240828-000001",
)
ON_CONFLICT = Field(name="on_conflict", title="On conflict", choices=tuple(OnConflict), example="fail")

COMPANY = (NAME, WEBSITE, INDUSTRY)
PERSON = (COMPANY_UID, FULL_NAME, EMAIL, ROLE)
ASSIGNMENT = (PERSON_UID, ON_CONFLICT)
ENRICHMENT = (COMPANY_UID,)
ROLES = tuple(Role)
ID = re.compile(rf"{ID_SHAPE}\Z", re.ASCII)


def read(document: object, fields: Sequence[Field]) -> dict[str, str | None]:
    """The values of a body, None for what is not there.

    Raises:
        Failure: VALIDATION_ERROR with everything that is wrong.
    """
    found = problems(document, fields)
    if found:
        raise refused(found)
    assert isinstance(document, dict)
    return {field.name: kept(document.get(field.name)) for field in fields}


def read_change(document: object, fields: Sequence[Field]) -> dict[str, str | None]:
    """The values that a PATCH names; null takes away what may be taken away.

    Raises:
        Failure: VALIDATION_ERROR with everything that is wrong.
    """
    named = [field for field in fields if isinstance(document, dict) and field.name in document]
    found = problems(document, named, known=fields)
    if found:
        raise refused(found)
    assert isinstance(document, dict)
    return {field.name: kept(document[field.name]) for field in named}


def problems(document: object, fields: Sequence[Field], *, known: Sequence[Field] | None = None) -> list[Problem]:
    """Everything that is wrong with a body, in the order of its fields."""
    if not isinstance(document, dict):
        return [problem("body", None, "type", "The body must be a JSON object")]
    found = []
    for field in fields:
        value = document.get(field.name)
        wrong = field.problem(value)
        if wrong is not None:
            found.append(problem(field.name, value, *wrong))
    names = {field.name for field in known or fields}
    return [*found, *(unknown(name, document[name]) for name in document if name not in names)]


def unknown(name: str, value: object) -> Problem:
    """The entry of a field that there is not."""
    return problem(name[:VALUE_CHARS_MAX], value, "unknown_field", "There is no such field")


def refused(found: Sequence[Problem]) -> Failure:
    """The failure that tells of these problems; `total_errors` counts those that are not shown, too."""
    return VALIDATION_ERROR(errors=list(found[:PROBLEMS_MAX]), total_errors=len(found))


def problem(field: str, value: object, constraint: str, message: str) -> Problem:
    """One entry of a VALIDATION_ERROR; a container is not shown, and a long text is cut."""
    shown = value if isinstance(value, str | int | float | bool | None) else type(value).__name__
    shown = shown[:VALUE_CHARS_MAX] if isinstance(shown, str) else shown
    return {"field": field, "value": shown, "constraint": constraint, "message": message}


def kept(value: str | None) -> str | None:
    """The text as it is stored; blank is nothing."""
    return (value.strip() or None) if value is not None else None


def schema(fields: Sequence[Field], *, change: bool = False) -> dict[str, Any]:
    """The body as JSON Schema says it."""
    required = [] if change else [field.name for field in fields if field.required]
    return {
        "type": "object",
        "properties": {field.name: field.schema() for field in fields},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def readable(document: Mapping[str, Any], name: str) -> str:
    """A text of a document; empty when it is none."""
    value = document.get(name)
    return value if isinstance(value, str) else ""
