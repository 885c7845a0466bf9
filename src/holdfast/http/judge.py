"""Whether a reply is a failure, and which: the link's tables, and the upstream's own words when it speaks a dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from holdfast.base import CodecError, decode
from holdfast.catalog import Catalog, Classifier, Failure, StatusTable, classify_status
from holdfast.catalog.dialect import Dialect
from holdfast.catalog.fault import CODE_SHAPE
from holdfast.catalog.parsing import dialect_of, parse
from holdfast.catalog.status import FAILED_FROM
from holdfast.http.outgoing import REDIRECTS, redirect_refused
from holdfast.http.reply import Reply

PROBLEM_TYPE = "application/problem+json"

# A 2xx that says nothing but this is an error that forgot its status; with anything else beside it, it is data.
_ERROR_ONLY = {
    Dialect.NESTED: frozenset({"error"}),
    Dialect.FLAT: frozenset({"error", "code", "details"}),
    Dialect.FULL: frozenset(
        {"error_code", "message", "details", "request_id", "timestamp", "retry_after", "documentation_url"}
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Reads replies as one link reads them."""

    classifier: Classifier
    statuses: StatusTable | None = None
    """Which statuses are failures; None asks the classifier about every one from 400 on."""
    catalog: Catalog | None = None
    """The upstream's own faults, for codes in its error bodies."""

    def failure(self, reply: Reply) -> Failure | None:
        """What the reply reports, or None when it is a success."""
        by_status = self._by_status(reply)
        if by_status is None and reply.status in REDIRECTS:
            return redirect_refused(URL(reply.url).raw_authority, "not_followed")
        if by_status is None and not _is_error(reply):
            return None
        named = self._named(reply, failed=by_status is not None)
        return by_status if named is None else named

    def settle(self, failure: Failure) -> None:
        """Give the failure the fault that stands for its own on this link: its remap, its catalog's words."""
        # The classifier leaves a failure alone, but reads through a group of one.
        failure.fault = self.classifier.classify(ExceptionGroup("reply", [failure])).fault

    def _by_status(self, reply: Reply) -> Failure | None:
        if self.statuses is not None:
            return classify_status(reply.status, reply.headers, table=self.statuses)
        return self.classifier.classify(_carrier(reply)) if reply.status >= FAILED_FROM else None

    def _named(self, reply: Reply, *, failed: bool) -> Failure | None:
        """The failure that the body names by a code; None when it names none."""
        document = _document(reply)
        if dialect_of(document) is None or not _code(document):
            return None
        # A status that says all is well says nothing about the error.
        found = parse(reply.body, status=reply.status if failed else None, headers=reply.headers, catalog=self.catalog)
        if found.code != _code(document):
            return None
        found.details = {**found.details, "upstream_status": reply.status}
        return found


def _is_error(reply: Reply) -> bool:
    if b'"error' not in reply.body and reply.content_type != PROBLEM_TYPE:
        return False  # most replies: not worth parsing
    document = _document(reply)
    dialect = dialect_of(document)
    if dialect is None or not _code(document):
        return False
    return reply.content_type == PROBLEM_TYPE or document.keys() <= _ERROR_ONLY.get(dialect, frozenset())


def _document(reply: Reply) -> Any:
    try:
        return decode(reply.body)
    except CodecError:
        return None


def _code(document: Any) -> str:
    """The code in a body of any dialect; empty when there is none that could be one."""
    inner = document.get("error")
    holder = inner if isinstance(inner, dict) else document
    code = holder.get("error_code", holder.get("code"))
    return code if isinstance(code, str) and CODE_SHAPE.match(code) else ""


def _carrier(reply: Reply) -> aiohttp.ClientResponseError:
    """The reply as the exception by which classifiers know a status."""
    url = URL(reply.url)
    headers = CIMultiDictProxy(CIMultiDict(reply.headers.items()))
    asked = aiohttp.RequestInfo(url.origin(), "", CIMultiDictProxy(CIMultiDict()), url.origin())
    return aiohttp.ClientResponseError(asked, (), status=reply.status, headers=headers)
