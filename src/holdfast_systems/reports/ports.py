"""What the system needs of the world around it; each port has one conformance suite for all that implement it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from holdfast.operate import Audited
from holdfast_systems.reports.model import Document, Patch


class Snapshot(NamedTuple):
    """A run's document as it was read."""

    run_id: str
    document: Document
    update_time: Any
    """When it was written last, by the store's clock; a patch names it as its precondition."""
    read_us: int
    """When it was read, by the store's clock: the clock that rules leases."""


class Page(NamedTuple):
    """Some runs, newest first."""

    runs: Sequence[Mapping[str, Any]]
    next: str | None
    """Where the next page begins; None at the end."""


class FlowRuns(Protocol):
    """The documents of runs. Every method raises FIRESTORE_UNAVAILABLE when the store does not answer."""

    def create(self, run_id: str, document: Document) -> Snapshot | None:
        """Write a new run; None when the id is taken."""

    def get(self, run_id: str) -> Snapshot | None:
        """The run, or None."""

    def patch(self, snapshot: Snapshot, patch: Patch, *, audited: Audited | None = None) -> Snapshot | None:
        """Change these fields, if the document is still the one that was read; None when it is not.

        Args:
            audited: the operator's action that this is; where the runs and the audit are in one database, its row is
                written in the transaction of the change. Elsewhere `Flows` writes it around the change.
        """

    def page(self, *, count: int, after: str | None = None) -> Page:
        """Summaries of runs, newest first."""

    def overdue(self, *, count: int) -> Sequence[Snapshot]:
        """Runs with a step whose lease may have ended."""

    def close(self) -> None:
        """Give connections back."""


class Definition(NamedTuple):
    """One immutable version of a prompt or a schema."""

    version: int
    content: Any
    created: bool = False
    """Whether this call made the version."""


class Definitions(Protocol):
    """Prompts and schemas by id and version. Every method raises FIRESTORE_UNAVAILABLE."""

    def put_prompt(self, prompt_id: str, template: str, *, audited: Audited | None = None) -> Definition:
        """Make this the newest version; the same content as the newest is that version."""

    def prompt(self, prompt_id: str, version: int | None = None) -> Definition | None:
        """A version of a prompt, the newest without one; None when there is none."""

    def put_schema(self, schema_id: str, schema: Mapping[str, Any], *, audited: Audited | None = None) -> Definition:
        """Make this the newest version; the same content as the newest is that version."""

    def schema(self, schema_id: str, version: int | None = None) -> Definition | None:
        """A version of a schema, the newest without one; None when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of the model."""

    model: str
    prompt: str
    schema: Mapping[str, Any]
    timeout_s: float
    images: Sequence[bytes] = field(default=(), repr=False)
    """PNG."""
    temperature: float | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the model said, and what it used. It may have said nothing usable, and still costs."""

    text: str
    input_tokens: int
    output_tokens: int
    blocked: str = ""
    """Why safety filters stopped it."""
    incomplete: str = ""
    """Why the answer is not whole."""


class ModelClosed(Exception):
    """This process is stopping and has cut its own call off: that says nothing about the model."""


class Model(Protocol):
    """A language model with structured output."""

    def generate(self, request: Request) -> Answer:
        """Call the model once.

        Raises:
            Failure: RATE_LIMITED, GEMINI_REQUEST_FAILED or LLM_PROFILE_INVALID.
            ModelClosed: the process is stopping.
        """

    def close(self) -> None:
        """Close every connection."""
