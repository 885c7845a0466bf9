"""The one exception of the client, made from whatever the API answered or from the lack of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.base import plain
from holdfast.catalog import Failure
from holdfast_systems.records.faults import RECORDS


class RenderDBError(Exception):
    """What the API answered in place of a result; `code` is the one of its error model."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        request_id: str = "",
        status: int = 0,
        retryable: bool = False,
        retry_after_s: float | None = None,
        documentation_url: str = "",
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.details = dict(details or {})
        self.request_id = request_id
        self.status = status
        """The HTTP status; where there was no answer, the one that stands for that."""
        self.retryable = retryable
        """Whether the same call may work later."""
        self.retry_after_s = retry_after_s
        """How long to wait before that, where the API says so."""
        self.documentation_url = documentation_url

    @classmethod
    def of(cls, failure: Failure) -> RenderDBError:
        """The error that a failure is."""
        shown = plain(dict(failure.details))
        return cls(
            failure.code,
            failure.message,
            details=shown if isinstance(shown, dict) else {},
            request_id=failure.context.request_id,
            status=failure.status,
            retryable=failure.retryable,
            retry_after_s=failure.retry_after_s,
            documentation_url=failure.fault.documentation_url,
        )


def ours(failure: Failure) -> Failure:
    """The failure with the rules of the catalog, where the catalog knows its code."""
    failure.fault = RECORDS.get(failure.code) or failure.fault
    return failure
