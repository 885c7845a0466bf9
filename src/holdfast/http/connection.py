"""One connection, as aiohttp's connector keeps it, with a stricter reading of where a reply ends."""

from __future__ import annotations

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

from holdfast.http.framing import Framer, Misframed


class Connection(ResponseHandler):
    """Passes exactly one reply for each request on to the parser; a connection with anything more is cut off."""

    _framer: Framer | None = None

    def expect(self, *, head_only: bool) -> None:
        """A request is about to be sent: the next bytes are its reply."""
        self._framer = Framer(head_only=head_only)

    def data_received(self, data: bytes) -> None:
        """Bytes came; what does not belong to the reply goes no further."""
        framer = self._framer
        if framer is None or not data:
            # No request was sent, which the next user of this connection sees; or the parser goes on with what it has.
            super().data_received(data)
            return
        if framer.done:
            self._cut_off()
            return
        passed, wrong = framer.feed(data)
        if passed:
            super().data_received(passed)
        if wrong is not None:
            self._refuse(wrong, headed=framer.head)
        elif framer.closing:
            self._cut_off()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection ended: a body that lasts until then is whole only if the other side ended it in order."""
        framer = self._framer
        if framer is not None and framer.held and not framer.head:
            super().data_received(framer.held)  # half a head tells more than none
        if exc is not None and framer is not None and framer.until_end and self._payload is not None:
            lost = (
                aiohttp.ClientOSError(*exc.args)
                if isinstance(exc, OSError)
                else aiohttp.ClientConnectionError(str(exc))
            )
            self._payload.set_exception(lost, exc)
        super().connection_lost(exc)

    def _refuse(self, wrong: Misframed, *, headed: bool) -> None:
        error = HttpProcessingError(message=f"broken {wrong}")
        if headed and self._payload is not None:
            refused = aiohttp.ClientPayloadError(f"the reply has a broken {wrong}")
            refused.__cause__ = error
            self._payload.set_exception(refused, error)
        else:
            self.set_exception(error, wrong)
        self._cut_off()

    def _cut_off(self) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.abort()
