"""A job as the statement takes it: checked, and with an id.

Ids are made before the first try, so a commit whose reply was lost is recognised when it is repeated: nothing doubles.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.base import limits, new_id
from holdfast.base.arguments import is_a
from holdfast.catalog import current_context
from holdfast.catalog.core import BAD_REQUEST
from holdfast.worker.job import NewJob
from holdfast.worker.ledger import payload_text

NAME_CHARS_MAX = 200

Names = tuple[str, str, str]
"""Kind, queue and tenant."""
CHECKED_MAX = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_checked: set[Names] = set()

Prepared = tuple[Any, ...]
"""A job as the statement takes it, in the order of `COLUMNS`."""
COLUMNS = (
    "id", "tenant", "queue", "kind", "priority", "delay_us", "payload", "dedupe_key", "unique_us", "attempts_max",
    "timeout_us", "due_us", "trace",
)  # fmt: skip


def prepared(job: NewJob) -> Prepared:
    """The job with an id of its own.

    Raises:
        Failure: as `as_row`.
    """
    return as_row(job, new_id(), current_context().traceparent or None)


def as_row(job: NewJob, job_id: str, trace: str | None) -> Prepared:
    """The job under this id.

    Raises:
        Failure: BAD_REQUEST names the field; JOB_PAYLOAD_TOO_LARGE.
    """
    check_names((job.kind, job.queue, job.tenant))
    if job.dedupe_key is not None:
        check_name("dedupe_key", job.dedupe_key)
    if type(job.priority) is not int or not -32_768 <= job.priority <= 32_767:
        raise BAD_REQUEST("{field} is a whole number between -32768 and 32767.", field="priority")
    if job.attempts is not None:
        most = limits().attempts_max
        if not (type(job.attempts) is int and 1 <= job.attempts <= most):
            raise BAD_REQUEST("{field} is a whole number between 1 and {most}.", field="attempts", most=most)
    return (
        job_id,
        job.tenant,
        job.queue,
        job.kind,
        job.priority,
        0 if job.delay_s == 0 else _us("delay_s", job.delay_s),
        payload_text(job.payload),
        job.dedupe_key,
        None if job.unique_s is None else _us("unique_s", job.unique_s),
        job.attempts,
        None if job.timeout_s is None else _us("timeout_s", job.timeout_s),
        None if job.due is None else _due_us(job),
        trace,
    )


def check_names(names: Names) -> None:
    """Refuse a kind, queue or tenant that cannot be.

    Raises:
        Failure: BAD_REQUEST names the field.
    """
    # They are few and come again and again.
    try:
        known = names in _checked
    except TypeError:
        known = False  # something unhashable, and no text
    if not known:
        kind, queue, tenant = names
        check_name("kind", kind)
        check_name("queue", queue)
        check_name("tenant", tenant, least=0)
        if len(_checked) < CHECKED_MAX:
            _checked.add(names)


def check_name(field: str, value: object, *, least: int = 1, most: int = NAME_CHARS_MAX) -> None:
    """Refuse a name that is too short, too long or cannot be stored.

    Raises:
        Failure: BAD_REQUEST names the field.
    """
    if not isinstance(value, str) or not least <= len(value) <= most:
        raise BAD_REQUEST("{field} is text of {least} to {most} characters.", field=field, least=least, most=most)
    if "\0" in value or not (value.isascii() or value == value.encode("utf-8", "replace").decode()):
        raise BAD_REQUEST("{field} holds a character that no database stores: NUL or half a pair.", field=field)


def _due_us(job: NewJob) -> int:
    if not isinstance(job.due, datetime) or job.due.tzinfo is None:
        raise BAD_REQUEST("{field} is a datetime with a time zone; write datetime(…, tzinfo=UTC).", field="due")
    if job.delay_s:
        raise BAD_REQUEST("Give {field} or delay_s, not both.", field="due")
    return (job.due - _EPOCH) // _MICROSECOND


def _us(field: str, seconds: float) -> int:
    if not is_a(seconds, (int, float)) or not 0 <= seconds <= limits().delay_s_max:
        raise BAD_REQUEST(
            "{field} is a number of seconds between 0 and {most}.", field=field, most=limits().delay_s_max
        )
    return int(seconds * 1_000_000)
