"""Whether a reply is a failure, and which: by the link's tables, and by its upstream's catalog where it names one."""

from __future__ import annotations

from dataclasses import dataclass

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from holdfast.catalog import Failure, StatusTable, classify_status
from holdfast.catalog.status import FAILED_FROM
from holdfast.guard import Link
from holdfast.http.outgoing import redirect_refused
from holdfast.http.reply import Reply

REDIRECTED_FROM = 300
NOT_MODIFIED = 304
"""The one 3xx that answers the request: with a condition, it is what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Reads replies as one link reads them."""

    link: Link
    statuses: StatusTable | None = None
    """Which statuses are failures; None asks the link's classifier about every one from 400 on."""

    def failure(self, reply: Reply) -> Failure | None:
        """What the reply reports, or None when it is a success."""
        if self.statuses is None and reply.status >= FAILED_FROM:
            return self.link.classifier.classify(_Refused(reply))
        table = StatusTable() if self.statuses is None else self.statuses
        # Most replies name no error: not worth parsing.
        body = reply.body if reply.status >= FAILED_FROM or b'"error' in reply.body else None
        failure = classify_status(reply.status, reply.headers, body, table=table, upstream=self.link.upstream)
        if failure is None and REDIRECTED_FROM <= reply.status < FAILED_FROM and reply.status != NOT_MODIFIED:
            return redirect_refused(URL(reply.url).raw_authority, "not_followed")
        return failure

    def settle(self, failure: Failure) -> None:
        """Give the failure the fault that stands for its own on this link: its remap, its catalog's words."""
        failure.fault = self.link.classifier.ours(failure.fault)


class _Refused(aiohttp.ClientResponseError):
    """The reply as the exception by which classifiers know a status."""

    def __init__(self, reply: Reply) -> None:
        url = URL(reply.url)
        headers = CIMultiDictProxy(CIMultiDict(reply.headers.items()))
        asked = aiohttp.RequestInfo(url.origin(), "", CIMultiDictProxy(CIMultiDict()), url.origin())
        super().__init__(asked, (), status=reply.status, headers=headers)
        self.body = reply.body
